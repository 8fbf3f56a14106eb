--- Writes the content of all docstrings, as LDoc has parsed them, to the file $MODEL: a Lua table.
-- The reference and the types are made from this table. A spec checks that the docstrings are
-- complete.
--
--   MODEL=/absolute/path ldoc -c doc/generate/config.ld --filter doc.generate.model.write .
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
  }
end

local function write(out, value, indent)
  if type(value) ~= "table" then
    out[#out + 1] = type(value) == "string" and ("%q"):format(value):gsub("\\\n", "\\n")
      or tostring(value)
    return
  end
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  out[#out + 1] = "{\n"
  for _, key in ipairs(keys) do
    out[#out + 1] = indent .. "  "
    if type(key) == "string" then out[#out + 1] = key .. " = " end
    write(out, value[key], indent .. "  ")
    out[#out + 1] = ",\n"
  end
  out[#out + 1] = indent .. "}"
end

--- The filter function that LDoc calls with all modules: writes the file.
function M.write(modules)
  local list = {}
  for module in modules:iter() do
    for item in module.items:iter() do list[#list + 1] = describe(module, item) end
  end
  local out = { "return " }
  write(out, list, "")
  local file = assert(io.open(FILE, "w"))
  file:write(table.concat(out), "\n")
  file:close()
end

return M
