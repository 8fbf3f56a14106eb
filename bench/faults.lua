-- The faults of the rows with a `fault`. Each function disturbs |etcd|, three members, during a
-- window, and returns when all members work again.

local cluster = require "spec.support.servers.cluster"
local proc = require "spec.support.programs.proc"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local M = {}

function M.kill(etcd)
  local leader = cluster.leader_of(etcd)
  wait.sleep(1)
  etcd:kill(leader)
  wait.sleep(4)
  etcd:restart(leader)
  cluster.await_health(etcd)
end

-- Stops the members |list|: one for 4 s, several for 9 s.
local function stand_still(etcd, list)
  wait.sleep(1)
  for _, i in ipairs(list) do etcd:pause(i) end
  wait.sleep(#list > 1 and 9 or 4)
  for _, i in ipairs(list) do etcd:resume(i) end
  cluster.await_health(etcd)
end

function M.stop(etcd) stand_still(etcd, { (cluster.leader_of(etcd)) }) end

function M.stop_all(etcd) stand_still(etcd, { 1, 2, 3 }) end

function M.restart(etcd)
  for i in ipairs(etcd.members) do
    wait.sleep(1)
    assert(uv.kill(etcd:pid(i), "sigterm"))
    proc.wait(etcd.members[i].process, 20)
    etcd:restart(i)
    cluster.await_health(etcd)
  end
end

return M
