-- The rules of the house that a compiler does not know (see src/README.md):
--
--   lua spec/lint/layers.lua ROOT
--
-- prints every violation as "file:line: message" and fails if there is one.

local ROOT = arg[1] or "."
local MAX_LINES = 450

local violations = 0

local function report(file, line, message, ...)
  violations = violations + 1
  print(("%s:%d: %s"):format(file, line, message:format(...)))
end

-- ---- files ------------------------------------------------------------------

local function read(file)
  local handle = io.open(ROOT .. "/" .. file, "rb")
  if not handle then return nil end
  local text = handle:read "*a"
  handle:close()
  return text
end

-- The files below |directory| whose names match |pattern|, sorted.
local function list(directory, pattern)
  local command = ("cd '%s' && find %s -type f 2>/dev/null"):format(
    ROOT:gsub("'", "'\\''"), directory)
  local pipe, files = assert(io.popen(command)), {}
  for file in pipe:lines() do
    if file:find(pattern) then files[#files + 1] = file end
  end
  pipe:close()
  table.sort(files)
  return files
end

-- Line by line, with numbers.
local function lines(text)
  local number = 0
  local next_line = (text:find "\n$" and text or text .. "\n"):gmatch "([^\n]*)\n"
  return function()
    number = number + 1
    local line = next_line()
    if line then return number, line end
  end
end

local function line_at(text, position)
  return select(2, text:sub(1, position - 1):gsub("\n", "")) + 1
end

-- ---- layers: who may include what -------------------------------------------

local layer_of = {}

local function read_layer(file, text)
  local layer = tonumber(text:match "^/%* L(%d) ")
  local base = file:match "([^/]+)$"
  layer_of[base] = layer
  if not layer or layer > 4 then
    report(file, 1, "must start with its layer: /* L0 … L4 name: …")
  elseif base:find "^lua_" and layer ~= 4 then
    report(file, 1, "lua_* files are layer 4, not %d", layer)
  end
end

-- The foreign worlds, and the one layer that speaks each of them.
local function foreign_world(header)
  if header:find "^grpc" then return "gRPC", 1 end
  if header:find "^openssl/" then return "OpenSSL", 1 end
  if header:find "^protobuf%-c/" or header:find "%.pb%-c%.h$" then
    return "protobuf", 2
  end
end

local LUA_HEADERS = {
  ["lua.h"] = true,
  ["lauxlib.h"] = true,
  ["lualib.h"] = true,
  ["luaconf.h"] = true,
  ["luajit.h"] = true,
}

local function check_include(file, number, mark, header)
  local base = file:match "([^/]+)$"
  local layer, world, home = layer_of[base], foreign_world(header)
  if world then
    if layer ~= home then
      report(file, number, "%s belongs to layer %d only: %s", world, home, header)
    end
  elseif LUA_HEADERS[header] then
    if not base:find "^lua_" then
      report(file, number, "Lua belongs to lua_* files only: %s", header)
    end
  elseif mark == '"' then
    local other = layer_of[header]
    if not other then
      report(file, number, "no such header with a layer: %s", header)
    elseif layer and other > layer then
      report(file, number, "layer %d includes %s of layer %d above it", layer,
        header, other)
    end
  end
end

local function check_pair(file)
  local base = file:match "([^/]+)%.c$"
  if not base then return end
  local source, header = layer_of[base .. ".c"], layer_of[base .. ".h"]
  if source and header and source ~= header then
    report(file, 1, "layer %d, but its header is layer %d", source, header)
  end
end

-- ---- threads: every function says where it runs ------------------------------

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

local THREADS = { io = true, lua = true, any = true }

local function check_thread(file, text, start, declaration, comment)
  local name = declaration:match "([%w_]+)%s*%(" or "function"
  local number = line_at(text, start)
  local thread = comment and comment:match "@thread (%a+)%f[^%w_]"
  if not thread then
    report(file, number, "%s: no @thread in the comment directly above it", name)
  elseif not THREADS[thread] then
    report(file, number, "%s: @thread must be io, lua or any, not %s", name, thread)
  end
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

local function check_header(file, text)
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
          check_thread(file, text, position, declaration, directly and comment)
        end
        comment = nil
        after = position + #declaration
      end
      position = after
    end
  end
end

-- ---- every text -------------------------------------------------------------

-- In halves, so that this file does not find itself.
local UNFINISHED = { "TO" .. "DO", "FIX" .. "ME", "XX" .. "X" }

local function check_text(file, text)
  local count = 0
  for number, line in lines(text) do
    count = number
    for _, word in ipairs(UNFINISHED) do
      if line:find("%f[%w]" .. word .. "%f[%W]") then
        report(file, number, "unfinished: %s", word)
      end
    end
  end
  if count > MAX_LINES then
    report(file, count, "%d lines, more than %d: it holds two ideas", count, MAX_LINES)
  end
end

-- ---- README: every public method is described --------------------------------

local function check_readme()
  local readme = read "README.md" or ""
  for _, file in ipairs(list("lua", "%.lua$")) do
    for number, line in lines(read(file)) do
      local class, name = line:match "^function (%a+):(%a[%w_]*)%("
      if (class == "Client" or class == "Lock")
        and not readme:find(":" .. name .. "(", 1, true) then
        report(file, number, "README.md does not describe %s:%s()", class:lower(), name)
      end
    end
  end
end

-- ---- all of it --------------------------------------------------------------

local sources = list("src", "^src/[^/]+%.[ch]$")
if not sources[1] then report("src", 0, "no sources here") end
for _, file in ipairs(sources) do read_layer(file, read(file)) end
for _, file in ipairs(sources) do
  local text = read(file)
  for number, line in lines(text) do
    local mark, header = line:match '^%s*#%s*include%s*([<"])([^>"]+)'
    if mark then check_include(file, number, mark, header) end
  end
  check_pair(file)
  if file:find "%.h$" then check_header(file, text) end
end
for _, directory in ipairs { "src", "lua", "spec", "examples" } do
  for _, file in ipairs(list(directory, "%.[chl]u?a?$")) do
    check_text(file, read(file))
  end
end
check_readme()

os.exit(violations == 0 and 0 or 1)
