-- lock:expire accepted math.huge. gRPC took "%" and two digits in an IPv6 zone for an escape
-- sequence of a URI, and used another zone.
-- Needs: one plain member.

local clients = require "spec.support.harness.clients"
local etcdlock = require "etcdlock"
local read_file = require "spec.support.harness.read_file"
local suite = require "spec.support.harness.suite"

local connect = clients.connector { endpoints = suite.endpoint(), prefix = suite.prefix() }
local assert_fails = clients.assert_fails

after_each(clients.close_all)

local function refusal(endpoint)
  return assert_fails("invalid", etcdlock.connect { endpoints = { endpoint }, env = false })
end

it("regression 076: lock:expire raises for a number that is no time", function()
  local lock = assert(connect():lock "a")
  for _, seconds in ipairs { math.huge, -math.huge, 0 / 0, 0 } do
    local ok, message = pcall(lock.expire, lock, seconds)
    assert.is_false(ok)
    assert.matches("lock:expire: seconds = .+, wanted more than 0 seconds and not inf", message)
  end
  assert.is_true(lock:expire(30))
  assert.is_true(lock:unlock())
end)

it("regression 076: options that are no number of seconds are refused", function()
  local nan = 0 / 0
  for _, options in ipairs {
    { timeout = nan }, { timeout = -math.huge }, { max_hold = math.huge }, { max_hold = nan },
    { linger = math.huge }, { linger = nan },
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

it("regression 076: connect tells of what follows a port", function()
  for _, rest in ipairs { "/", "/v3", "?a=b", "#a" } do
    assert.matches('has text after the port; write "http://h:2379"',
      refusal("http://h:2379" .. rest), 1, true)
  end
end)

it("regression 076: an IPv6 zone of two digits is not taken for an escape", function()
  if (read_file "/proc/net/if_inet6" or "") == "" then return pending "this machine has no IPv6" end
  local client = etcdlock.connect { endpoints = "[::1%01]:1", env = false }
  local message = assert_fails("unavailable", client:lock("a", { timeout = 1 }))
  client:close()
  assert.matches("etcd [::1%01]:1: Connection refused", message, 1, true)
end)

it("regression 076: connect refuses a file and a text of the same thing", function()
  for _, field in ipairs { "cacert", "cert", "key" } do
    local options = { endpoints = "https://h:1", env = false }
    options[field], options[field .. "_pem"] = "/f", "x"
    assert.matches(("%s = \"/f\", wanted only one of %s and %s_pem"):format(field, field, field),
      assert_fails("invalid", etcdlock.connect(options)), 1, true)
  end
end)
