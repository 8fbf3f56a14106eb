-- LUA_INIT code: records which lines of lua/ a Lua process runs, in a file of the directory
-- LUA_COVERAGE.

local directory = os.getenv "LUA_COVERAGE"
if not directory then return end

local seen = {}

local function on_line(_, number)
  local source = debug.getinfo(2, "S").source
  local lines = seen[source]
  if lines == nil then
    lines = source:find "lua/etcdlock" or source:find "lua/resty"
    lines = lines and {} or false
    seen[source] = lines
  end
  if lines then lines[number] = true end
end

-- Each coroutine has a hook of its own.
local create, wrap = coroutine.create, coroutine.wrap
function coroutine.create(f)
  local thread = create(f)
  debug.sethook(thread, on_line, "l")
  return thread
end
function coroutine.wrap(f)
  return wrap(function(...)
    debug.sethook(on_line, "l")
    return f(...)
  end)
end
debug.sethook(on_line, "l")

local function write()
  debug.sethook()
  local name = os.tmpname()
  local file = io.open(("%s/lua-%s"):format(directory, name:match "[^/]+$"), "w")
  os.remove(name)
  if not file then return end
  for source, lines in pairs(seen) do
    for number in pairs(lines or {}) do
      file:write(source:match "lua/[%w_/]+%.lua$" or "?", ":", number, "\n")
    end
  end
  file:close()
end

local exit = os.exit
function os.exit(...)
  write()
  exit(...)
end
-- If a program does not call os.exit, Lua calls write at its end, as the finalizer of this object.
if newproxy then
  local proxy = newproxy(true)
  getmetatable(proxy).__gc = write
  debug.getregistry().etcdlock_coverage = proxy
else
  debug.getregistry().etcdlock_coverage = setmetatable({}, { __gc = write })
end
