-- Tests numbers and endpoints with odd values.
-- Needs: one plain member.

-- Regression 076. lock:expire accepted math.huge. gRPC took "%" and two digits in an IPv6 zone for
-- an escape sequence of a URI, and used another zone.
it("lock:expire raises for a number that is no time", function()
  local lock = assert(connect():lock "a")
  for _, seconds in ipairs { math.huge, -math.huge, 0 / 0, 0 } do
    assert.error_matches(function() lock:expire(seconds) end,
      "lock:expire: seconds = .+, wanted more than 0 seconds and not inf")
  end
  assert.is_true(lock:expire(30))
  assert.is_true(lock:unlock())
end)

it("options that are no number of seconds are refused", function()
  local nan = 0 / 0
  for _, options in ipairs {
    { timeout = nan }, { timeout = -math.huge }, { timeout = -1 }, { max_hold = math.huge },
    { max_hold = nan }, { max_hold = 0 }, { linger = math.huge }, { linger = nan },
  } do
    assert_fails("invalid", connect():lock("a", options))
  end
  for _, options in ipairs {
    { ttl = nan }, { ttl = math.huge }, { timeout = nan }, { handoff = nan },
    { handoff = math.huge }, { handoff_time = nan }, { handoff_time = math.huge },
    { log_rate = nan }, { lock_delay = -1 }, { lock_delay = 300.1 }, { lock_delay = nan },
  } do
    options.env = false
    assert_fails("invalid", etcdlock.connect(options))
  end
end)

it("an IPv6 zone of two digits is not taken for an escape", function()
  if (read_file "/proc/net/if_inet6" or "") == "" then return pending "this machine has no IPv6" end
  local client = etcdlock.connect { endpoints = "[::1%01]:1", env = false }
  local message = assert_fails("unavailable", client:lock("a", { timeout = 1 }))
  client:close()
  assert.matches("etcd [::1%01]:1: Connection refused", message, 1, true)
end)
