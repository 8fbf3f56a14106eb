-- A lock in Redis as Redis's documentation has it: SET NX PX, and a script that deletes
-- the key if it is still ours. Nobody is woken up: who finds it taken asks again.

return {
  ttl_ms = "10000",
  -- seconds; redis-py waits for 0.1, node-redlock for 0.2.
  retry = 0.01,
  release = [[
    return redis.call("GET", KEYS[1]) == ARGV[1] and redis.call("DEL", KEYS[1]) or 0
  ]],
}
