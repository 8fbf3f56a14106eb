--- Puts the docstrings into doc/reference.md, each list of names between these two lines:
--
--   <!-- docstrings: lock:unlock lock:expire -->
--   <!-- end -->
local vocabulary = require "doc.generate.vocabulary"

local M = { FILE = "doc/reference.md" }

-- Returns the type |kind| in words. |is_many|: as a plural.
local function shown(kind, is_many)
  local list = kind:match "^{([^{}]*),%.%.%.}$"
  if list then return "list of " .. shown(list, true) end
  local parts = {}
  for part in kind:gmatch "[^|]+" do
    local known = vocabulary[part] or {}
    local word = part:find "^{" and shown(part) or known.shown or part
    parts[#parts + 1] = is_many and (known.plural or word .. "s") or word
  end
  return table.concat(parts, " or ")
end

-- Returns |text| for a cell of a Markdown table.
local function cell(text)
  return (text:gsub("|", "\\|"))
end

local NO_CODE = { as = true, ["or"] = true }

-- Returns the sentence about how a call fails, from the tag @fail. Before the first colon, each
-- error code and each function becomes code in Markdown.
local function failure(fail)
  local text = fail:match "^text (.*)$"
  if text then return "fails with " .. text end
  local list, rest = fail:match "^(.-)(: .*)$"
  if not list then list, rest = fail, "" end
  list = list:gsub("a request error", "\1"):gsub("[%l_.:]+", function(word)
    return NO_CODE[word] and word or "`" .. word .. "`"
  end):gsub("\1", "[a request error](#codes)")
  return (fail:find "^as " and "fails " or "fails with ") .. list .. rest
end

local function signature(item)
  local text, brackets = "", ""
  for i, param in ipairs(item.params) do
    local comma = i > 1 and ", " or ""
    local last = item.params[#item.params]
    if param.opt and last.opt then
      text, brackets = text .. "[" .. comma .. param.name, brackets .. "]"
    elseif param.opt then
      text = text .. (i > 1 and "[, " or "[") .. param.name .. "]"
    else
      text = text .. comma .. param.name
    end
  end
  local dot = item.is_method and ":" or "."
  return ("%s%s%s(%s%s)"):format(item.class, dot, item.name, text, brackets)
end

-- If the text of a result begins with one of these words, it continues the phrase that its type
-- begins: no colon is put between the two.
local GOES_ON = { ["for"] = true, ["in"] = true, of = true, that = true, which = true,
  with = true }

local function with_text(kind, text)
  if text == "" then return kind end
  return kind .. (GOES_ON[text:match "^%l*"] and " " or ": ") .. text
end

-- Returns the results of |item| as text. A bar separates the groups. If a group has several
-- results, their texts are in parentheses, because a text may have commas.
local function results(item)
  local groups = {}
  for _, group in ipairs(item.results) do
    local list = {}
    for _, result in ipairs(group) do
      local kind = shown(result.type)
      list[#list + 1] = result.type == "any" and result.text
        or #group > 1 and result.text ~= "" and ("%s (%s)"):format(kind, result.text)
        or with_text(kind, result.text)
    end
    groups[#groups + 1] = table.concat(list, ", ")
  end
  if item.fail and item.fail ~= "never" then
    groups[#groups + 1] = item.fail:find "^text " and "nil, message" or "nil, message, code"
  end
  return table.concat(groups, " \\| ")
end

local function describe_function(out, item)
  local as = item.text:match "^As (`.*)"
  if as then
    out[#out + 1] = ("**`%s`**: as %s"):format(signature(item), as)
    out[#out + 1] = ""
    return
  end
  out[#out + 1] = ("**`%s`** → %s"):format(signature(item), results(item))
  out[#out + 1] = ""
  out[#out + 1] = item.text
  local list = {}
  for _, param in ipairs(item.params) do
    list[#list + 1] = ("- `%s`: %s%s"):format(param.name, shown(param.type),
      param.text ~= "" and ", " .. param.text or "")
  end
  if item.fail and item.fail ~= "never" then list[#list + 1] = "- " .. failure(item.fail) end
  if item.raise then list[#list + 1] = "- raises " .. item.raise end
  if list[1] then out[#out + 1] = "" end
  for _, line in ipairs(list) do out[#out + 1] = line end
  out[#out + 1] = ""
end

local function has_default(item)
  for _, field in ipairs(item.params) do
    if type(field.opt) == "string" then return true end
  end
  return false
end

local function describe_table(out, item)
  out[#out + 1] = item.text
  out[#out + 1] = ""
  local with_default = has_default(item)
  local is_typed = item.params[1].type ~= nil
  local head, line = "| | |", "|---|---|"
  if is_typed then head, line = "| | type | |", "|---|---|---|" end
  out[#out + 1] = head .. (with_default and " default |" or "")
  out[#out + 1] = line .. (with_default and "---|" or "")
  for _, field in ipairs(item.params) do
    out[#out + 1] = ("| `%s` |%s %s |%s"):format(field.name,
      is_typed and (" %s |"):format(shown(field.type)) or "", cell(field.text),
      with_default and (" %s |"):format(type(field.opt) == "string" and field.opt or "") or "")
  end
  out[#out + 1] = ""
end

-- Returns the item with the full name |name|, such as "client:lock", "etcdlock.connect" or "code".
local function find(model, name)
  for _, item in ipairs(model) do
    local full = item.is_table and item.name
      or item.class .. (item.is_method and ":" or ".") .. item.name
    if full == name then return item end
  end
  error(("%s: no docstring describes %s"):format(M.FILE, name))
end

--- Returns |text| with the docstrings between the marks, in place of the old content.
function M.text(model, text)
  return (text:gsub("(<!%-%- docstrings: ([^\n]*) %-%->\n).-(<!%-%- end %-%->\n)",
    function(first, names, last)
      local out = { "" }
      for name in names:gmatch "%S+" do
        local item = find(model, name)
        local describe = item.is_table and describe_table or describe_function
        describe(out, item)
      end
      return first .. table.concat(out, "\n") .. "\n" .. last
    end))
end

return M
