-- Finds the function prototypes of a C header that clang-format has formatted.

local prototypes = {}

local SKIPPED = {
  { "^%s+" },
  { "^//[^\n]*" },
  { "^#[^\n]*\\\n", continued = true },
  { "^#[^\n]*" },
}

-- Returns the end of the declaration that starts at |start|: its semicolon, or the brace that ends
-- the body of an inline function.
local function declaration_end(text, start)
  local depth, position = 0, start
  while true do
    position = text:find("[;{}]", position)
    if not position then return #text end
    local char = text:sub(position, position)
    if char == "{" then
      depth = depth + 1
    elseif char == "}" then
      depth = depth - 1
      local head = text:sub(start, position):match "^[^{]*"
      if depth == 0 and head:find "%)%s*$" then return position end
    elseif depth == 0 then
      return position
    end
    position = position + 1
  end
end

local function is_public_function(declaration)
  local head = declaration:match "^[^{;]*"
  return head:find "%("
    and not declaration:find "^typedef%f[^%w_]"
    and not declaration:find "^static%f[^%w_]"
    and not declaration:find "^[%u_]+%(" -- a macro such as TAILQ_HEAD
end

-- Replaces the comments inside a declaration by blanks: they may contain any character.
local function without_inner_comments(declaration)
  return (declaration:gsub("/%*.-%*/", function(comment) return (comment:gsub("[^\n]", " ")) end))
end

local function skip(text, position)
  for _, rule in ipairs(SKIPPED) do
    local _, last = text:find(rule[1], position)
    while last and rule.continued and text:find("^[^\n]*\\\n", last + 1) do
      _, last = text:find("^[^\n]*\\\n", last + 1)
    end
    if last and rule.continued then _, last = text:find("^[^\n]*", last + 1) end
    if last then return last + 1 end
  end
end

-- Calls visit(name, position, comment) for each prototype of a function that is not static.
-- |comment| is the comment directly above the prototype; nil if there is none.
function prototypes.each(text, visit)
  local position, comment, comment_last = 1, nil, nil
  while position <= #text do
    local _, comment_end = text:find("^/%*.-%*/", position)
    if comment_end then
      comment, comment_last = text:sub(position, comment_end), comment_end
      position = comment_end + 1
    else
      local after = skip(text, position)
      if not after then
        local rest = without_inner_comments(text:sub(position))
        local declaration = rest:sub(1, declaration_end(rest, 1))
        if is_public_function(declaration) then
          local directly = comment
            and text:sub(comment_last + 1, position - 1):find "^[ \t]*\n[ \t]*$"
          visit(declaration:match "([%w_]+)%s*%(", position, directly and comment or nil)
        end
        comment = nil
        after = position + #declaration
      end
      position = after
    end
  end
end

return prototypes
