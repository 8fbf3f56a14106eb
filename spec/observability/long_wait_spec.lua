-- Tests how a wait of more than 10 s is reported: the event "still_waiting", and the holder in it
-- and in the message of the timeout.

local clients = require "spec.support.harness.clients"
local core = require "etcdlock.core"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local connect = clients.connector { endpoints = suite.endpoint(), prefix = prefix, ttl = 5 }
local OPTS = { timeout = 16 }
-- Seconds after which the test's client reports a wait. The default is 10.5 s. But on a busy
-- machine, the answer to the read after 10 s may come later, and this answer names the holder.
local LONG_WAIT = 14

after_each(function()
  clients.close_all()
  suite.etcd():del(prefix .. "data/stock")
end)

-- Starts a call of each mode by |client|. Returns the pending locks by their names.
local function start_all(client)
  return {
    plain = assert(client:lock_async("plain", OPTS)),
    reader = assert(client:read_lock_async("reader", OPTS)),
    writer = assert(client:write_lock_async("writer", OPTS)),
    pool = assert(assert(client:semaphore("pool", 1)):lock_async(OPTS)),
    ["free multi"] = assert(client:multi_lock_async({ "free", "multi" }, OPTS)),
    leader = assert(client:election "leader":campaign_async("me", OPTS)),
    data = assert(client:lock_async("data", OPTS)),
  }
end

-- Takes the locks of start_all, and waits until they are held.
local function take_all(client)
  local opts = { value = "nightly report" }
  clients.keep {
    assert(client:lock("plain", opts)), assert(client:write_lock("reader", opts)),
    assert(client:read_lock("writer", opts)), assert(client:lock("multi", opts)),
    assert(assert(client:semaphore("pool", 1)):lock(opts)),
    assert(client:election "leader":campaign "the leader"), assert(client:lock("data", opts)),
  }
end

it('a wait of more than 10 s is reported by "still_waiting" and names the holder', function()
  local told, failed = {}, {}
  -- This key is older than all entries of "data". A waiter reads only the oldest key, so it does
  -- not learn who holds "data".
  suite.etcd():put(prefix .. "data/stock", "5")
  take_all(connect { elsewhere = true })
  local client = connect { log = function(event)
    if event.event == "still_waiting" then told[event.name] = event end
  end }
  assert.equal(10.5, client._long_wait)
  client._long_wait = LONG_WAIT
  local pending = start_all(client)
  while next(pending) do
    wait.sleep(0.02)
    for name, one in pairs(pending) do
      local lock, message, code = one:step()
      if lock ~= false then
        pending[name], failed[name] = nil, { message, code }
      end
    end
  end
  for name, failure in pairs(failed) do
    local event, message = told[name], failure[1]
    assert.equal("timeout", failure[2], message)
    assert.same({ name, "warn", OPTS.timeout }, { event.name, event.level, event.timeout })
    assert.is_true(event.wait >= LONG_WAIT, event.wait)
    assert.matches(": still waiting after 1[%d.]+ s", tostring(event))
    local value = name ~= "leader" and ', value "nightly report"' or ""
    local holder = ("; holder[%%d s ago]*: this process, pid %.0f on %s, "
      .. "queued since %%d+[%%d :-]+%s"):format(core.pid(), core.host():gsub("%p", "%%%0"), value)
    if name == "data" then
      assert.is_nil(event.holder)
      assert.is_nil(message:find "holder")
    elseif name == "leader" then
      assert.is_nil(event.holder) -- the value of a leader's key does not describe its holder
    else
      assert.same({ core.host(), core.pid(), "nightly report" },
        { event.holder.host, event.holder.pid, event.holder.value })
      assert.is_true(event.holder.ago < event.wait, event.holder.ago)
      assert.is_true(math.abs(event.holder.since - os.time()) < 60)
      assert.matches(holder .. "$", tostring(event))
      assert.matches("was not free within 16 s" .. holder .. "$", message)
    end
  end
end)
