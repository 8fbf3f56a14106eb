-- Counts the instructions that a pair of lock and unlock costs the client, by library and by
-- function of the core. README.md describes how.
--
--   cost.lua [check|keep]
--
-- check: fails if a figure of the columns all, core, VM or bytes is more than 5 % above the one in
-- cost.txt, and cost.txt is of the same Debian release and machine type. keep: writes cost.txt.

local Etcd = require "spec.support.servers.etcd"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"
local write_file = require "bench.write_file"

local unpack = table.unpack or unpack

local KEPT, MARGIN = "bench/cost.txt", 1.05
local FUNCTIONS = 8 -- how many functions of the core a row shows

-- The rows: the id; the work of peers/pairs.lua; how many pairs, more for a pair that costs little;
-- the Lua that runs it.
local ROWS = {
  { "free", "free", 300, "5.4" },
  { "put", "put", 300, "5.4" },
  { "reentrant", "reentrant", 5000, "5.4" },
  { "linger", "linger", 2000, "5.4" },
  { "handoff", "handoff", 1000, "5.4" },
  { "free_jit", "free", 300, "jit" },
}

local COLUMNS = { "Lua", "gRPC", "libc", "protobuf", "core", "other", "all", "VM", "bytes" }

-- To which column an object file belongs: the first pattern that is found in its name.
local OBJECTS = {
  { "^core%.so$", "core" }, { "lua", "Lua" }, { "%.lua$", "Lua" },
  { "^libprotobuf%-c", "protobuf" }, { "^libgrpc", "gRPC" }, { "^libgpr", "gRPC" },
  { "^libabsl", "gRPC" }, { "^libc%.", "libc" }, { "^ld%-linux", "libc" }, { "", "other" },
}

local function column_of(object)
  for _, pair in ipairs(OBJECTS) do
    if object:find(pair[1]) then return pair[2] end
  end
end

-- ---- the output of callgrind ------------------------------------------------------

-- Reads the file of callgrind at |path|. Returns the instructions of each object file and function
-- itself, without those that it calls, as a table with keys "OBJECT FUNCTION".
local function read_profile(path)
  local names, costs = { ob = {}, fn = {} }, {}
  local object, called, is_call = "", nil, false
  -- A name is written out where it occurs first, "(3) name", and later only as "(3)".
  local function resolve(kind, text)
    local number, name = text:match "^(%(%d+%)) ?(.*)$"
    if name ~= "" then names[kind][number] = name end
    return names[kind][number]
  end
  for line in io.lines(path) do
    local key, value = line:match "^(%l+)=(.*)$"
    if key == "ob" then
      object = resolve("ob", value):match "[^/]*$"
    elseif key == "fn" then
      called = resolve("fn", value)
    elseif key == "cob" or key == "cfn" then
      resolve(key:sub(2), value)
    elseif key == "calls" then
      is_call = true
    elseif line:find "^[%d+*-]" then
      -- The line after "calls=" has the cost of the called function.
      if not is_call then
        local id = object .. " " .. called
        costs[id] = (costs[id] or 0) + tonumber(line:match "%d+$")
      end
      is_call = false
    end
  end
  return costs
end

-- ---- a row ------------------------------------------------------------------------

local etcd = Etcd.start()

-- Runs |pairs| pairs of |row|. |words|: the command line before the program. |mode|: the last
-- argument of peers/pairs.lua. Returns what it prints.
local function run(row, pairs, words, mode)
  local id, work, _, lua = unpack(row)
  local argv = { unpack(words) }
  for _, word in ipairs {
    lua == "jit" and "luajit" or "lua" .. lua, "bench/peers/pairs.lua", work, ("%d"):format(pairs),
    etcd:endpoint(), mode,
  } do argv[#argv + 1] = word end
  local out, code, err = proc.run(argv, {
    env = { LUA_CPATH = ("build/%s/?.so;;"):format(lua) }, seconds = 300,
  })
  assert(code == 0, id .. ": " .. err)
  return out
end

local function profile(row, pairs)
  local path = temporary.directory() .. "/profile"
  run(row, pairs, { "valgrind", "--tool=callgrind", "--callgrind-out-file=" .. path })
  return read_profile(path)
end

-- Measures |row|. Returns the figures by column, and a text with the functions of the core that
-- cost most. The start of the program falls out of the difference of two runs.
local function measure(row)
  local n = row[3]
  local once, twice = profile(row, n), profile(row, 2 * n)
  local figures, functions = {}, {}
  for _, column in ipairs(COLUMNS) do figures[column] = 0 end
  for id, cost in pairs(twice) do
    local object, name = id:match "^(.-) (.*)$"
    local column, difference = column_of(object), (cost - (once[id] or 0)) / n
    figures[column] = figures[column] + difference
    figures.all = figures.all + difference
    if column == "core" then table.insert(functions, { name = name, cost = difference }) end
  end
  table.sort(functions, function(a, b) return a.cost > b.cost end)
  for i, one in ipairs(functions) do functions[i] = ("%s %.0f"):format(one.name, one.cost) end
  local instructions, bytes = run(row, n, {}, "count"):match "(%S+)%s+(%S+)"
  figures.VM, figures.bytes = tonumber(instructions), tonumber(bytes)
  return figures, table.concat(functions, ", ", 1, math.min(FUNCTIONS, #functions))
end

-- ---- the figures that are kept ----------------------------------------------------

-- Where the figures are comparable: the libraries and the compiler are those of a Debian release.
local release = (read_file "/etc/os-release" or ""):match 'VERSION_ID="?([^"\n]+)' or "?"
local HEAD = ("Debian %s %s\n"):format(release, uv.os_uname().machine)

-- Returns the figures of the row |id| by column, as measure does. |text| is the content of
-- cost.txt. Returns nil if it has no such row.
local function kept(text, id)
  local values = text:match("\n" .. id .. " ([^\n]*)")
  if not values then return nil end
  local figures, i = {}, 0
  for value in values:gmatch "%d+" do
    i = i + 1
    figures[COLUMNS[i]] = tonumber(value)
  end
  return figures
end

-- Returns whether |figures| are within the margin of the |old| ones, and prints what has grown.
local function check(id, old, figures)
  local is_good = true
  for _, column in ipairs { "all", "core", "VM", "bytes" } do
    if figures[column] > old[column] * MARGIN then
      is_good = false
      print(("  %s: %s has grown from %d to %.0f"):format(id, column, old[column], figures[column]))
    end
  end
  return is_good
end

local function line_of(id, values)
  local cells = {}
  for i, value in ipairs(values) do cells[i] = ("%9s"):format(value) end
  return ("%-10s%s\n"):format(id, table.concat(cells))
end

local old_text = read_file(KEPT) or ""
local is_comparable = old_text:sub(1, #HEAD) == HEAD
local text, is_good = HEAD .. line_of("row", COLUMNS), true
io.stdout:setvbuf "line"
io.write(text)
for _, row in ipairs(ROWS) do
  local figures, functions = measure(row)
  local values = {}
  for i, column in ipairs(COLUMNS) do values[i] = ("%.0f"):format(figures[column]) end
  local line = line_of(row[1], values)
  io.write(line, "  ", functions, "\n")
  text = text .. line
  local old = is_comparable and kept(old_text, row[1])
  is_good = (not old or check(row[1], old, figures)) and is_good
end
if not is_comparable then print(KEPT .. " is of another system: nothing was compared") end
if arg[1] == "keep" then write_file(KEPT, text) end
etcd:stop()
temporary.remove_all()
os.exit(is_good or arg[1] ~= "check")
