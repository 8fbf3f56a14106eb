--- The process that runs under a lock: how it is started, signalled and ended.
local uv = require "luv"
local characters = require "etcdlock.characters"
local program = require "etcdlock.command.program"
local signals = require "etcdlock.command.signals"

local Child = {}
Child.__index = Child

--- What has to be done in the new process before it runs the command, by programs that do
-- it and become the next one: it dies with us, and what was ignored it ignores, too.
local function prepare(argv)
  local words, ignored = {}, {}
  for name in pairs(signals.ignored()) do
    ignored[#ignored + 1] = characters.upper(name:sub(4))
  end
  local env, setpriv = program.find_tool "env", program.find_tool "setpriv"
  if ignored[1] and env then
    words = { env, "--ignore-signal=" .. table.concat(ignored, ",") }
  end
  if setpriv then
    for _, word in ipairs { setpriv, "--pdeathsig", "KILL", "--" } do
      words[#words + 1] = word
    end
  end
  for _, word in ipairs(argv) do
    words[#words + 1] = word
  end
  return words
end

--- Our environment, and `extra`: a list as luv wants it.
local function environment(extra)
  local all, list = uv.os_environ(), {}
  for name, value in pairs(extra) do
    all[name] = value
  end
  for name, value in pairs(all) do
    list[#list + 1] = name .. "=" .. value
  end
  return list
end

--- Starts `argv`, with what we have open and `extra` (name = value) in its environment.
-- on_exit(code, signal) is called when it has ended.
-- @return child | nil, message, exit status
function Child.start(argv, extra, on_exit)
  local path, message, status = program.find(argv[1]) -- it may have gone while we waited
  if not path then
    return nil, message, status
  end
  local words = prepare(argv)
  local self = setmetatable({}, Child)
  local handle, pid = uv.spawn(words[1], {
    args = { (table.unpack or unpack)(words, 2) }, -- luacheck: ignore unpack
    env = environment(extra),
    stdio = { 0, 1, 2 },
  }, function(code, signal)
    self:close()
    on_exit(code, signal)
  end)
  if not handle then
    return nil, ("%s: it can't be executed: %s"):format(argv[1], pid), status
  end
  self._handle, self._pid = handle, pid
  return self
end

--- Sends it a signal, of luv's names.
function Child:kill(name)
  if not self._handle:is_closing() then
    self._handle:kill(name)
  end
end

--- Passes on a signal that has come to us, unless it has come to it as well.
function Child:pass(name)
  if not signals.came_to(self._pid, name) then
    self:kill(name)
  end
end

--- Has it end: TERM, and KILL after `grace` seconds.
function Child:terminate(grace)
  if self._timer or self._handle:is_closing() then
    return
  end
  self._timer = uv.new_timer()
  self:kill "sigterm"
  self:kill "sigcont" -- one that is stopped hears of nothing else
  self._timer:start(math.ceil(grace * 1000), 0, function()
    self:kill "sigkill"
  end)
end

--- Lets go of what luv has of it.
function Child:close()
  self._handle:close()
  if self._timer then
    self._timer:close()
  end
end

return Child
