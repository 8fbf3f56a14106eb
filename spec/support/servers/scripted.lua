-- Runs scripted_server.c: a proxy in front of a real etcd that answers calls as a spec tells it to.

local error_rows = require "spec.support.harness.error_rows"
local proc = require "spec.support.programs.proc"
local write_file = require "bench.write_file"

local Scripted = {}
Scripted.__index = Scripted

-- Starts a scripted server in front of |etcd| ("http://host:port"). It allows |max_streams| streams
-- on a connection (nil: any number).
function Scripted.start(etcd, max_streams)
  local address = etcd:gsub("^http://", "")
  local child = proc.talk { "build/spec/scripted_server", address, max_streams }
  local self = setmetatable({ child = child, files = {} }, Scripted)
  self.address = "127.0.0.1:" .. child:expect "^port (%d+)"
  return self
end

function Scripted:endpoint()
  return "http://" .. self.address
end

local function ask(self, ...)
  self.child:send(string.format(...))
  local number, text = self.child:expect "^(%d+) ?(.*)$"
  return tonumber(number), text
end

-- Makes the next |times| calls (nil: all) of |method| ("Txn", "Watch", ...) end with |status| (a
-- gRPC status number) and |text|. |when| says when etcd carries them out:
--   "before"  never: the calls end before they reach etcd
--   "after"   at once: the calls end afterwards
--   "never"   at once: the calls get no answer
--   "late"    at deliver: the calls end before that
function Scripted:answer(method, when, status, text, times)
  ask(self, "answer %s %d %s %d %s", method, times or -1, when, status, text or "")
end

-- Makes the next |times| (1) calls of |method| end with a timeout error; etcd receives them at
-- deliver.
function Scripted:delay(method, times)
  self:answer(method, "late", error_rows.STATUS.UNAVAILABLE, "etcdserver: request timed out",
    times or 1)
end

-- Sends etcd the delayed calls of |method|, and returns their number when etcd has answered them.
function Scripted:deliver(method)
  return (ask(self, "deliver %s", method))
end

-- Holds back etcd's answers to the next |times| (1) calls of |method|, until tell.
function Scripted:hold_back(method, times)
  self:answer(method, "held", 0, "-", times or 1)
end

-- Writes |bytes| to a file, for the server to read.
local function file_of(self, bytes)
  local path = os.tmpname()
  write_file(path, bytes)
  self.files[#self.files + 1] = path
  return path
end

-- Replaces all but the header of the first message that etcd answers to each of the next |times|
-- (nil: all) calls of |method| with |bytes|.
function Scripted:forge(method, bytes, times)
  self:answer(method, "forged", 0, file_of(self, bytes), times)
end

-- Appends |bytes| to the first message that etcd answers to each of the next |times| (nil: all)
-- calls of |method|. If a field then occurs twice in the message, the reader uses the second value.
function Scripted:extend(method, bytes, times)
  self:answer(method, "extended", 0, file_of(self, bytes), times)
end

-- Replaces the first message that etcd answers to each of the next |times| (nil: all) calls of
-- |method| with |bytes|.
function Scripted:replace(method, bytes, times)
  self:answer(method, "replaced", 0, file_of(self, bytes), times)
end

-- Removes the field |path| ("1.3": field 3 of the message in field 1) from the first message that
-- etcd answers to each of the next |times| (nil: all) calls of |method|.
function Scripted:omit(method, path, times)
  self:answer(method, "omitted", 0, path, times)
end

-- Sends |bytes| as one more message of etcd on the running streams of |method|. Returns the number
-- of these streams.
function Scripted:push(method, bytes)
  return (ask(self, "push %s %s", method, file_of(self, bytes)))
end

-- Returns the number of answers to |method| that are held back.
function Scripted:held(method)
  return (ask(self, "held %s", method))
end

-- Passes on the answers to |method| that are held back.
function Scripted:tell(method)
  ask(self, "tell %s", method)
end

-- Ends the running streams of |method| with |status| and |text|.
function Scripted:interrupt(method, status, text)
  ask(self, "break %s %d %s", method, status, text)
end

-- Forwards all future calls unchanged.
function Scripted:pass()
  ask(self, "pass")
end

-- Returns how many calls of |method| the server has received, answered or not.
function Scripted:calls(method)
  return (ask(self, "calls %s", method))
end

-- Returns when the last message of |method| came from a client, by the clock of wait.now.
function Scripted:arrived(method)
  return ask(self, "arrived %s", method) / 1e6
end

-- Returns the gRPC status and the text of the last error with which etcd itself answered |method|;
-- 0 if there was none.
function Scripted:heard(method)
  return ask(self, "heard %s", method)
end

-- Returns how many calls of |method| arrive while |run| runs, and the results of |run|.
function Scripted:count(method, run)
  local before = self:calls(method)
  local results = { run() }
  return self:calls(method) - before, (table.unpack or unpack)(results, 1, 3)
end

function Scripted:stop()
  self.child:destroy()
  for _, path in ipairs(self.files) do os.remove(path) end
end

return Scripted
