-- The environment of the flash sale and of ../run.lua: an etcd of their own, all other processes,
-- and a directory for their files. When the program ends, all processes are ended and the directory
-- is removed.

local uv = require "luv"

-- Handles Ctrl-C before it loads the other modules, which takes long: otherwise Lua would print a
-- stack traceback.
local interrupted = false
for _, name in ipairs { "sigint", "sigterm", "sighup" } do
  uv.new_signal():start(name, function() interrupted = true end)
end

local etcdlock = require "etcdlock"
local socket = require "socket"

local M = {}

local unpack = table.unpack or unpack -- luacheck: ignore

local running = {} -- processes
local failed -- name of a process that has failed; nil: none has

local LOOK_EVERY_MS = 20

-- ---- processes ----------------------------------------------------------------

-- Shell code by which `spawn` starts a program. The program must end when this process ends, for
-- whatever reason: setpriv makes the kernel send a signal to the program then. If this process has
-- ended before setpriv ran, the shell finds that its parent is not $0 (PID), and starts nothing.
-- At Ctrl-C the terminal sends SIGINT to all processes in the foreground. A Lua program would then
-- print a traceback, even if SIGINT was ignored at its start. So SIGINT is blocked in the program,
-- and this process stops the program.
local START = 'test "$PPID" = "$0" && exec env --block-signal=INT "$@"'
local SIGINT = 2
local PID = ("%d"):format(uv.os_getpid())

local function spawn(name, argv, stdout, stderr, signal)
  local process = { name = name, signal = "sig" .. (signal or "KILL"):lower() }
  local handle, failure = uv.spawn("setpriv", {
    args = { "--pdeathsig", signal or "KILL", "sh", "-c", START, PID, unpack(argv) },
    stdio = { nil, stdout, stderr },
  }, function(code, killed_by)
    process.handle:close()
    running[process] = nil
    if killed_by == SIGINT then -- the program unblocks SIGINT, as etcd does
      interrupted = true
    end
    if not process.unwanted and (code ~= 0 or killed_by ~= 0) then
      failed = name
    end
  end)
  process.handle = assert(handle, failure)
  running[process] = true
  return process
end

local function read_lines(process, output, on_line)
  local rest = ""
  output:read_start(function(_, data)
    if not data then
      process.silent = true
      return output:close()
    end
    local text = rest .. data
    rest = text:match "[^\n]*$"
    for line in text:gmatch "([^\n]*)\n" do
      on_line(line)
    end
  end)
end

--- Starts a program. `argv`: the program and its arguments. Its standard error goes to the log
-- `name`. So does its output, unless `options` has on_line: then on_line(line) is called for every
-- line. The program is stopped by options.signal (default: "KILL"); a program that must stop its
-- own processes gets "TERM". Returns the process.
function M.spawn(name, argv, options)
  local log = assert(uv.fs_open(M.dir .. "/" .. name .. ".log", "a", tonumber("600", 8)))
  local output = options.on_line and uv.new_pipe(false)
  local process = spawn(name, argv, output or log, log, options.signal)
  uv.fs_close(log)
  if output then
    read_lines(process, output, options.on_line)
  end
  return process
end

--- Starts the Lua program `script`, and calls on_line(line) for every line of its output. Returns
-- the process.
function M.start(script, args, on_line)
  local argv = { uv.exepath(), script }
  for _, value in ipairs(args) do
    argv[#argv + 1] = tostring(value)
  end
  return M.spawn(script:match "[^/]*$", argv, { on_line = on_line })
end

--- Tells whether `process` has ended and on_line has got all of its output.
function M.has_ended(process)
  return process.silent and not running[process]
end

--- Returns the last 1000 bytes of the log `name`, to which all programs of this name write.
function M.log(name)
  local log = io.open(M.dir .. "/" .. name .. ".log")
  local text = log and log:read "*a" or ""
  if log then log:close() end
  return text:sub(-1000)
end

--- Runs luv's loop until is_done() returns a true value, for at most `seconds`. Raises an error
-- after that time, if a process has failed, or if a signal has interrupted the program.
function M.wait(is_done, seconds, what)
  local ends = uv.hrtime() + seconds * 1e9
  local timer = uv.new_timer() -- is_done() may change without an event of the loop
  timer:start(LOOK_EVERY_MS, LOOK_EVERY_MS, function() end)
  local done, late
  repeat
    done, late = is_done(), uv.hrtime() > ends
    if not done then
      uv.run "once"
    end
  until done or late or interrupted or failed
  timer:close()
  if interrupted then
    error("interrupted", 0)
  elseif failed then
    error(failed .. " has failed", 0)
  elseif not done then
    error(("waited %d s in vain until %s"):format(seconds, what), 0)
  end
end

--- Kills the process with this pid: a process that this program has started, or a child of one,
-- such as a worker of nginx.
function M.kill(pid)
  for process in pairs(running) do
    if process.handle:get_pid() == pid then process.unwanted = true end
  end
  uv.kill(pid, "sigkill")
end

-- Stops all processes, and waits for their end.
local function stop_all()
  for process in pairs(running) do
    process.unwanted = true
    process.handle:kill(process.signal)
  end
  while next(running) do
    uv.run "once"
  end
end

-- ---- servers ------------------------------------------------------------------

function M.free_port()
  local place = assert(socket.bind("127.0.0.1", 0))
  local _, port = place:getsockname()
  place:close()
  return tonumber(port)
end

--- Tells whether a process listens on `port` of this machine.
function M.can_connect(port)
  local connection = socket.connect("127.0.0.1", port)
  if connection then
    connection:close()
  end
  return connection ~= nil
end

--- Starts an etcd on the port `port` (default: a free port). When the etcd answers, returns its
-- address.
function M.start_etcd(port)
  local endpoint = "http://127.0.0.1:" .. (port or M.free_port())
  local peer = "http://127.0.0.1:" .. M.free_port()
  M.spawn("etcd", {
    "etcd", "--data-dir", M.dir .. "/etcd",
    "--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
    "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
    "--initial-cluster", "default=" .. peer,
  }, {})
  local client = assert(etcdlock.connect { endpoints = endpoint, env = false, loop = "luv" })
  local answers
  coroutine.wrap(function() -- yields to luv's loop, which handles Ctrl-C meanwhile
    repeat answers = client:ping() until answers or interrupted
    client:close()
  end)()
  M.wait(function() return answers end, 20, "etcd answers")
  return endpoint
end

-- ---- the whole ----------------------------------------------------------------

-- Removes `directory` and everything in it. It does not run rm, because Ctrl-C would end rm.
local function remove(directory)
  local scan = assert(uv.fs_scandir(directory))
  for name, kind in function() return uv.fs_scandir_next(scan) end do
    local path = directory .. "/" .. name
    if kind == "directory" then remove(path) else uv.fs_unlink(path) end
  end
  uv.fs_rmdir(directory)
end

--- Creates the directory M.dir, and calls play(). Then stops all processes that are left, and
-- removes the directory, also after an error or Ctrl-C. Returns the result of play(). If play()
-- raised an error, prints the error and returns false.
function M.run(play)
  M.dir = assert(uv.fs_mkdtemp(uv.os_tmpdir() .. "/flash-sale-XXXXXX"))
  local ok, result = pcall(play)
  uv.run "nowait" -- a pending Ctrl-C may be the cause of the failure
  stop_all()
  if not ok then
    if interrupted then result, failed = "interrupted", nil end
    io.stderr:write("\n", result, "\n", failed and M.log(failed) or "")
  end
  remove(M.dir)
  return ok and result
end

return M
