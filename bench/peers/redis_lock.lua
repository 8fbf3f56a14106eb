-- The parameters of a lock in Redis as the documentation of Redis describes it. `SET name token NX
-- PX ttl` takes the lock. The script `release` deletes the key if it still has the token of the
-- holder. Redis does not notify waiters: a client that finds the lock taken tries again after
-- `retry` seconds.

return {
  ttl_ms = "10000",
  -- Seconds between two attempts. The default of redis-py is 0.1, that of node-redlock 0.2.
  retry = 0.01,
  release = [[
    return redis.call("GET", KEYS[1]) == ARGV[1] and redis.call("DEL", KEYS[1]) or 0
  ]],
}
