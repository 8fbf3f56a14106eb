-- The stage of the flash sale: an etcd of its own, the processes and a
-- directory for all of it. Nothing of that outlives the program.

local etcdlock = require "etcdlock"
local socket = require "socket"
local uv = require "luv"

local M = {}

local unpack = table.unpack or unpack -- luacheck: ignore

local running = {} -- processes
local interrupted, failed

-- ---- processes ----------------------------------------------------------------

-- Starts a program that dies with this one, however this one ends: setpriv sees
-- to that, and the shell to the case that we are dead already.
local ORPHAN_CHECK = 'test "$PPID" = "$0" && exec "$@"'
local PID = ("%d"):format(uv.os_getpid())

local function spawn(name, argv, stdout, stderr)
  local process = { name = name }
  local handle, failure = uv.spawn("setpriv", {
    args = { "--pdeathsig", "KILL", "sh", "-c", ORPHAN_CHECK, PID, unpack(argv) },
    stdio = { nil, stdout, stderr },
    detached = true, -- Ctrl-C is for us alone, and we stop the others
  }, function(code, signal)
    process.handle:close()
    running[process] = nil
    if not process.unwanted and (code ~= 0 or signal ~= 0) then
      failed = name
    end
  end)
  process.handle = assert(handle, failure)
  running[process] = true
  return process
end

--- Starts a Lua program and hands every line of its output to on_line.
function M.start(script, args, on_line)
  local argv, output, rest = { uv.exepath(), script }, uv.new_pipe(false), ""
  for _, value in ipairs(args) do
    argv[#argv + 1] = tostring(value)
  end
  local process = spawn(script, argv, output, 2)
  output:read_start(function(_, data)
    if not data then
      return output:close()
    end
    local text = rest .. data
    rest = text:match "[^\n]*$"
    for line in text:gmatch "([^\n]*)\n" do
      on_line(line)
    end
  end)
  return process
end

--- Lets things happen until is_done() is true, for so many seconds at most.
function M.wait(is_done, seconds, what)
  local late
  local timer = uv.new_timer()
  timer:start(seconds * 1000, 0, function()
    late = true
  end)
  while not (is_done() or late or interrupted or failed) do
    uv.run "once"
  end
  timer:close()
  if interrupted then
    error("interrupted", 0)
  elseif failed then
    error(failed .. " has failed", 0)
  elseif late then
    error(("waited %d s in vain until %s"):format(seconds, what), 0)
  end
end

--- Kills these processes and waits for their end.
function M.stop(list)
  for _, process in ipairs(list) do
    process.unwanted = true
    if running[process] then
      process.handle:kill "sigkill"
    end
  end
  for _, process in ipairs(list) do
    while running[process] do
      uv.run "once"
    end
  end
end

-- ---- etcd ---------------------------------------------------------------------

local function free_port()
  local place = assert(socket.bind("127.0.0.1", 0))
  local _, port = place:getsockname()
  place:close()
  return port
end

--- Starts an etcd and returns its address when it answers.
function M.start_etcd()
  local endpoint = "http://127.0.0.1:" .. free_port()
  local peer = "http://127.0.0.1:" .. free_port()
  local log = assert(uv.fs_open(M.dir .. "/etcd.log", "a", tonumber("600", 8)))
  spawn("etcd", {
    "etcd", "--data-dir", M.dir .. "/etcd",
    "--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
    "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
    "--initial-cluster", "default=" .. peer,
  }, log, log)
  uv.fs_close(log)
  local client = assert(etcdlock.connect { endpoints = endpoint, env = false })
  M.wait(function()
    uv.run "nowait"
    return client:ping()
  end, 20, "etcd answers")
  client:close()
  return endpoint
end

local function last_words()
  local log = io.open(M.dir .. "/etcd.log")
  local text = log and log:read "*a" or ""
  return text:sub(-1000)
end

-- ---- the whole ----------------------------------------------------------------

--- Runs play() with M.dir as its directory, and removes all that it left, also
-- on Ctrl-C. Returns what play returns, or false.
function M.run(play)
  for _, name in ipairs { "sigint", "sigterm", "sighup" } do
    uv.new_signal():start(name, function()
      interrupted = true
    end)
  end
  M.dir = assert(uv.fs_mkdtemp(uv.os_tmpdir() .. "/flash-sale-XXXXXX"))
  local ok, result = pcall(play)
  local left = {}
  for process in pairs(running) do
    left[#left + 1] = process
  end
  M.stop(left)
  if not ok then
    io.stderr:write("\n", result, "\n", failed == "etcd" and last_words() or "")
  end
  os.execute("rm -rf '" .. M.dir .. "'")
  return ok and result
end

return M
