-- Tests how a wait of more than 10 s is reported: the event "still_waiting", and the holder in it
-- and in the message of the timeout.

client_options { ttl = 5 }
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
  -- This key is older than all entries of "data". To name the holder, a waiter reads only the
  -- oldest key, so it does not learn who holds "data".
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
    local full_name = name:gsub("%S+", prefix .. "%0")
    local event, message = told[full_name], failure[1]
    assert.equal("timeout", failure[2], message)
    local level = name == "leader" and "info" or "warn"
    assert.same({ full_name, level, OPTS.timeout }, { event.name, event.level, event.timeout })
    assert.is_true(event.wait >= LONG_WAIT, event.wait)
    assert.matches(": still waiting after 1[%d.]+ s", tostring(event))
    local holder = ("; holder[^:]*: this process, pid %.0f on %s, "
      .. 'queued since %%d+[%%d :-]+, value "nightly report"'):format(core.pid(),
      core.host():gsub("%p", "%%%0"))
    if name == "data" then
      assert.is_nil(event.holder)
      assert.is_nil(message:find "holder")
    elseif name == "leader" then
      assert.same({ "the leader" }, { event.holder.value, event.holder.host })
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

-- Regression 124. The message of a timeout could name a "holder" that did not hold the lock: the
-- writer before a reader, which itself waited for another reader; a holder that had released the
-- lock since; or a multi-lock that still waited for another name. Besides, "since" looked like the
-- time of the grant.
local LIMIT = { timeout = 14 }

local function value(text) return { value = text, timeout = 60 } end

-- Steps |pending| (name -> pending lock) until each is decided or the function is_over returns
-- true. Returns two tables by name: the locks, and the messages of the failures.
local function step_all(pending, is_over)
  local locks, messages = {}, {}
  while next(pending) and not is_over() do
    wait.sleep(0.02)
    for name, one in pairs(pending) do
      local lock, message = one:step()
      if lock ~= false then
        pending[name], locks[name], messages[name] = nil, lock, message
      end
    end
  end
  return locks, messages
end

it("a timeout names the holder, and says so if it may be another one", function()
  local holder, waiter, client = connect(), connect(), connect()
  clients.keep { assert(holder:read_lock("shared", value "reader")), assert(holder:lock "second") }
  local released = assert(holder:lock("released", value "first"))
  local granted = assert(holder:lock("granted", value "first"))
  local many = {}
  for i = 1, 60 do many[i] = "many" .. i end
  clients.keep(assert(holder:lock("many60")))
  local between = {
    assert(waiter:write_lock_async("shared", value "writer")),
    assert(waiter:lock_async("released", value "next")),
    assert(waiter:multi_lock_async({ "first", "second" }, value "several")),
  }
  wait.eventually(function()
    return #assert(client:queue "shared") == 2 and #assert(client:queue "released") == 2
      and #assert(client:queue "first") == 1
  end)
  local from = wait.now()
  local pending = {
    shared = assert(client:read_lock_async("shared", LIMIT)),
    released = assert(client:lock_async("released", LIMIT)),
    granted = assert(client:lock_async("granted", LIMIT)),
    first = assert(client:lock_async("first", LIMIT)),
    many = assert(client:multi_lock_async(many, LIMIT)),
  }
  step_all(pending, function() return wait.now() - from > 11.5 end)
  assert(released:unlock())
  assert(granted:unlock())
  local locks, messages = step_all(pending, function() return false end)
  clients.keep(between)
  local process = "this process, pid %d+ on [^ ]+, queued since [%d-]+ [%d:]+, value "
  assert.matches("; holder, as read %d+ s ago: " .. process .. '"reader"$', messages.shared)
  assert.matches("; holder, as read %d+ s ago: " .. process .. '"first"$', messages.released)
  assert.matches("; first in the queue, as read %d+ s ago: multi%-lock of " .. process
    .. '"several"$', messages.first)
  -- The read of a multi-lock with 60 names has no room to read a holder as well.
  assert.matches("was not free within 14 s$", messages.many)
  assert.is_nil(locks.granted._core:take_holder()) -- a granted lock keeps no text about a holder
end)
