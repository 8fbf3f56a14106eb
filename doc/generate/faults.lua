--- Checks that a docstring tells what a caller must know: what the function does, its parameters
-- with their units, its results, and how it fails.
local vocabulary = require "doc.generate.vocabulary"

local M = {}

-- Returns the set of all error codes: the words of the table `code` of |model|.
local function known_codes(model)
  local known = {}
  for _, item in ipairs(model) do
    if item.is_table and item.name == "code" then
      for _, word in ipairs(item.params) do known[word.name] = true end
    end
  end
  return known
end

local function full_name(item)
  return item.class .. (item.is_method and ":" or ".") .. item.name
end

-- Reports if |kind| is nil or contains a type that is not in the vocabulary, in which each numeric
-- type has a unit. |what|: the parameter or result, for the message.
local function check_type(report, kind, what)
  if not kind then return report("%s has no type", what) end
  for word in kind:gsub(",%.%.%.", ""):gmatch "[^|{}]+" do
    if not vocabulary[word] then
      report("%s is of the type %s, which tells no unit or isn't known", what, word)
    end
  end
end

-- Reports each word of the tag @fail that is neither an error code nor a function. Example of a
-- tag: "as client:lock, lost, or a request error: …". The text after the colon is free.
local function check_failure(report, item, names, codes)
  if item.fail == "never" or item.fail:find "^text " then return end
  local list = (item.fail .. ": "):match "^(.-): ":gsub("a request error", "")
  for word in list:gmatch "[%a_.:]+" do
    if not codes[word] and not names[word] and word ~= "as" and word ~= "or" then
      report("it fails with %s, which is no code and no function", word)
    end
  end
end

-- Checks the types of all results. Returns whether one of the results is an error code.
local function check_results(report, item)
  if not item.results[1] then return report("it has no results") end
  local tells_code = false
  for _, group in ipairs(item.results) do
    for i, result in ipairs(group) do
      check_type(report, result.type, "result " .. i)
      tells_code = tells_code or result.type == "code"
    end
  end
  return tells_code
end

--- Returns what the docstring of |item| lacks: a list of texts, empty if it is complete. |model|:
-- all docstrings.
function M.of(model, item)
  local list, names = {}, {}
  local function report(...) list[#list + 1] = string.format(...) end
  for _, other in ipairs(model) do names[full_name(other)] = true end
  if not item.text:find "%S" then report "it isn't said what it does" end
  local are_words = item.is_table and item.params[1].type == nil
  for _, param in ipairs(item.params) do
    if not are_words then check_type(report, param.type, param.name) end
    if item.is_table and param.text == "" then report("it isn't said what %s is", param.name) end
  end
  if item.is_table then return list end
  local tells_code = check_results(report, item)
  if item.fail then
    check_failure(report, item, names, known_codes(model))
  elseif not tells_code then
    report "it isn't said how it fails"
  end
  return list
end

return M
