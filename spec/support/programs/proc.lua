-- Starts child processes: commands that run until they exit, and programs that exchange lines with
-- the test. All of them are killed when this process ends, even by a signal.

local read_file = require "spec.support.harness.read_file"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local M = {}

-- Debian's Python, for which the packages are installed; PATH may find another one first.
M.PYTHON = "/usr/bin/python3"

-- `running` is the set of the processes that have not ended. `children` are the children for which
-- Child:wait has not returned, each with its number (0: it lasts until the end of the spec file);
-- `last` is the number of the last child.
local running, children, last = {}, {}, 0

-- ---- spawning ---------------------------------------------------------------

local function environment(extra)
  local env, list = uv.os_environ(), {}
  for name, value in pairs(extra or {}) do env[name] = value end
  for name, value in pairs(env) do
    if value then list[#list + 1] = name .. "=" .. value end
  end
  return list
end

-- Starts |argv| (a list) with |stdio| (see uv.spawn). |opts|: env (name = value; false: unset) and
-- cwd. Returns a process, whose fields `code` and `signal` are set when it has ended.
function M.spawn(argv, stdio, opts)
  opts = opts or {}
  -- With setpriv, the kernel kills the child when this process ends. If this process ends before
  -- setpriv has run, the shell notices that by $PPID and does not start the command.
  local parent = ("%d"):format(uv.os_getpid())
  local args = { "--pdeathsig", "KILL", "sh", "-c", 'test "$PPID" = "$0" && exec "$@"', parent }
  for i = 1, #argv do args[#args + 1] = argv[i] end
  local process = {}
  local handle, pid = uv.spawn("setpriv", {
    args = args,
    stdio = stdio,
    env = environment(opts.env),
    cwd = opts.cwd,
  }, function(code, signal)
    process.code, process.signal = code, signal
    running[process] = nil
    process.handle:close()
  end)
  if not handle then error("cannot start " .. argv[1] .. ": " .. pid, 2) end
  process.handle, process.pid = handle, pid
  running[process] = true
  return process
end

-- Waits at most |seconds| (10) for the end of |process|. Returns its exit code and signal.
function M.wait(process, seconds)
  wait.eventually(function() return process.code end, seconds or 10,
    "end of process " .. process.pid)
  return process.code, process.signal
end

-- Kills |process| if it still runs, and waits until it has ended.
function M.destroy(process)
  if process.code then return end
  uv.kill(process.pid, "sigkill")
  M.wait(process)
end

-- Returns a table that collects the data from a new pipe: `text` is the data so far, `ended` is
-- true or an error after the end of file. on_data(data), if given, is called for each piece.
local function collector(on_data)
  local sink = { text = "", pipe = uv.new_pipe(false) }
  function sink.start()
    sink.pipe:read_start(function(failure, data)
      if data then
        sink.text = sink.text .. data
        if on_data then on_data(data) end
      elseif not sink.ended then
        sink.ended = failure or true
        sink.pipe:close()
      end
    end)
  end
  return sink
end

-- ---- commands ---------------------------------------------------------------

-- Runs |argv| until it exits, at most |opts.seconds| (30); the other |opts| are those of spawn.
-- Returns standard output, exit code, standard error and signal.
function M.run(argv, opts)
  opts = opts or {}
  local out, err = collector(), collector()
  local process = M.spawn(argv, { nil, out.pipe, err.pipe }, opts)
  out.start()
  err.start()
  local ok, failure = pcall(wait.eventually, function()
    return process.code and out.ended and err.ended
  end, opts.seconds or 30, "end of " .. table.concat(argv, " "))
  if not ok then
    M.destroy(process)
    error(failure .. "\n" .. out.text .. err.text, 2)
  end
  return out.text, process.code, err.text, process.signal
end

-- Returns the process ids of the children that the main thread of the process |pid| has started;
-- none if it has ended.
function M.children_of(pid)
  local pids = {}
  local text = read_file(("/proc/%d/task/%d/children"):format(pid, pid)) or ""
  for child in text:gmatch "%d+" do pids[#pids + 1] = tonumber(child) end
  return pids
end

-- Returns the state of the process |pid| as in /proc ("T": stopped), or nil if it has ended.
function M.state(pid)
  local state = (read_file(("/proc/%d/stat"):format(pid)) or ""):match ".*%) (%S)"
  return state ~= "Z" and state or nil
end

local ROOT = uv.cwd()

-- Returns the search path with its relative entries made absolute.
local function absolute(path)
  return (path:gsub("[^;]+", function(entry)
    return entry:find "^/" and entry or ROOT .. "/" .. entry:gsub("^%./", "")
  end))
end

-- Returns the variables |extra| plus LUA_PATH and LUA_CPATH, with which a child finds the suite's
-- modules in any directory. Unsets their versioned forms (LUA_PATH_5_4).
function M.lua_environment(extra)
  local env = { LUA_PATH = absolute(package.path), LUA_CPATH = absolute(package.cpath) }
  for _, version in ipairs { "5_2", "5_3", "5_4", "5_5" } do
    env["LUA_PATH_" .. version], env["LUA_CPATH_" .. version] = false, false
  end
  for name, value in pairs(extra or {}) do env[name] = value end
  return env
end

-- Runs the Lua file |script| with |args| until it exits. Options and results are those of run.
function M.run_lua(script, args, opts)
  opts = opts or {}
  local argv = { uv.exepath(), script }
  for _, value in ipairs(args or {}) do argv[#argv + 1] = tostring(value) end
  return M.run(argv, {
    env = M.lua_environment(opts.env),
    cwd = opts.cwd,
    seconds = opts.seconds,
  })
end

-- ---- children that talk -----------------------------------------------------

local Child = {}
Child.__index = Child

-- Starts |argv| with |env| (see spawn) and returns the child, whose output expect reads line by
-- line and to whose input send writes lines. If it |lasts|, the end of the spec file destroys it,
-- and not the end of the test.
function M.talk(argv, env, lasts)
  local child = setmetatable({ lines = {}, partial = "" }, Child)
  child.stdin = uv.new_pipe(false)
  child.out = collector(function(data) child:add(data) end)
  child.err = collector()
  child.process = M.spawn(argv, { child.stdin, child.out.pipe, child.err.pipe },
    { env = env })
  child.pid = child.process.pid
  child.out.start()
  child.err.start()
  last = last + 1
  children[child] = lasts and 0 or last
  return child
end

-- Starts the Lua file |script| with |args| (strings) like talk; |env| is that of spawn.
function M.talk_lua(script, args, env)
  local argv = { uv.exepath(), script }
  for i, word in ipairs(args) do argv[i + 2] = word end
  return M.talk(argv, M.lua_environment(env))
end

-- Starts a Lua process that runs |source|, like talk; |...| are its arguments, passed as strings.
function M.lua(source, ...)
  local args = { source }
  for i = 1, select("#", ...) do
    args[i + 1] = tostring((select(i, ...)))
  end
  return M.talk_lua("spec/support/programs/child.lua", args)
end

function Child:add(data)
  local text = self.partial .. data
  self.partial = text:match "[^\n]*$"
  for line in text:gmatch "([^\n]*)\n" do
    self.lines[#self.lines + 1] = line
  end
end

-- Waits for a line that matches |pattern| and skips other lines. Returns the captures, or the whole
-- match. Raises after |seconds| (10) or when the child ends; the message contains all its output.
function Child:expect(pattern, seconds)
  local captures
  local ok, failure = pcall(wait.eventually, function()
    while not captures and self.lines[1] do
      local found = { table.remove(self.lines, 1):match(pattern) }
      if found[1] then captures = found end
    end
    return captures or self.out.ended
  end, seconds or 10, "line " .. pattern)
  if captures then return (table.unpack or unpack)(captures) end
  if ok then
    failure = ("child ended before line %s; exit code %s, signal %s"):format(pattern,
      tostring(self.process.code), tostring(self.process.signal))
  end
  error(("%s\n--- its output:\n%s--- its errors:\n%s"):format(
    failure, self.out.text, self.err.text), 2)
end

function Child:send(line)
  self.stdin:write(line .. "\n")
  uv.run "nowait"
end

-- Closes the child's standard input.
function Child:finish()
  if not self.stdin:is_closing() then self.stdin:close() end
end

-- Sends |signal| ("sigkill") to the child.
function Child:kill(signal)
  assert(uv.kill(self.pid, signal or "sigkill"))
end

-- Closes the child's standard input and waits at most |seconds| (10) for its end. Returns exit code
-- and signal. A child stopped by "sigstop" must be continued or killed before.
function Child:wait(seconds)
  self:finish()
  local code, signal = M.wait(self.process, seconds)
  wait.eventually(function() return self.out.ended and self.err.ended end,
    5, "end of the child's output")
  children[self] = nil
  return code, signal
end

-- Sends a line to a child that ends then. Returns the same as wait.
function Child:go()
  self:send "go"
  return self:wait()
end

-- Kills the child if it still runs, and closes its pipes. May be repeated.
function Child:destroy()
  M.destroy(self.process)
  self:wait()
end

-- Returns all that the child has written to standard error.
function Child:errors()
  return self.err.text
end

-- ---- shutdown ---------------------------------------------------------------

-- Returns the number of the last child, for destroy_children.
function M.open()
  return last
end

-- Destroys the children that still run, except those up to number |spared| (nil: no exception).
function M.destroy_children(spared)
  for child, number in pairs(children) do
    if number > (spared or -1) then child:destroy() end
  end
end

-- Kills all processes, closes all luv handles and runs the loop until they are closed: the Lua
-- state must not be closed before that.
function M.shut_down()
  local ok, failure = pcall(function()
    M.destroy_children()
    for process in pairs(running) do M.destroy(process) end
  end)
  uv.walk(function(handle)
    if not handle:is_closing() then handle:close() end
  end)
  uv.run()
  if not ok then error(failure, 0) end
end

return M
