-- The entrants that can take part in a row of locks.
--
--   label    the name in the reports
--   argv     the command line of a process of the entrant
--   env      environment variables of the process; nil: none
--   needs    the file without which the entrant cannot run; nil: it can always run
--   server   the function of servers.lua that starts its server; nil: etcd
--   work, linger, handoff_time, clients, fresh   fields of the job: see bench/peers/etcdlock.lua

local uv = require "luv"

local LUA = uv.exepath()
local OURS = { LUA, "bench/peers/etcdlock.lua" }
local REDIS = { LUA, "bench/peers/redis.lua" }
local GO = { "build/bench/go" }

return {
  etcdlock = { label = "etcdlock", argv = OURS },
  etcdlock_put = { label = "bare put + delete, etcdlock's core", argv = OURS, work = "put" },
  etcdlock_linger = { label = "etcdlock, lingering", argv = OURS, linger = 10 },
  etcdlock_released = { label = "etcdlock, without linger", argv = OURS },
  etcdlock_turns = { label = "etcdlock, in turns of a second", argv = OURS, handoff_time = 1 },
  etcdlock_clients = { label = "etcdlock, a client for each owner", argv = OURS, clients = true },
  etcdlock_fresh = { label = "etcdlock, a new name each time", argv = OURS, fresh = true },
  go = { label = "Go concurrency.Mutex", argv = GO, needs = "build/bench/go" },
  go_put = {
    label = "bare Put + Delete, Go clientv3", argv = GO, needs = "build/bench/go", work = "put",
  },
  python = {
    label = "python-etcd3 Lock",
    -- Debian's Python, because only that one finds Debian's package python3-etcd3.
    argv = { "/usr/bin/python3", "bench/peers/etcd3_lock.py" },
    needs = "/usr/lib/python3/dist-packages/etcd3",
  },
  node = {
    label = "node etcd3 Lock",
    argv = { "node", "bench/peers/etcd3_lock.js" },
    env = { NODE_PATH = uv.cwd() .. "/build/bench/node/node_modules" },
    needs = "build/bench/node/node_modules/etcd3",
  },
  redis = { label = "Redis SET NX, nothing on disk", argv = REDIS, server = "redis" },
  redis_fsync = {
    label = "Redis SET NX, appendfsync always", argv = REDIS, server = "redis_fsync",
  },
}
