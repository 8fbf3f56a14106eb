--- Writes the content of all docstrings, as LDoc has parsed them, to the file $MODEL as JSON. The
-- reference and the types are made from it. A spec checks that the docstrings are complete.
--
--   MODEL=/absolute/path ldoc -c doc/generate/config.ld --filter doc.generate.model.write .
local json = require "dkjson"

local M = {}

local FILE = assert(os.getenv "MODEL", "MODEL is not set")

-- Returns |text| as one line: each sequence of white space becomes one space.
local function line(text)
  return (((text or ""):gsub("%s+", " ")):gsub("^ ", ""):gsub(" $", ""))
end

-- Returns the groups of results of |item|. A group is the list of the results that the function
-- returns together, each a { type, text }.
local function results(item)
  local groups = {}
  for _, group in ipairs(item.retgroups or {}) do
    local list = {}
    for _, result in ipairs(group) do
      list[#list + 1] = { type = result.type, text = line(result.text) }
    end
    groups[#groups + 1] = list
  end
  return groups
end

-- Returns the default value of a parameter without its quotation marks. A default with spaces needs
-- them.
local function default(opt)
  return type(opt) == "string" and opt:gsub('^"(.*)"$', "%1") or opt
end

-- Returns the list of the parameters of a function, or of the fields of a table. Each is a
-- { name, type, text, opt }. `opt` is the default as a string, true if the parameter is optional
-- without a default, and otherwise nil.
local function parameters(item)
  local list = {}
  local modifiers = item.modifiers[item.type == "table" and "field" or "param"] or {}
  for i, name in ipairs(item.params or {}) do
    local modifier = modifiers[i] or {}
    list[i] = {
      name = name, type = modifier.type, opt = default(modifier.opt),
      text = line(item.params.map[name]),
    }
  end
  return list
end

-- Returns the text of a docstring with each paragraph as one line. Paragraphs are separated by an
-- empty line.
local function paragraphs(summary, description)
  local text = (summary or "") .. " " .. (description or ""):gsub("^\n", "")
  local list = {}
  for paragraph in (text:gsub("\n%s*\n", "\1") .. "\1"):gmatch "([^\1]*)\1" do
    if paragraph:find "%S" then list[#list + 1] = line(paragraph) end
  end
  return table.concat(list, "\n\n")
end

local function describe(module, item)
  local class, name = item.name:match "^([^:]+):(.+)$"
  return {
    class = class or module.name,
    name = name or item.name:match "[^.]*$",
    is_method = class ~= nil,
    is_table = item.type == "table",
    text = paragraphs(item.summary, item.description),
    params = parameters(item),
    results = results(item),
    fail = item.tags.fail and line(item.tags.fail[1]),
    raise = item.raise and line(item.raise),
    forms = item.tags.forms and item.tags.forms[1],
  }
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

--- The filter function that LDoc calls with all modules: writes the file.
function M.write(modules)
  local items = {}
  for module in modules:iter() do
    for item in module.items:iter() do items[#items + 1] = describe(module, item) end
  end
  local file = assert(io.open(FILE, "w"))
  file:write(json.encode(with_forms(items)))
  file:close()
end

return M
