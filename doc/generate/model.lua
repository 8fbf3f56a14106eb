--- Reads the docstrings of the public modules, which are in the format of LDoc. The reference and
-- the annotations for LuaLS are made from them. A spec checks that the docstrings are complete.
local M = {}

-- The public modules, in the order of the annotations.
local FILES = {
  "etcdlock/init", "etcdlock/connect_options", "etcdlock/lock_options", "etcdlock/client",
  "etcdlock/queue", "etcdlock/once", "etcdlock/lock", "etcdlock/guarded", "etcdlock/pending",
  "etcdlock/semaphore", "etcdlock/election", "etcdlock/observer", "resty/etcdlock",
  "etcdlock/testing",
}

-- The tags of LDoc that docstrings use, and two of etcdlock:
--   fail    the codes with which a call fails: its results are then nil, message and one of these
--   forms   what the other forms of the call take, see FORMS
local TAGS = {}
for tag in ("module submodule classmod alias function table tparam treturn tfield field raise fail "
  .. "forms"):gmatch "%l+" do
  TAGS[tag] = true
end

-- Returns |text| as one line: each sequence of white space becomes one space.
local function line(text)
  return (((text or ""):gsub("%s+", " ")):gsub("^ ", ""):gsub(" $", ""))
end

-- Returns |text| with each paragraph as one line. An empty line separates paragraphs.
local function paragraphs(text)
  local list = {}
  for paragraph in (text:gsub("\n%s*\n", "\1") .. "\1"):gmatch "([^\1]*)\1" do
    if paragraph:find "%S" then list[#list + 1] = line(paragraph) end
  end
  return table.concat(list, "\n\n")
end

-- Returns the docstrings of a file. Each is a list of its tags, { tag, modifier, text }, with the
-- text before the first tag as `text`, and the line of code below it as `code`.
local function read(path)
  local list, open = {}, nil
  for text in io.lines(path) do
    local comment = text:match(open and "^%-%-%-? ?(.*)" or "^%-%-%- (.*)")
    if comment then
      open = open or { text = "" }
      local tag, rest = comment:match "^@(%l+)(.*)"
      if tag then
        if not TAGS[tag] then error(path .. ": no docstring has the tag @" .. tag) end
        local modifier = rest:match "^%b[]" or ""
        rest = rest:sub(#modifier + 1)
        open[#open + 1] = { tag = tag, modifier = modifier:sub(2, -2), text = rest }
      else
        local last = open[#open] or open
        last.text = last.text .. "\n" .. comment
      end
    elseif open then
      open.code = text
      list[#list + 1], open = open, nil
    end
  end
  return list
end

-- Returns the text of the first |tag| of a docstring as one line, or nil.
local function find(docstring, tag)
  for _, entry in ipairs(docstring) do
    if entry.tag == tag then return line(entry.text) end
  end
end

-- Returns a parameter or a field as { name, type, text, opt }. `opt` is the default as a string,
-- true if it is optional without a default, and otherwise nil. A default with spaces is written in
-- quotation marks. A @field has no type.
local function parameter(entry)
  local kind, rest = nil, entry.text
  if entry.tag ~= "field" then kind, rest = rest:match "^%s*(%S+)(.*)" end
  local name, text = rest:match "^%s*(%S+)(.*)"
  local default = entry.modifier:match "^opt=(.*)"
  return {
    name = name, type = kind, text = line(text),
    opt = default and default:gsub('^"(.*)"$', "%1") or entry.modifier == "opt" or nil,
  }
end

-- Returns the description of what a docstring of |class| describes: a function or a table. Returns
-- nil for the docstring of a module.
--   params    parameters or fields
--   results   groups of results; a group is the list of the results { type, text } that the
--             function returns together
local function describe(docstring, class)
  local is_table = find(docstring, "table")
  local name = is_table or find(docstring, "function")
    or docstring.code:match "^function %a+(:?[%w_.]+)%("
  if not name then return nil end
  local item = {
    class = name:match "^(.+):" or class, name = name:match "[^.:]*$",
    is_method = name:find ":" ~= nil, is_table = is_table ~= nil,
    text = paragraphs(docstring.text), params = {}, results = {},
    fail = find(docstring, "fail"), raise = find(docstring, "raise"),
    forms = find(docstring, "forms"),
  }
  for _, entry in ipairs(docstring) do
    if entry.tag == "treturn" then
      local group = tonumber(entry.modifier) or 1
      local kind, text = entry.text:match "^%s*(%S+)(.*)"
      item.results[group] = item.results[group] or {}
      table.insert(item.results[group], { type = kind, text = line(text) })
    elseif entry.tag == "tparam" or entry.tag == "tfield" or entry.tag == "field" then
      table.insert(item.params, parameter(entry))
    end
  end
  return item
end

-- ---- the forms of a call ------------------------------------------------------

-- A call that takes a lock has three more forms: the name of each, a pattern of this name, and the
-- form of client:lock that it is like.
local FORMS = {
  { "try_%s", "^try_", "client:try_lock" }, { "with_%s", "^with_", "client:with_lock" },
  { "%s_async", "_async$", "client:lock_async" },
}

-- Returns the description of a form of |base|, which is as the call |like|, but for base.forms.
local function describe_form(base, name, like)
  local params = {}
  for i, param in ipairs(base.params) do params[i] = param end
  local last = like.params[#like.params]
  if last.name == "fn" then params[#params + 1] = last end
  local call = "client:" .. like.name
  return {
    class = base.class, name = name, is_method = true, is_table = false,
    text = ("As `%s`, for %s."):format(call, base.forms), params = params,
    results = like.results, fail = "as " .. call, raise = like.raise,
  }
end

-- Returns |items|, the docstrings of all modules, with the forms of each call after the call. The
-- tag @forms of a call says what its forms take. A form with a docstring of its own, which follows
-- that of the call, keeps it.
local function with_forms(items)
  local list, known = {}, {}
  for i, item in ipairs(items) do
    list[#list + 1], known[item.class .. ":" .. item.name] = item, item
    for _, form in ipairs(item.forms and FORMS or {}) do
      local next_one = items[i + 1]
      local own = next_one and next_one.name:find(form[2]) and table.remove(items, i + 1)
      list[#list + 1] = own or describe_form(item, form[1]:format(item.name), known[form[3]])
    end
  end
  return list
end

--- Returns the list of the descriptions of all public functions and tables.
function M.read()
  local items = {}
  for _, file in ipairs(FILES) do
    local docstrings = read("lua/" .. file .. ".lua")
    local head = docstrings[1]
    local class = find(head, "module") or find(head, "classmod") or find(head, "submodule")
    for _, docstring in ipairs(docstrings) do
      items[#items + 1] = describe(docstring, class)
    end
  end
  return with_forms(items)
end

return M
