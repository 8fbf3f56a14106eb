-- The rules of the house that a compiler does not know (see src/README.md):
--
--   lua spec/lint/layers.lua ROOT [graph]
--
-- prints every violation as "file:line: message" and fails if there is one; with
-- "graph", then also which module includes which others, and which file of C calls
-- which others.

local functions = require "spec.lint.functions"

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
local function find_files(directory, pattern)
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

-- ---- folders: who may include whom --------------------------------------------

-- A file may include its own folder's headers, those of the folders named here,
-- and what these may include. Below them all is the C library.
local MAY_INCLUDE = {
  base = {},
  tls = { "base" },
  net = { "base", "tls" },
  etcd = { "base", "net" },
  rules = {},
  lock = { "base", "tls", "net", "etcd", "rules" },
  nginx = { "base" },
  lua = { "base", "rules", "lock", "nginx" },
}

local function set_of(list)
  local set = {}
  for _, name in ipairs(list) do set[name] = true end
  return set
end

-- Single headers besides. What is pure sees no clock and no thread: of base/ what has
-- neither, and plain data, in whose words somebody above speaks.
local EXCEPTIONS = {
  rules = set_of { "base/alloc.h", "base/bytes.h", "base/error.h", "base/jitter.h", "etcd/txn.h" },
}

-- The same of the system's headers; a folder that isn't here may include any.
local SYSTEM = {
  rules = set_of {
    "assert.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h",
  },
}

-- A header that one file has to change before others may use it, and that file: uthash
-- as it is ends the process where memory runs out.
local WRAPPED = { ["uthash.h"] = "base/hash.h" }

-- The foreign worlds, by their headers, and the one folder that knows each.
local WORLDS = {
  { "^grpc/", "gRPC", "net" },
  { "^openssl/", "OpenSSL", "tls" },
  { "^protobuf%-c/", "protobuf", "etcd" },
  { "%.pb%-c%.h$", "protobuf", "etcd" },
  { "^lua[%a]*%.h$", "Lua", "lua" },
  { "^lauxlib%.h$", "Lua", "lua" },
}

local function folder_of(file)
  return file:match "^([^/]+)/"
end

local function world_of(header)
  for _, world in ipairs(WORLDS) do
    if header:find(world[1]) then return world[2], world[3] end
  end
end

-- All folders that |folder| may include from, through others too.
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

local function check_place(file, text)
  local folder, name = file:match "^([^/]+)/([^/]+)%.[ch]$"
  if not MAY_INCLUDE[folder or ""] then
    report("src/" .. file, 1, "it is in no folder of the house")
    return false
  elseif not text:find("^/%* " .. name .. ": ") then
    report("src/" .. file, 1, "must start with /* %s: and what it is", name)
  end
  return true
end

local function check_wrapped(file)
  for _, include in ipairs(includes[file]) do
    local wrapper = WRAPPED[include.header]
    if wrapper and wrapper ~= file then
      report("src/" .. file, include.number, "include \"%s\" instead of %s", wrapper,
        include.header)
    end
  end
end

-- Follows the includes of |file|, and reports for the line of |from| on which they
-- begin (|first|) what it must not see.
local function follow(from, first, file, chain, seen)
  for _, include in ipairs(includes[file] or {}) do
    local header, line = include.header, first or include
    local way = chain .. " > " .. header
    local world, home = world_of(header)
    if world then
      if folder_of(from) ~= home then
        report("src/" .. from, line.number, "%s belongs to %s/ only: %s", world, home, way)
      end
    elseif not include.is_ours then
      local own = folder_of(from)
      if SYSTEM[own] and not SYSTEM[own][header] then
        report("src/" .. from, line.number, "%s/ must not see %s: %s", own, header, way)
      end
    elseif not seen[header] then
      seen[header] = true
      local folder, own = folder_of(header), folder_of(from)
      local allowed = folder == own or below(own)[folder]
        or EXCEPTIONS[own] and EXCEPTIONS[own][header]
      if not includes[header] then
        report("src/" .. from, line.number, "there is no such header: %s", way)
      elseif not allowed then
        report("src/" .. from, line.number, "%s/ must not see %s/: %s", own, folder, way)
      else
        follow(from, line, header, way, seen)
      end
    end
  end
end

-- ---- no circle ------------------------------------------------------------------

-- The files that share an X_int.h are one module, X; else each pair of a source
-- and its header is one.
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

-- module -> set of the modules that it includes
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

-- |suffix| makes the name of a file of that of a node.
local function report_circles(graph, suffix)
  local state, way = {}, {} -- node -> where it is on the way, false when it is left
  local function visit(node)
    way[#way + 1] = node
    state[node] = #way
    for _, other in ipairs(sorted(graph[node])) do
      if state[other] then
        report("src/" .. node .. suffix, 1, "a circle: %s > %s",
          table.concat(way, " > ", state[other]), other)
      elseif state[other] == nil then
        visit(other)
      end
    end
    way[#way] = nil
    state[node] = false
  end
  for _, node in ipairs(sorted(graph)) do
    if state[node] == nil then visit(node) end
  end
end

local function print_graph(graph)
  for _, node in ipairs(sorted(graph)) do
    print(("%-29s > %s"):format(node, table.concat(sorted(graph[node]), " ")))
  end
end

-- ---- functions ----------------------------------------------------------------

local THREADS = { io = true, lua = true, any = true }

-- Every function says where it runs.
local function check_thread(file, number, name, comment)
  local thread = comment and comment:match "@thread (%a+)%f[^%w_]"
  if not thread then
    report(file, number, "%s: no @thread in the comment directly above it", name)
  elseif not THREADS[thread] then
    report(file, number, "%s: @thread must be io, lua or any, not %s", name, thread)
  end
end

-- name -> { file =, number = }: what the headers declare
local declared = {}

local function check_functions(file, text)
  functions.each_declared(text, function(name, position, comment)
    local number = line_at(text, position)
    check_thread(file, number, name, comment)
    declared[name] = { file = file, number = number }
  end)
end

-- file -> set of the files whose functions it names, to call them or to have them called.
-- What is inline in a header is nobody's.
local function call_graph(sources)
  local homes, named, graph = {}, {}, {}
  for _, file in ipairs(sources) do
    if file:find "%.c$" then
      named[file] = functions.read_source(read("src/" .. file), function(name)
        if declared[name] then homes[name] = file end
      end)
    end
  end
  for name, place in pairs(declared) do
    if not homes[name] then
      report(place.file, place.number, "%s is defined nowhere", name)
    end
  end
  for file, names in pairs(named) do
    graph[file] = {}
    for name in pairs(names) do
      if homes[name] and homes[name] ~= file then graph[file][homes[name]] = true end
    end
  end
  return graph
end

-- ---- Lua: what only some of it may load ---------------------------------------

-- A module, and who may load it: the library needs no more than its C core and JSON.
local LUA_WORLDS = {
  { "argparse", { "lua/etcdlock/command/parser.lua" } },
  { "luv", { "lua/etcdlock/command/", "lua/etcdlock/wait/luv.lua" } },
  { "etcdlock.command", { "lua/etcdlock/command/", "bin/etcdlock" } },
}

local function check_modules(file, text)
  for number, line in lines(text) do
    for module in line:gmatch "require%s*%(?%s*[\"']([%w_.]+)" do
      for _, world in ipairs(LUA_WORLDS) do
        local is_allowed = module ~= world[1] and module:sub(1, #world[1] + 1) ~= world[1] .. "."
        for _, place in ipairs(world[2]) do
          is_allowed = is_allowed or file:sub(1, #place) == place
        end
        if not is_allowed then
          report(file, number, "%s is only for %s", module, table.concat(world[2], " and "))
        end
      end
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

-- ---- all of it --------------------------------------------------------------

local sources = find_files("src", "%.[ch]$")
if not sources[1] then report("src", 0, "no sources here") end
for i, path in ipairs(sources) do
  sources[i] = path:match "^src/(.*)"
  read_includes(sources[i], read(path))
end
for _, file in ipairs(sources) do
  local text = read("src/" .. file)
  if check_place(file, text) then
    follow(file, nil, file, file, {})
  end
  check_wrapped(file)
  if file:find "%.h$" then check_functions("src/" .. file, text) end
end
local modules, calls = module_graph(), call_graph(sources)
report_circles(modules, ".h")
report_circles(calls, "")
for _, directory in ipairs { "src", "lua", "spec", "bench", "examples" } do
  for _, file in ipairs(find_files(directory, "%.[chl]u?a?$")) do
    check_text(file, read(file))
  end
end
for _, file in ipairs(find_files("lua bin", "")) do
  check_modules(file, read(file))
end
if arg[2] == "graph" then
  print_graph(modules)
  print_graph(calls)
end

os.exit(violations == 0 and 0 or 1)
