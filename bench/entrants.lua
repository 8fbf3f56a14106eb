-- The entrants: programs that do the work of a row. README.md describes what such a program reads
-- and prints.
--
--   label   the name in the reports
--   argv    the command line
--   needs   the file without which the entrant cannot run; nil: none
--   server  the function of servers.lua that starts its server; nil: etcd. In rows with a `fault`
--           it is cluster
--   job     further fields of its job; nil: none

local uv = require "luv"

local LUA = uv.exepath()
local OURS = { LUA, "bench/peers/etcdlock.lua" }
local REDIS = { LUA, "bench/peers/redis.lua" }
local NGINX = { LUA, "bench/peers/nginx.lua" }
local EXECUTABLE = "build/executable/etcdlock"
local COMMAND = { LUA, "bench/peers/command.lua" }
local GO = { "build/bench/go" }

-- Returns the entrant of |library|, a name in peers/java/Locks.java, with |server|.
local function java(label, library, server)
  return {
    label = label, server = server, needs = "build/java/ready",
    argv = { "java", "-cp", "build/java/classes:build/java/lib/*", "Peer", library },
  }
end

local list = {
  etcdlock = { label = "etcdlock", argv = OURS },
  bare = { label = "bare put + delete, etcdlock's core", argv = OURS, job = { work = "put" } },
  etcdlock_several = { label = "etcdlock, five names", argv = OURS, job = { work = "several" } },
  etcdlock_linger = { label = "etcdlock, lingering", argv = OURS, job = { linger = 10 } },
  kept = {
    label = "etcdlock", argv = OURS, job = { keep = true, ttl = 5, timeout = 20 },
  },
  go = { label = "Go concurrency.Mutex", argv = GO, needs = GO[1] },
  go_bare = { label = "bare Put + Delete, Go", argv = GO, needs = GO[1], job = { work = "put" } },
  jetcd = java("jetcd Lock", "jetcd"),
  curator = java("Curator InterProcessMutex", "curator", "zookeeper"),
  redisson = java("Redisson RLock, everysec", "redisson", "redis_everysec"),
  redisson_always = java("Redisson RLock, always", "redisson", "redis_always"),
  fair = java("Redisson fair lock, everysec", "fair", "redis_everysec"),
  fair_always = java("Redisson fair lock, always", "fair", "redis_always"),
  redis = { label = "Redis SET NX, everysec", argv = REDIS, server = "redis_everysec" },
  redis_always = { label = "Redis SET NX, always", argv = REDIS, server = "redis_always" },
  nginx = { label = "etcdlock", argv = NGINX, job = { lock = "etcdlock" } },
  nginx_dict = {
    label = "shared dict, as lua-resty-lock does", argv = NGINX, job = { lock = "shared_dict" },
  },
  nginx_redis = {
    label = "Redis SET NX in nginx, everysec", argv = NGINX, server = "redis_everysec",
    job = { lock = "redis" },
  },
  command = {
    label = "etcdlock run", argv = COMMAND, needs = EXECUTABLE,
    job = { command = EXECUTABLE .. " run command/ours -- true" },
  },
  script = {
    label = "etcdlock run, the Lua script", argv = COMMAND,
    job = { command = '"$LUA" bin/etcdlock run command/script -- true' },
  },
  etcdctl = {
    label = "etcdctl lock", argv = COMMAND,
    job = { command = "etcdctl lock command/theirs -- true" },
  },
}

-- Programs that only etcdlock has.
for _, name in ipairs { "held", "deadlines", "takeover" } do
  list[name] = { label = "etcdlock", argv = { LUA, ("bench/peers/%s.lua"):format(name) } }
end

return list
