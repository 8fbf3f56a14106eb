-- Where the flash sales run, this one and that in ../openresty: an etcd of its
-- own, the processes and a directory for all of it. Nothing of that outlives the
-- program.

local interrupt = require "flash_sale.interrupt" -- before the others, which take long to load
local etcdlock = require "etcdlock"
local socket = require "socket"
local uv = require "luv"

local M = {}

local unpack = table.unpack or unpack -- luacheck: ignore

local running = {} -- processes
local failed -- the name of one that has failed

local LOOK_EVERY_MS = 20

-- ---- processes ----------------------------------------------------------------

-- Starts a program that dies with this one, however this one ends: setpriv sees
-- to that, and the shell to the case that we are dead already. The terminal sends the SIGINT of
-- Ctrl-C to all of its processes: a Lua program would print a traceback, even if it had been
-- ignored before. So it is blocked, and we stop the others.
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
    if killed_by == SIGINT then -- one that does not leave it blocked, such as etcd
      interrupt.came = true
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

--- Starts a Lua program and hands every line of its output to on_line.
function M.start(script, args, on_line)
  local argv, output = { uv.exepath(), script }, uv.new_pipe(false)
  for _, value in ipairs(args) do
    argv[#argv + 1] = tostring(value)
  end
  local process = spawn(script, argv, output, 2)
  read_lines(process, output, on_line)
  return process
end

--- Starts any other program. What it writes goes to its log, or every line of its
-- output to on_line, if given. It is stopped by KILL or another `signal`, such as
-- "TERM" for one that has to stop its own processes.
function M.spawn(name, argv, on_line, signal)
  local log = assert(uv.fs_open(M.dir .. "/" .. name .. ".log", "a", tonumber("600", 8)))
  local output = on_line and uv.new_pipe(false)
  local process = spawn(name, argv, output or log, log, signal)
  uv.fs_close(log)
  if on_line then
    read_lines(process, output, on_line)
  end
  return process
end

--- Has it ended, and has all of its output been read?
function M.has_ended(process)
  return process.silent and not running[process]
end

--- The end of the log of the programs with this name.
function M.log(name)
  local log = io.open(M.dir .. "/" .. name .. ".log")
  local text = log and log:read "*a" or ""
  if log then log:close() end
  return text:sub(-1000)
end

--- Lets things happen until is_done() is true, for so many seconds at most.
function M.wait(is_done, seconds, what)
  local ends = uv.hrtime() + seconds * 1e9
  local timer = uv.new_timer() -- not everything that is_done() sees is an event
  timer:start(LOOK_EVERY_MS, LOOK_EVERY_MS, function() end)
  local done, late
  repeat
    done, late = is_done(), uv.hrtime() > ends
    if not done then
      uv.run "once"
    end
  until done or late or interrupt.came or failed
  timer:close()
  if interrupt.came then
    error("interrupted", 0)
  elseif failed then
    error(failed .. " has failed", 0)
  elseif not done then
    error(("waited %d s in vain until %s"):format(seconds, what), 0)
  end
end

--- Stops these processes and waits for their end.
function M.stop(list)
  for _, process in ipairs(list) do
    process.unwanted = true
    if running[process] then
      process.handle:kill(process.signal)
    end
  end
  for _, process in ipairs(list) do
    while running[process] do
      uv.run "once"
    end
  end
end

-- ---- servers ------------------------------------------------------------------

function M.free_port()
  local place = assert(socket.bind("127.0.0.1", 0))
  local _, port = place:getsockname()
  place:close()
  return tonumber(port)
end

--- Does somebody listen there?
function M.can_connect(port)
  local connection = socket.connect("127.0.0.1", port)
  if connection then
    connection:close()
  end
  return connection ~= nil
end

--- Starts an etcd, on a free port unless it is told one, and returns its address
-- when it answers.
function M.start_etcd(port)
  local endpoint = "http://127.0.0.1:" .. (port or M.free_port())
  local peer = "http://127.0.0.1:" .. M.free_port()
  M.spawn("etcd", {
    "etcd", "--data-dir", M.dir .. "/etcd",
    "--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
    "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
    "--initial-cluster", "default=" .. peer,
  })
  local client = assert(etcdlock.connect { endpoints = endpoint, env = false, loop = "luv" })
  local answers
  coroutine.wrap(function() -- in luv's loop, so that Ctrl-C is noted meanwhile
    repeat answers = client:ping() until answers or interrupt.came
    client:close()
  end)()
  M.wait(function() return answers end, 20, "etcd answers")
  return endpoint
end

-- ---- the whole ----------------------------------------------------------------

-- Removes |directory| and all that is in it. (An rm of ours would be ended by Ctrl-C.)
local function remove(directory)
  local scan = assert(uv.fs_scandir(directory))
  for name, kind in function() return uv.fs_scandir_next(scan) end do
    local path = directory .. "/" .. name
    if kind == "directory" then remove(path) else uv.fs_unlink(path) end
  end
  uv.fs_rmdir(directory)
end

--- Runs play() with M.dir as its directory, and removes all that it left, also
-- on Ctrl-C. Returns what play returns, or false.
function M.run(play)
  M.dir = assert(uv.fs_mkdtemp(uv.os_tmpdir() .. "/flash-sale-XXXXXX"))
  local ok, result = pcall(play)
  uv.run "nowait" -- a Ctrl-C that has not been noted yet explains any failure
  local left = {}
  for process in pairs(running) do
    left[#left + 1] = process
  end
  M.stop(left)
  if not ok then
    if interrupt.came then result, failed = "interrupted", nil end
    io.stderr:write("\n", result, "\n", failed and M.log(failed) or "")
  end
  remove(M.dir)
  return ok and result
end

return M
