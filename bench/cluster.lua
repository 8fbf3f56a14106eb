-- What the measures of a cluster ask of its members (spec.support.servers.etcd).

local wait = require "spec.support.harness.wait"

local M = {}

--- The number of the leader, when there is one.
function M.leader_of(etcd)
  return wait.eventually(function()
    local out = etcd:ctl("endpoint", "status")
    for endpoint in out:gmatch "(%S+), %x+, [^,]+, [^,]+, true," do
      for i, member in ipairs(etcd.members) do
        if member.endpoint == endpoint then return i end
      end
    end
  end, 20, "a leader")
end

--- The endpoints with that of member |i| in front: a client begins there.
function M.endpoints_from(etcd, i)
  local list, n = {}, #etcd.members
  for k = 0, n - 1 do list[k + 1] = etcd:endpoint((i - 1 + k) % n + 1) end
  return table.concat(list, ",")
end

function M.await_health(etcd)
  wait.eventually(function()
    local _, code, err = etcd:ctl("endpoint", "health")
    return code == 0, err
  end, 30, "all members are healthy")
end

return M
