-- Upgrades the members of etcd one by one, from version to version, while the clients work. After
-- each of these upgrades it kills the leader.

local faults = require "spec.stress.faults"
local history = require "spec.stress.history"
local http = require "socket.http"
local loop = require "spec.stress.loop"
local post = require "spec.stress.post"
local read_file = require "spec.support.harness.read_file"
local snapshots = require "spec.stress.snapshots"
local uv = require "luv"

local M = {}

-- PAUSE: seconds between two faults. START_MAX: seconds for a member to stop or to start.
-- VERSION_MAX: seconds for the version of the cluster to follow (etcd looks every 5 s).
local PAUSE, START_MAX, VERSION_MAX = 4, 30, 40

local etcd
local is_done = false

function M.is_done()
  return is_done
end

-- Waits up to |seconds| until is_ready() is true; reports a violation otherwise. Unlike in
-- loop.await, is_ready may suspend the coroutine.
local function await(is_ready, seconds, what)
  local deadline = loop.now() + seconds
  while not is_ready() do
    if loop.now() > deadline then
      return history.violation("*", "not within %d s: %s", seconds, what)
    end
    loop.sleep(0.1)
  end
end

-- Starts member |i| and waits until it answers a linearizable read.
local function start(i)
  local member = etcd.members[i]
  etcd:restart(i, { wait = false })
  await(function()
    return member.process.code or post(member.port, "/v3/kv/range", { key = "LQ==" }, 1)
  end, START_MAX, member.name .. " serves")
  if member.process.code then
    history.violation("*", "%s has ended:\n%s", member.name, read_file(member.log):sub(-2000))
  end
end

-- Stops member |i| as an operator does, and starts it as the etcd of |directory|.
local function upgrade(i, directory)
  local member = etcd.members[i]
  faults.begin("member %d becomes %s", i, directory)
  assert(uv.kill(member.process.pid, "sigterm"))
  await(function() return member.process.code end, START_MAX, member.name .. " stops")
  etcd:set_program(i, directory .. "/etcd")
  start(i)
  history.count "upgrades"
  faults.finish("member %d has become %s", i, directory)
end

local function kill_leader()
  local i = snapshots.leader
  faults.begin("the leader, member %d, is killed", i)
  etcd:kill(i)
  history.count "kills"
  loop.sleep(1)
  start(i)
  faults.finish("member %d serves", i)
end

-- Waits until the cluster has the version of its members: until then etcd refuses the next upgrade.
local function await_version()
  await(function()
    local body = http.request(etcd.members[1].endpoint .. "/version") or ""
    local server = body:match '"etcdserver":"(%d+%.%d+)'
    return server and server == body:match '"etcdcluster":"(%d+%.%d+)'
  end, VERSION_MAX, "the cluster has the version of its members")
end

-- Begins to upgrade the members of |cluster| to the etcd in each of |directories|.
function M.start(cluster, directories)
  etcd = cluster
  loop.spawn(function()
    loop.sleep(PAUSE)
    for _, directory in ipairs(directories) do
      for i in ipairs(etcd.members) do
        upgrade(i, directory)
        loop.sleep(PAUSE)
        kill_leader()
        loop.sleep(PAUSE)
      end
      await_version()
    end
    is_done = true
  end)
end

-- Checks that all upgrades are done, and that no hold was lost.
function M.check()
  if not is_done then history.violation("*", "the upgrades have not ended") end
  local losses = history.figures.losses or 0
  if losses > 0 then history.violation("*", "%d holds were lost", losses) end
end

return M
