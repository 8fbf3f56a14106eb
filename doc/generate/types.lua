--- Makes the annotations for LuaLS (lua-language-server) from the docstrings.
local vocabulary = require "doc.generate.vocabulary"

local M = {}

local WIDTH = 100

local HEAD = [[
---@meta %s
-- Made from the docstrings of etcdlock.
]]

-- The files to make: path below the directory of the annotations, name of the module, class of the
-- module, and the other classes in the file.
M.FILES = {
  {
    path = "etcdlock.lua", module = "etcdlock", class = "etcdlock",
    classes = { "client", "lock", "pending", "semaphore", "election", "observer" },
  },
  {
    path = "resty/etcdlock.lua", module = "resty.etcdlock", class = "resty.etcdlock",
    classes = { "resty_lock" },
  },
  {
    path = "etcdlock/testing.lua", module = "etcdlock.testing", class = "etcdlock.testing",
    classes = {},
  },
}

-- Returns the type |kind| of a docstring in the notation of LuaLS.
local function luals(kind)
  local list = kind:match "^{(.*),%.%.%.}$"
  if list then
    local inner = luals(list)
    return (inner:find "|" and "(" .. inner .. ")" or inner) .. "[]"
  end
  local parts = {}
  for part in kind:gmatch "[^|]+" do
    local known = part:find "^{" and luals(part) or (vocabulary[part] or {}).luals
    parts[#parts + 1] = known or error("no such type: " .. kind)
  end
  return table.concat(parts, "|")
end

local function wrap(out, text)
  local line = "---"
  for word in text:gmatch "%S+" do
    if #line + 1 + #word > WIDTH and line ~= "---" then
      out[#out + 1], line = line, "---"
    end
    line = line == "---" and line .. word or line .. " " .. word
  end
  out[#out + 1] = line
end

local function describe(out, text)
  for paragraph in (text .. "\n\n"):gmatch "(.-)\n\n" do
    if out[#out] and out[#out]:find "^%-%-%-[^@]" then out[#out + 1] = "---" end
    wrap(out, paragraph)
  end
end

local function annotate(out, tag, text)
  out[#out + 1] = (("---@%s %s"):format(tag, text):gsub("%s+$", ""))
end

-- ---- functions --------------------------------------------------------------

-- Adds |kind| to |place|, the set of types that one result can have. |name|: the name of the
-- result.
local function add(place, kind, name)
  for part in kind:gmatch "[^|]+" do
    if not place[part] then
      place[part] = true
      place[#place + 1] = part
    end
  end
  place.name = place.name or name
end

-- Returns the list of the places of the first, second, third … result, each with its possible
-- types, from all groups and from failures. Also returns the number of the place from which on the
-- results have any type; nil if there is none.
local function places(item)
  local list, rest = {}, nil
  local function at(i)
    list[i] = list[i] or {}
    return list[i]
  end
  for _, group in ipairs(item.results) do
    for i, result in ipairs(group) do
      if result.type == "any" then
        rest = i
      elseif not rest or i < rest then
        add(at(i), luals(result.type))
      end
    end
    for i = #group + 1, #list do add(list[i], "nil") end
  end
  if item.fail and item.fail ~= "never" then
    add(at(1), "nil")
    if not rest then
      add(at(2), "string", "message")
      if item.fail:match "^%w+" ~= "text" then add(at(3), "etcdlock.code", "code") end
      for i = 2, #list do add(list[i], "nil") end
    end
  end
  return list, rest
end

local function describe_results(out, item)
  local list, rest = places(item)
  for _, place in ipairs(list) do
    local kind = table.concat(place, "|"):gsub("^true|false$", "boolean")
    annotate(out, "return", kind .. (place.name and " " .. place.name or ""))
  end
  if rest then
    annotate(out, "return", "any ... what `fn` has returned; or a message and a code")
  end
end

-- The result of a function with an overload, by name, if it is not the result of its parameter
-- `fn`.
local RETURNED = { wrap = "function" }

-- Adds an overload without the options. They are the last parameter but one, and a caller may omit
-- them although a parameter follows.
local function describe_overload(out, item, self)
  local last = item.params[#item.params]
  local before = item.params[#item.params - 1]
  if not before or not before.opt or last.opt then return end
  local list = { self and "self: " .. luals(self) }
  for i, param in ipairs(item.params) do
    if i ~= #item.params - 1 then
      list[#list + 1] = param.name .. ": " .. luals(param.type)
    end
  end
  annotate(out, "overload", ("fun(%s): %s"):format(table.concat(list, ", "),
    RETURNED[item.name] or table.concat(places(item)[1], "|") .. ", any, ..."))
end

-- Functions that may fail, and whose results a program may ignore, because nothing is lost: what
-- was to end has ended, or ends with the lease.
local MAY_BE_IGNORED = { unlock = true, cancel = true, resign = true,
  on_lost = true }

local function must_be_used(item)
  return item.fail and item.fail ~= "never" and not MAY_BE_IGNORED[item.name]
end

local function describe_function(out, item, class, self)
  out[#out + 1] = ""
  describe(out, item.text)
  if item.raise and item.raise ~= "never" then wrap(out, "Raises " .. item.raise .. ".") end
  if item.fail and item.fail ~= "never" then
    wrap(out, (item.fail:find "^as " and "Fails " or "Fails with ") .. item.fail .. ".")
  end
  local names = {}
  for i, param in ipairs(item.params) do
    names[i] = param.name
    annotate(out, "param", param.name .. (param.opt and "? " or " ") .. luals(param.type)
      .. " " .. param.text)
  end
  describe_overload(out, item, self)
  describe_results(out, item)
  if must_be_used(item) then out[#out + 1] = "---@nodiscard" end
  out[#out + 1] = ("function %s%s%s(%s) end"):format(class, self and ":" or ".", item.name,
    table.concat(names, ", "))
end

-- ---- tables -----------------------------------------------------------------

-- Describes a table of words, such as the error codes, as an alias.
local function describe_words(out, item)
  annotate(out, "alias", vocabulary[item.name].luals)
  for _, word in ipairs(item.params) do
    out[#out + 1] = ('---| "%s" # %s'):format(word.name, word.text)
  end
end

local function describe_table(out, item)
  out[#out + 1] = ""
  describe(out, item.text)
  if not item.params[1].type then return describe_words(out, item) end
  annotate(out, "class", "(exact) " .. vocabulary[item.name].luals)
  for _, field in ipairs(item.params) do
    local default = type(field.opt) == "string" and (" (default: %s)"):format(field.opt) or ""
    annotate(out, "field", field.name .. (field.opt and "? " or " ") .. luals(field.type)
      .. " " .. field.text .. default)
  end
end

-- Describes the numeric types of the vocabulary, such as seconds, as aliases.
local function describe_numbers(out)
  local names = {}
  for name, entry in pairs(vocabulary) do
    if entry.number then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local entry = vocabulary[name]
    out[#out + 1] = ""
    wrap(out, entry.says)
    annotate(out, "alias", entry.luals .. " " .. entry.number)
  end
end

-- ---- files --------------------------------------------------------------------

local function is_of(item, file)
  if item.class == file.class then return true end
  for _, class in ipairs(file.classes) do
    if item.class == class then return true end
  end
  return false
end

--- Returns the text of |file|, one of FILES.
function M.text(model, file)
  local out = { (HEAD:format(file.module):gsub("\n$", "")) }
  if file.class == "etcdlock" then describe_numbers(out) end
  for _, item in ipairs(model) do
    if item.is_table and is_of(item, file) then describe_table(out, item) end
  end
  for _, class in ipairs(file.classes) do
    out[#out + 1] = ""
    annotate(out, "class", vocabulary[class].luals)
    if class == "observer" then
      annotate(out, "overload", "fun(): string|false|nil, string?, etcdlock.token?,"
        .. " etcdlock.seconds?")
    end
    out[#out + 1] = ("local %s = {}"):format(class)
    for _, item in ipairs(model) do
      if not item.is_table and item.class == class then
        describe_function(out, item, class, class)
      end
    end
  end
  out[#out + 1] = ""
  -- The module resty.etcdlock replaces lua-resty-lock. Its class inherits the methods of a lock.
  annotate(out, "class", file.module .. (vocabulary.resty_module.luals == file.module
    and " : " .. vocabulary.resty_lock.luals or ""))
  out[#out + 1] = file.classes[1] and 'local M = { _VERSION = "" }' or "local M = {}"
  for _, item in ipairs(model) do
    if not item.is_table and item.class == file.class then describe_function(out, item, "M") end
  end
  out[#out + 1] = "\nreturn M\n"
  return table.concat(out, "\n")
end

return M
