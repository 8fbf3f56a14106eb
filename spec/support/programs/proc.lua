-- Child processes: commands that run to their end, and Lua programs that are
-- talked to line by line. All of them die with this process, however it ends.

local uv = require "luv"
local wait = require "spec.support.harness.wait"

local M = {}

-- Processes that run, and children that have not been waited for.
local running, children = {}, {}

-- ---- spawning ---------------------------------------------------------------

local function environment(extra)
  local env, list = uv.os_environ(), {}
  for name, value in pairs(extra or {}) do env[name] = value end
  for name, value in pairs(env) do
    if value then list[#list + 1] = name .. "=" .. value end
  end
  return list
end

-- Starts |argv| (a list) with |stdio|; |opts| are env (name = value, or false
-- to drop it) and cwd. Returns a process, whose `code` and `signal` are set
-- when it has ended.
function M.spawn(argv, stdio, opts)
  opts = opts or {}
  -- setpriv has the child die with us; the shell sees to the case that we are
  -- dead already.
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

-- Waits for |process|; returns its exit code and signal, or fails.
function M.wait(process, seconds)
  wait.eventually(function() return process.code end, seconds or 10,
    "end of process " .. process.pid)
  return process.code, process.signal
end

-- Kills |process| if it still runs, and waits for its end.
function M.destroy(process)
  if process.code then return end
  uv.kill(process.pid, "sigkill")
  M.wait(process)
end

-- Gathers what arrives on a new pipe: `text` so far, `ended` at end of file.
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

-- Runs |argv| to its end, at most |opts.seconds| (30). Returns its standard
-- output, exit code, standard error and signal.
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
  local env = {
    LUA_PATH = absolute(package.path),
    LUA_CPATH = absolute(package.cpath),
    LUA_PATH_5_2 = false,
    LUA_PATH_5_3 = false,
    LUA_PATH_5_4 = false,
    LUA_CPATH_5_2 = false,
    LUA_CPATH_5_3 = false,
    LUA_CPATH_5_4 = false,
  }
  for name, value in pairs(extra or {}) do env[name] = value end
  return env
end

-- Runs the Lua file |script| with |args| to its end; options and results as
-- those of run.
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

-- Starts |argv| as a child whose standard output and input are lines for expect
-- and send.
function M.talk(argv, env)
  local child = setmetatable({ lines = {}, partial = "" }, Child)
  child.stdin = uv.new_pipe(false)
  child.out = collector(function(data) child:add(data) end)
  child.err = collector()
  child.process = M.spawn(argv, { child.stdin, child.out.pipe, child.err.pipe },
    { env = env })
  child.pid = child.process.pid
  child.out.start()
  child.err.start()
  children[child] = true
  return child
end

-- The same for the Lua file |script|, with |args| (strings); |env| as for spawn.
function M.talk_lua(script, args, env)
  local argv = { uv.exepath(), script }
  for i, word in ipairs(args) do argv[i + 2] = word end
  return M.talk(argv, M.lua_environment(env))
end

-- The same for a Lua child that runs the program text |source| with |...| as
-- its arguments (strings).
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

-- Waits for a line that matches |pattern|, skipping others; returns its
-- captures (or the whole match). Fails after |seconds| (10) or at the child's
-- end, with all that it printed.
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
    failure = "child ended before line " .. pattern
  end
  error(("%s\n--- its output:\n%s--- its errors:\n%s"):format(
    failure, self.out.text, self.err.text), 2)
end

function Child:send(line)
  self.stdin:write(line .. "\n")
  uv.run "nowait"
end

-- Closes its standard input.
function Child:finish()
  if not self.stdin:is_closing() then self.stdin:close() end
end

-- Sends a signal: "sigkill", "sigstop", "sigcont", "sigterm", …
function Child:kill(signal)
  assert(uv.kill(self.pid, signal or "sigkill"))
end

-- Closes its input and waits for its end, at most |seconds| (10); returns exit
-- code and signal. A stopped child must be continued or killed before.
function Child:wait(seconds)
  self:finish()
  local code, signal = M.wait(self.process, seconds)
  wait.eventually(function() return self.out.ended and self.err.ended end,
    5, "end of the child's output")
  children[self] = nil
  return code, signal
end

-- Kills it if need be and lets go of all that it holds; may be repeated.
function Child:destroy()
  M.destroy(self.process)
  self:wait()
end

-- Everything it has written to its standard error.
function Child:errors()
  return self.err.text
end

-- ---- the end ----------------------------------------------------------------

-- Destroys the children that failed specs have left.
function M.destroy_children()
  for child in pairs(children) do child:destroy() end
end

-- Kills all that runs and lets luv finish: it must not be closed half-way when
-- the Lua state goes.
function M.shut_down()
  M.destroy_children()
  for process in pairs(running) do M.destroy(process) end
  uv.walk(function(handle)
    if not handle:is_closing() then handle:close() end
  end)
  uv.run()
end

return M
