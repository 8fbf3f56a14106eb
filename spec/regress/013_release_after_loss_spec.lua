-- A release that was out when its lease was lost was told to have succeeded, whatever
-- the answer was: etcd was killed in the middle of the work, a wiped one came up in
-- its place, another took the lock there, and with_lock said true.

local Etcd = require "spec.support.servers.etcd"
local Scripted = require "spec.support.servers.scripted"
local proc = require "spec.support.programs.proc"
local remote = require "spec.support.programs.remote"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()

local function start(etcd)
  return remote.start { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 }
end

-- What becomes of a with_lock whose etcd is wiped while it works.
local function tell(is_another)
  local etcd = Etcd.start()
  finally(function()
    proc.destroy_children()
    etcd:stop()
  end)
  local child = start(etcd)
  remote.send(child, [[
    return client:with_lock("a", function()
      io.stderr:write "works\n"
      io.read "*l"
      return "result"
    end)
  ]])
  etcd:await_keys(prefix .. "a/", 1)
  etcd:wipe(is_another)
  local thief = start(etcd)
  remote.take(thief, "a")
  child:send "go on"
  local results = remote.answer_of(child, 20)
  assert.same({ "nil", "true", "result" }, { results[1], results[4], results[5] })
  assert.is_true(results[3] == "lost" or results[3] == "conflict", results[3])
  remote.release(thief)
end

describe("a release to an etcd that was wiped meanwhile is no success", function()
  it("if that is the same cluster, as it says", function() tell(false) end)
  it("if it is another", function() tell(true) end)
end)

it("a release that is out is told so when another cluster is found", function()
  local etcd = Etcd.start()
  local server = Scripted.start(etcd:endpoint())
  finally(function()
    proc.destroy_children()
    etcd:stop()
  end)
  -- Renewed each second, by which it is found.
  local child = remote.start { endpoints = server:endpoint(), prefix = prefix, ttl = 3 }
  remote.take(child, "a")
  server:answer("Txn", "never", 0)
  local before = server:calls "Txn"
  -- unlock waits less long than it may take to find out.
  remote.send(child, "lock._core:release() return lock._core:wait_released(30)")
  wait.eventually(function() return server:calls "Txn" > before end, 5, "the release")
  etcd:wipe(true)
  local results = remote.answer_of(child, 40)
  assert.same({ "false", "lost" }, { results[1], results[3] })
  assert.matches("another cluster", results[2])
end)
