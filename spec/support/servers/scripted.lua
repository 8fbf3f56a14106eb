-- An etcd that answers what a spec wants (scripted_server.c), in front of a
-- real one.

local error_rows = require "spec.support.harness.error_rows"
local proc = require "spec.support.programs.proc"

local Scripted = {}
Scripted.__index = Scripted

-- Starts one in front of |etcd| ("http://host:port").
function Scripted.start(etcd)
  local child = proc.talk { "build/spec/scripted_server", (etcd:gsub("^http://", "")) }
  local self = setmetatable({ child = child }, Scripted)
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

-- The next |times| calls (nil: all) of |method| ("Txn", "Watch", ...) end with
-- |status| (gRPC's number) and |text|. |when|: "before" they reach etcd; "after"
-- etcd has carried them out; "never" is the same, but no answer comes; "late": it
-- carries them out when they are delivered.
function Scripted:answer(method, when, status, text, times)
  ask(self, "answer %s %d %s %d %s", method, times or -1, when, status, text or "")
end

-- The next |times| (1) calls of |method| are late: who makes them is told that they have
-- timed out, and etcd gets them when they are delivered.
function Scripted:delay(method, times)
  self:answer(method, "late", error_rows.STATUS.UNAVAILABLE, "etcdserver: request timed out",
    times or 1)
end

-- Brings etcd the calls of |method| that were to be late. Returns their number.
function Scripted:deliver(method)
  return (ask(self, "deliver %s", method))
end

-- Keeps what etcd answers to the next |times| (1) calls of |method|.
function Scripted:hold_back(method, times)
  self:answer(method, "held", 0, "-", times or 1)
end

-- How many answers are kept.
function Scripted:held(method)
  return (ask(self, "held %s", method))
end

-- Passes on the answers to |method| that are kept.
function Scripted:tell(method)
  ask(self, "tell %s", method)
end

-- Streams of |method| that run now end so.
function Scripted:interrupt(method, status, text)
  ask(self, "break %s %d %s", method, status, text)
end

-- Everything that comes from now on is forwarded as it is.
function Scripted:pass()
  ask(self, "pass")
end

-- How many calls of |method| have come, answered or not.
function Scripted:calls(method)
  return (ask(self, "calls %s", method))
end

-- How many calls of |method| are without an answer now.
function Scripted:out(method)
  return (ask(self, "out %s", method))
end

-- How etcd itself has last refused one: gRPC's status and its text.
function Scripted:heard(method)
  return ask(self, "heard %s", method)
end

-- How many calls of |method| |run| makes, and what it returns.
function Scripted:count(method, run)
  local before = self:calls(method)
  local results = { run() }
  return self:calls(method) - before, (table.unpack or unpack)(results)
end

function Scripted:stop()
  self.child:destroy()
end

return Scripted
