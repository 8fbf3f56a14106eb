-- Helpers for tests of clusters with several members, some of which may be down.

local assert = require "luassert"
local json = require "dkjson"
local proc = require "spec.support.programs.proc"
local remote = require "spec.support.programs.remote"
local wait = require "spec.support.harness.wait"

local M = {}

-- Seconds that an acquisition may take when a member fails, on a busy machine. The target is 2.5 s
-- at the 95th percentile; see bench/rows.lua.
M.STALL_MAX = 6

-- Returns the addresses of all members of |etcd|, separated by commas, that of member |i| first.
function M.endpoints_from(etcd, i)
  local list = {}
  for k = 0, #etcd.members - 1 do
    list[k + 1] = etcd:endpoint((i - 1 + k) % #etcd.members + 1)
  end
  return table.concat(list, ",")
end

-- Returns the number of the leader and that of another member.
function M.leader_of(etcd)
  local leader
  wait.eventually(function()
    -- As JSON, because each version prints other columns.
    local out, _, err = etcd:ctl("endpoint", "status", "-w", "json")
    for _, answer in ipairs(out ~= "" and json.decode(out) or {}) do
      for i, member in ipairs(etcd.members) do
        local status = answer.Status
        if member.endpoint == answer.Endpoint and status.leader == status.header.member_id then
          leader = i
        end
      end
    end
    return leader, out .. err
  end, 20, "a leader")
  return leader, leader % #etcd.members + 1
end

function M.await_health(etcd)
  wait.eventually(function()
    local _, code, err = etcd:ctl("endpoint", "health")
    return code == 0, err
  end, 30, "all members are healthy")
end

-- Destroys all children and restarts the members of |etcd| that are down or paused; for
-- before_each.
function M.heal(etcd)
  proc.destroy_children()
  local restarted
  for i, member in ipairs(etcd.members) do
    if member.process.code or member.paused then
      etcd:restart(i, { wait = false })
      restarted = true
    end
  end
  if restarted then M.await_health(etcd) end
end

-- Starts with the options |opts| a client that holds |name|, and one that waits for it. Returns a
-- function that fails unless the hold is renewed after the time |since|, and its release grants the
-- lock to the waiter.
function M.hold_and_wait(etcd, opts, name)
  local holder, waiter = remote.start(opts, 2)
  local token = remote.take(holder, name)
  remote.send_take(waiter, name, 60)
  etcd:await_keys(opts.prefix .. name .. "/", 2)
  return function(since)
    remote.assert_renewed(holder, since, opts.ttl)
    remote.assert_held(holder, token)
    remote.assert_waits(waiter)
    remote.release(holder)
    assert.is_true(remote.taken(waiter, 2) > token)
  end
end

-- ---- background work ----------------------------------------------------------

-- Takes and releases a lock until the key |stop| exists, and then 10 more times.
local CYCLES = [[
  local uv = require 'luv'
  local name, stop = '%s', '%s'
  local count, longest, last, left = 0, 0, 0, 10
  while left > 0 do
    local from = uv.hrtime()
    local lock = assert(client:lock(name, { timeout = 20 }))
    longest = math.max(longest, uv.hrtime() - from)
    assert(lock:token() > last, 'the token went back')
    count, last = count + 1, lock:token()
    assert(lock:check())
    local found, message = lock:get(stop)
    assert(found ~= nil, message)
    if found then left = left - 1 end
    local ok, message, code = lock:unlock()
    assert(ok or code == 'unavailable', message)
    uv.sleep(10)
  end
  return count, longest / 1e9
]]

-- Starts |count| clients with |opts| that each take and release their own lock in a loop. Returns a
-- function that stops them, and fails if a client failed or waited longer than STALL_MAX.
function M.start_cycles(etcd, opts, name, count)
  local options = {}
  for i = 1, count do options[i] = opts end
  local children, stop = remote.start_all(options), opts.prefix .. "stop/" .. name
  for i, child in ipairs(children) do
    remote.send(child, CYCLES:format(name .. "/" .. i, stop))
  end
  return function()
    etcd:put(stop, "now")
    for i, child in ipairs(children) do
      local results = remote.answer_of(child, 30)
      assert.is_true(tonumber(results[1]) ~= nil, table.concat(results, " "))
      assert.is_true(tonumber(results[2]) <= M.STALL_MAX,
        ("client %d: a lock took %s s, of %s locks"):format(i, results[2], results[1]))
    end
    etcd:del(stop)
  end
end

return M
