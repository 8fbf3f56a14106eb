-- The functions of a text of C: those that a header declares, and those that a source
-- defines and names. For spec/lint/layers.lua, and for C as clang-format leaves it.

local functions = {}

local SKIPPED = {
  { "^%s+" },
  { "^//[^\n]*" },
  { "^#[^\n]*\\\n", continued = true },
  { "^#[^\n]*" },
}

-- The end of the declaration that starts at |start|: its semicolon, or the
-- brace that closes a function's body.
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

-- Blanks the comments inside of declarations, which may hold any character.
local function without_inner_comments(declaration)
  return (declaration:gsub("/%*.-%*/", function(comment)
    return (comment:gsub("[^\n]", " "))
  end))
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

-- Calls |visit| with the name of every public function of a header, its position, and the
-- comment directly above it, or nil.
function functions.each_declared(text, visit)
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

-- Calls |defined| with the name of every function that a source defines, if it isn't
-- static. Returns the set of all names outside of comments.
function functions.read_source(text, defined)
  local names = {}
  text = "\n" .. text:gsub("/%*.-%*/", " ")
  for head, name in text:gmatch "\n(%a[%w_%s%*]-)([%w_]+)%b()%s*{" do
    if not head:find "^static%f[^%w_]" then defined(name) end
  end
  for name in text:gmatch "[%a_][%w_]*" do
    names[name] = true
  end
  return names
end

return functions
