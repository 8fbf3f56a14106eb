-- Mutation operators: small changes to one line of C or Lua.

local M = {}

local FLIPPED = {
  c = { ["=="] = "!=", ["!="] = "==", ["<"] = "<=", ["<="] = "<", [">"] = ">=", [">="] = ">" },
  lua = { ["=="] = "~=", ["~="] = "==", ["<"] = "<=", ["<="] = "<", [">"] = ">=", [">="] = ">" },
}
local SWAPPED = {
  c = { ["&&"] = "||", ["||"] = "&&" },
  lua = { ["and"] = "or", ["or"] = "and" },
}

-- Returns |line| with |text| in place of its characters from |from| to |to|.
local function splice(line, from, to, text)
  return line:sub(1, from - 1) .. text .. line:sub(to + 1)
end

-- Adds a mutant for each operator of |map| that stands between blanks in |line|. The mutant has the
-- operator that |map| gives for it.
local function replace_operators(add, line, map, what)
  for from, operator, to in line:gmatch "()%f[%S](%S+)%f[%s]()" do
    local other = map[operator]
    if other and from > 1 then
      add(("%s: %s -> %s"):format(what, operator, other), splice(line, from, to - 1, other))
    end
  end
end

local function change_constants(add, line)
  for from, digits, to in line:gmatch "()%f[%w_.](%d+)%f[^%w_.]()" do
    add(("constant: %s -> %s + 1"):format(digits, digits),
      splice(line, from, to - 1, ("%d"):format(tonumber(digits) + 1)))
  end
end

-- ---- C, as clang-format leaves it -------------------------------------------------

-- Returns the statement that leaves early the function that contains line |number|. Returns nil if
-- the return type of this function is neither void nor bool.
local function early_return_of_c(lines, number)
  for i = number - 1, 1, -1 do
    local head = lines[i]
    if head:find "^%a" then
      head = head:gsub("^static ", "")
      return head:find "^void " and "return;" or head:find "^bool " and "return false;" or nil
    end
  end
end

local function is_statement_of_c(lines, number)
  local line, before = lines[number], lines[number - 1] or ""
  return line:find "^%s+.*;$" and before:find "[;{}:]%s*$"
    and not line:find "^%s+[%w_]+[%s%*]+[%w_%[%]]+;$" -- a declaration
    and not line:find "^%s+[%w_]+[%s%*]+[%w_%[%]]+ = " -- a declaration with a value
    and not line:find "^%s+const "
end

local function mutants_of_c(add, lines, number)
  local line = lines[number]
  for _, pattern in ipairs { "^%S", "^%s*#", "^%s*/%*", "^%s*%*" } do
    if line:find(pattern) then return end
  end
  replace_operators(add, line, FLIPPED.c, "comparison")
  replace_operators(add, line, SWAPPED.c, "logic")
  change_constants(add, line)
  local indent, word, condition, rest = line:match "^(%s+)(%w+) (%b())(.*)$"
  if word == "if" or word == "while" then
    add("negated condition", ("%s%s (!%s)%s"):format(indent, word, condition, rest))
  end
  if is_statement_of_c(lines, number) then
    if not line:find "^%s+return" then
      add("dropped statement", line:match "^%s+" .. ";")
    end
    local early = early_return_of_c(lines, number)
    if early then add("early return", line:match "^%s+" .. early .. "\n" .. line) end
  end
end

-- ---- Lua --------------------------------------------------------------------------

local function mutants_of_lua(add, lines, number)
  local line = lines[number]
  if line:find "^%s*%-%-" or line:find "^%s*$" then return end
  replace_operators(add, line, FLIPPED.lua, "comparison")
  replace_operators(add, line, SWAPPED.lua, "logic")
  change_constants(add, line)
  local indent, word, condition = line:match "^(%s*)(%w+) (.*) then$"
  if word == "if" or word == "elseif" then
    add("negated condition", ("%s%s not (%s) then"):format(indent, word, condition))
  end
  local is_complete = line:find "^%s+[%w_%.:]+%b()$" or line:find "^%s+[%w_%.%[%]]+ = [^{(]+$"
  if is_complete and not line:find "^%s+local " then
    add("dropped statement", line:match "^%s+" .. "do end")
    add("early return", line:match "^%s+" .. "do return end\n" .. line)
  end
end

--- Returns the mutants of line |number| of |lines|, the lines of |file|: a list of { description,
-- text of the changed line }.
function M.of_line(file, lines, number)
  local list = {}
  local function add(description, text) list[#list + 1] = { description, text } end
  local make = file:find "%.lua$" and mutants_of_lua or mutants_of_c
  make(add, lines, number)
  return list
end

return M
