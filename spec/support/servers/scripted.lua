-- Runs scripted.py: proxies in front of a real etcd that answer calls as a spec tells them to.

local error_rows = require "spec.support.harness.error_rows"
local json = require "dkjson"
local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"
local write_file = require "bench.write_file"

local Scripted = {}
Scripted.__index = Scripted

-- The process of all servers, which lasts until the end of the spec file, and the number of the
-- last server.
local program, last = nil, 0

local function send(self, command, ...)
  program:send(json.encode { command, self.number, ... })
end

local function receive()
  return json.decode(program:expect "^%[.*")[1]
end

local function ask(...)
  send(...)
  return receive()
end

-- Starts a scripted server in front of |etcd| ("http://host:port"). It allows |max_streams| streams
-- on a connection (nil: any number).
function Scripted.start(etcd, max_streams)
  if not program or program.process.code then
    program = proc.talk({ proc.PYTHON, "spec/support/servers/scripted.py" }, nil, true)
  end
  last = last + 1
  local self = setmetatable({ number = last }, Scripted)
  local port = ask(self, "start", (etcd:gsub("^http://", "")), max_streams or 0x7fffffff)
  self.address = ("127.0.0.1:%d"):format(port)
  return self
end

function Scripted:endpoint()
  return "http://" .. self.address
end

-- Makes the next |times| calls (nil: all) of |method| ("Txn", "Watch", ...) end with |status| (a
-- gRPC status number) and |text|. |when| says when etcd carries them out:
--   "before"  never: the calls end before they reach etcd
--   "after"   at once: the calls end afterwards
--   "never"   at once: the calls get no answer
--   "late"    at deliver: the calls end before that
function Scripted:answer(method, when, status, text, times)
  ask(self, "answer", method, times or -1, when, status, text or "")
end

-- Makes the next |times| (1) calls of |method| end with a timeout error; etcd receives them at
-- deliver.
function Scripted:delay(method, times)
  self:answer(method, "late", error_rows.STATUS.UNAVAILABLE, "etcdserver: request timed out",
    times or 1)
end

-- Sends etcd the delayed calls of |method|, and returns their number when etcd has answered them.
function Scripted:deliver(method)
  return ask(self, "deliver", method)
end

-- Holds back etcd's answers to the next |times| (1) calls of |method|, until tell.
function Scripted:hold_back(method, times)
  self:answer(method, "held", 0, nil, times or 1)
end

-- Writes |bytes| to a file, for scripted.py to read.
local function file_of(bytes)
  local path = temporary.directory() .. "/message"
  write_file(path, bytes)
  return path
end

-- forge    replaces all but the header of the first message that etcd answers to each of the next
--          |times| (nil: all) calls of |method| with |bytes|
-- extend   appends |bytes| to this message. If a field then occurs twice in the message, the reader
--          uses the second value
-- replace  replaces this message with |bytes|
for name, when in pairs { forge = "forged", extend = "extended", replace = "replaced" } do
  Scripted[name] = function(self, method, bytes, times)
    self:answer(method, when, 0, file_of(bytes), times)
  end
end

-- Removes the field |path| ("1.3": field 3 of the message in field 1) from the first message that
-- etcd answers to each of the next |times| (nil: all) calls of |method|.
function Scripted:omit(method, path, times)
  self:answer(method, "omitted", 0, path, times)
end

-- Sends |bytes| as one more message of etcd on the running streams of |method|. Returns the number
-- of these streams.
function Scripted:push(method, bytes)
  return ask(self, "push", method, file_of(bytes))
end

-- Starts to pass on the answers to |method| that are held back. Returns a function that waits until
-- this is done.
function Scripted:start_to_tell(method)
  send(self, "tell", method)
  return receive
end

-- Passes on the answers to |method| that are held back.
function Scripted:tell(method)
  self:start_to_tell(method)()
end

-- Ends the running streams of |method| with |status| and |text|.
function Scripted:interrupt(method, status, text)
  ask(self, "interrupt", method, status, text)
end

-- Forwards all future calls unchanged.
function Scripted:pass()
  ask(self, "forward")
end

-- held     returns the number of answers to |method| that are held back
-- calls    returns how many calls of |method| the server has received, answered or not
-- arrived  returns when the last message of |method| came from a client, by the clock of wait.now
for _, question in ipairs { "held", "calls", "arrived" } do
  Scripted[question] = function(self, method) return ask(self, question, method) end
end

-- Returns the gRPC status and the text of the last error with which etcd itself answered |method|;
-- 0 if there was none.
function Scripted:heard(method)
  return (table.unpack or unpack)(ask(self, "heard", method))
end

-- Returns how many calls of |method| arrive while |run| runs, and the results of |run|.
function Scripted:count(method, run)
  local before = self:calls(method)
  local results = { run() }
  return self:calls(method) - before, (table.unpack or unpack)(results, 1, 3)
end

function Scripted:stop()
  if not program.process.code then ask(self, "stop") end
end

return Scripted
