-- Checks rules of the source tree that a compiler does not know (see src/README.md):
--
--   lua spec/lint/layers.lua ROOT
--
-- prints each violation as "file:line: message", and fails if there is one.

local ROOT = arg[1] or "."

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

-- Returns the files below |directories| (names, separated by blanks) that match |pattern|, sorted.
local function find_files(directories, pattern)
  local command = ("cd '%s' && find %s -type f 2>/dev/null"):format(
    ROOT:gsub("'", "'\\''"), directories)
  local pipe, files = assert(io.popen(command)), {}
  for file in pipe:lines() do
    if file:find(pattern) then files[#files + 1] = file end
  end
  pipe:close()
  table.sort(files)
  return files
end

-- Iterates over the lines of |text|: number, line.
local function lines(text)
  local number = 0
  local next_line = (text:find "\n$" and text or text .. "\n"):gmatch "([^\n]*)\n"
  return function()
    number = number + 1
    local line = next_line()
    if line then return number, line end
  end
end

-- ---- layers -------------------------------------------------------------------

-- A file may include headers of its own folder, of the folders listed here, and of the folders
-- that those may include.
local MAY_INCLUDE = {
  base = {},
  tls = { "base" },
  net = { "base", "tls" },
  etcd = { "base", "net" },
  protocol = {},
  lock = { "base", "tls", "net", "etcd", "protocol" },
  nginx = { "base" },
  lua = { "base", "protocol", "lock", "nginx" },
}

local function set_of(list)
  local set = {}
  for _, name in ipairs(list) do set[name] = true end
  return set
end

-- Single headers that a folder may include as well. protocol/, whose functions are pure, may
-- include headers that use neither a clock nor a thread.
local EXCEPTIONS = {
  protocol = set_of { "base/alloc.h", "base/error.h", "base/jitter.h", "base/times.h",
    "etcd/txn.h" },
}

-- System headers that a folder may include; a folder that is not listed may include any.
local SYSTEM = {
  protocol = set_of {
    "assert.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h",
    "sys/queue.h",
  },
}

-- A header that only its wrapper may include: plain uthash ends the process if memory runs out.
local WRAPPED = { ["uthash.h"] = "base/hash.h" }

-- Headers of gRPC that are not public. gRPC moves and changes them in any release.
local PRIVATE = { "^grpc/impl/", "^src/core/" }

-- Headers of a foreign library (a pattern), its name, and the only folder that may include them.
local LIBRARIES = {
  { "^grpc/", "gRPC", "net" },
  { "^openssl/", "OpenSSL", "tls" },
  { "^protobuf%-c/", "protobuf", "etcd" },
  { "%.pb%-c%.h$", "protobuf", "etcd" },
  { "^lua[%a]*%.h$", "Lua", "lua" },
  { "^lauxlib%.h$", "Lua", "lua" },
}

local function folder_of(file) return file:match "^([^/]+)/" end

-- Returns the name and the folder of the library to which |header| belongs; nil if to none.
local function library_of(header)
  for _, library in ipairs(LIBRARIES) do
    if header:find(library[1]) then return library[2], library[3] end
  end
end

-- Returns the set of folders that |folder| may include, directly or through others.
local function below(folder, found)
  found = found or {}
  for _, name in ipairs(MAY_INCLUDE[folder]) do
    found[name] = true
    below(name, found)
  end
  return found
end

-- file (without src/) -> list of { number =, header =, is_ours = }
local includes = {}

local function read_includes(file, text)
  local list = {}
  for number, line in lines(text) do
    local mark, header = line:match '^%s*#%s*include%s*([<"])([^>"]+)'
    if mark then
      list[#list + 1] = { number = number, header = header, is_ours = mark == '"' }
    end
  end
  includes[file] = list
end

-- Checks the folder and the first line of |file|. Returns false if it is in no known folder.
local function check_place(file, text)
  local folder, name = file:match "^([^/]+)/([^/]+)%.[ch]$"
  if not MAY_INCLUDE[folder or ""] then
    report("src/" .. file, 1, "this is not a folder of src/README.md")
    return false
  elseif not text:find("^/%* " .. name .. ": ") then
    report("src/" .. file, 1, "must start with /* %s: and its purpose", name)
  end
  return true
end

local function check_headers(file)
  for _, include in ipairs(includes[file]) do
    for _, pattern in ipairs(PRIVATE) do
      if include.header:find(pattern) then
        report("src/" .. file, include.number, "%s is not a public header", include.header)
      end
    end
    local wrapper = WRAPPED[include.header]
    if wrapper and wrapper ~= file then
      report("src/" .. file, include.number, 'include "%s" instead of %s', wrapper,
        include.header)
    end
  end
end

-- Follows the includes of |file|, which |from| includes over the files of |chain|. Reports each
-- header that |from| must not include, with the line of |from| on which the chain of includes
-- begins. That is the line |first|; if |first| is nil, |file| is |from|, and each of its includes
-- begins a chain.
local function follow(from, first, file, chain, seen)
  for _, include in ipairs(includes[file] or {}) do
    local header, line = include.header, first or include
    local path = chain .. " > " .. header
    local library, home = library_of(header)
    if library then
      if folder_of(from) ~= home then
        report("src/" .. from, line.number, "%s belongs to %s/ only: %s", library, home, path)
      end
    elseif not include.is_ours then
      local own = folder_of(from)
      if SYSTEM[own] and not SYSTEM[own][header] then
        report("src/" .. from, line.number, "%s/ must not include %s: %s", own, header, path)
      end
    elseif not seen[header] then
      seen[header] = true
      local folder, own = folder_of(header), folder_of(from)
      local allowed = folder == own or below(own)[folder]
        or EXCEPTIONS[own] and EXCEPTIONS[own][header]
      if not includes[header] then
        report("src/" .. from, line.number, "there is no such header: %s", path)
      elseif not allowed then
        report("src/" .. from, line.number, "%s/ must not include %s/: %s", own, folder, path)
      else
        follow(from, line, header, path, seen)
      end
    end
  end
end

-- ---- include cycles -------------------------------------------------------------

-- Returns the module of |file|. A .c file and its header are one module. Files that share an
-- X_int.h belong to the module X.
local function module_of(file)
  local folder, name = file:match "^(.-)([^/]+)%.[ch]$"
  local int = name:match "^(.*)_int$"
  if int then return folder .. int end
  for _, include in ipairs(includes[file] or {}) do
    int = include.header:match "^(.*)_int%.h$"
    if int and folder_of(int .. "/") == folder_of(file) then return int end
  end
  return folder .. name
end

-- Returns module -> set of the modules that it includes.
local function module_graph()
  local graph = {}
  for file, list in pairs(includes) do
    local module = module_of(file)
    graph[module] = graph[module] or {}
    for _, include in ipairs(list) do
      local other = include.is_ours and includes[include.header] and module_of(include.header)
      if other and other ~= module then graph[module][other] = true end
    end
  end
  return graph
end

local function sorted(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local function report_cycles(graph)
  local place, path = {}, {} -- module -> its place on the path; false: visited
  local function visit(module)
    path[#path + 1] = module
    place[module] = #path
    for _, other in ipairs(sorted(graph[module])) do
      if place[other] then
        report("src/" .. module .. ".h", 1, "an include cycle: %s > %s",
          table.concat(path, " > ", place[other]), other)
      elseif place[other] == nil then
        visit(other)
      end
    end
    path[#path] = nil
    place[module] = false
  end
  for _, module in ipairs(sorted(graph)) do
    if place[module] == nil then visit(module) end
  end
end

-- ---- threads ------------------------------------------------------------------

local THREADS = set_of { "io", "lua", "any" }

-- Checks that the comment directly above each prototype of a header says on which thread it runs.
-- In a header that clang-format has formatted, each prototype begins at the beginning of a line.
local function check_threads(file, text)
  local comment, is_open = "", false -- the lines of the comment directly above, or around this line
  for number, line in lines(text) do
    if is_open or line:find "^/%*" then
      comment = (is_open and comment or "") .. line .. "\n"
      is_open = not line:find("*/", 1, true)
    else
      local is_static = line:find "^static " or line:find "^typedef "
      local name = line:find "^%a" and not is_static and line:match "%f[%w_](el_[%w_]+)%("
      local thread = comment:match "@thread (%a+)%f[^%w_]"
      if name and not thread then
        report(file, number, "%s: no @thread in the comment directly above it", name)
      elseif name and not THREADS[thread] then
        report(file, number, "%s: @thread must be io, lua or any, not %s", name, thread)
      end
      if not line:find "^%a[^(;{]*$" then comment = "" end -- else a return type alone on its line
    end
  end
end

-- ---- Lua modules ----------------------------------------------------------------

-- Lua modules, each with the only files or folders that may load it. The rest of the library loads
-- no module but its C core, JSON, the event loop in use, and coxpcall with Lua 5.1.
local LUA_MODULES = {
  { "argparse", { "lua/etcdlock/command/parser.lua" } },
  { "luv", { "lua/etcdlock/command/", "lua/etcdlock/wait/luv.lua" } },
  { "etcdlock.command", { "lua/etcdlock/command/", "bin/etcdlock" } },
}

local function check_modules(file, text)
  for number, line in lines(text) do
    for module in line:gmatch "require%s*%(?%s*[\"']([%w_.]+)" do
      for _, rule in ipairs(LUA_MODULES) do
        local is_allowed = module ~= rule[1] and module:sub(1, #rule[1] + 1) ~= rule[1] .. "."
        for _, place in ipairs(rule[2]) do
          is_allowed = is_allowed or file:sub(1, #place) == place
        end
        if not is_allowed then
          report(file, number, "%s is only for %s", module, table.concat(rule[2], " and "))
        end
      end
    end
  end
end

-- ---- width --------------------------------------------------------------------

-- clang-format leaves comments as they are, so that their lists and drawings stay.
local MOST_COLUMNS = 100

local function check_width(file, text)
  for number, line in lines(text) do
    -- a byte from 128 to 191 continues a character
    local columns = #line:gsub("[\128-\191]", "")
    if columns > MOST_COLUMNS then
      report(file, number, "%d columns, more than %d", columns, MOST_COLUMNS)
    end
  end
end

-- ---- unfinished work --------------------------------------------------------------

-- The words are split, so that check_finished does not find them in this file.
local UNFINISHED = { "TO" .. "DO", "FIX" .. "ME", "XX" .. "X" }

local function check_finished(file, text)
  for number, line in lines(text) do
    for _, word in ipairs(UNFINISHED) do
      if line:find("%f[%w]" .. word .. "%f[%W]") then
        report(file, number, "unfinished: %s", word)
      end
    end
  end
end

-- ---- all of it --------------------------------------------------------------

local sources = find_files("src", "%.[ch]$")
if not sources[1] then report("src", 0, "there are no sources") end
for i, path in ipairs(sources) do
  sources[i] = path:match "^src/(.*)"
  read_includes(sources[i], read(path))
end
for _, file in ipairs(sources) do
  local text = read("src/" .. file)
  if check_place(file, text) then
    follow(file, nil, file, file, {})
  end
  check_headers(file)
  if file:find "%.h$" then check_threads("src/" .. file, text) end
end
report_cycles(module_graph())
for _, file in ipairs(find_files("src lua spec bench examples", "%.[chl]u?a?$")) do
  check_finished(file, read(file))
end
for _, file in ipairs(find_files("src spec", "%.[ch]$")) do
  check_width(file, read(file))
end
for _, file in ipairs(find_files("lua bin", "")) do
  check_modules(file, read(file))
end

os.exit(violations == 0 and 0 or 1)
