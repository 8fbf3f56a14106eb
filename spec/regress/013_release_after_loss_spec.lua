-- A release that was out when its lease was lost was told to have succeeded, whatever
-- the answer was: etcd was killed in the middle of the work, a wiped one came up in
-- its place, another took the lock there, and with_lock said true.

local Etcd = require "spec.support.servers.etcd"
local proc = require "spec.support.programs.proc"
local remote = require "spec.support.programs.remote"
local suite = require "spec.support.harness.suite"

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
