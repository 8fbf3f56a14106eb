-- Tests clients and queues with many locks, many waiters and many names.

-- The beginning of programs that wait for many locks at once through etcdlock.core, which can poll
-- a wait without blocking. `wait_all` calls |on_held| for each lock as soon as it is granted.
local MANY = [[
  local core, uv = require "etcdlock.core", require "luv"
  local options = require "etcdlock.connect_options"
  local function connect(endpoints)
    return assert(core.connect(assert(options.read { endpoints = endpoints, ttl = 30 })))
  end
  local function wait_all(locks, on_held)
    local left = #locks
    while left > 0 do
      for i = 1, #locks do
        local held, message, code = locks[i] and locks[i]:wait(0)
        if held then
          on_held(locks[i], i)
          locks[i], left = false, left - 1
        elseif message then
          error(message .. " (" .. code .. ")")
        end
      end
      uv.sleep(5) -- a shorter sleep would take CPU time from etcd
    end
  end
]]

describe("a client", function()
  it("needs structs of at most 1 KB for each lock that it holds", function()
    assert.is_true(core.HOLD_SIZE <= 1024, core.HOLD_SIZE)
  end)

  it("holds 1,000 locks on one lease and renews them with at most 20 requests in 4.2 s", function()
    local client = connect { ttl = 4 }
    local COUNT = 1000
    local locks, last = {}, 0
    for i = 1, COUNT do
      locks[i] = assert(client:lock("thousand/" .. i))
      assert.is_true(locks[i]:token() > last)
      last = locks[i]:token()
    end
    etcd:await_keys(prefix .. "thousand/", COUNT, 2)
    local leases = etcd:leases()
    assert.equal(1, #leases)
    assert.equal(client:lease(), leases[1])
    assert.equal(COUNT, client:stats().held)

    -- The sleep is longer than the TTL, so the client must renew the lease. Keepalives and proof
    -- reads for many locks cost the same as for one lock.
    local before = client:stats()
    wait.sleep(4.2)
    for i = 1, COUNT do assert.is_true((locks[i]:held())) end
    local after = client:stats()
    assert.is_true(after.keepalives > before.keepalives)
    local spent = after.keepalives + after.lease_checks - before.keepalives - before.lease_checks
    assert.is_true(spent <= 20, spent .. " requests")
    assert.equal(1, after.grants)

    for i = 1, COUNT do assert(locks[i]:unlock()) end
    assert.same({}, etcd:keys(prefix .. "thousand/"))
    assert.equal(0, client:stats().held)
    assert.equal(0, client:stats().lost)
  end)
end)

it("a queue of 300 waiters from six processes is granted in the order of its entries", function()
  local PROCESSES, CLIENTS = 6, 50
  local CROWD = MANY .. [[
    local endpoint, name, count = ...
    local clients, locks = {}, {}
    for i = 1, tonumber(count) do
      clients[i] = connect(endpoint)
      locks[i] = clients[i]:lock(name, "")
      -- One after the other: a wait may fail if etcd does not answer its client in time.
      while clients[i]:stats().watches == 0 do
        assert(not select(2, locks[i]:wait(0)))
        uv.sleep(1)
      end
    end
    print "waiting"
    wait_all(locks, function(lock, i)
      print(("held %.0f %.0f"):format(lock:token(), uv.hrtime()))
      lock:release()
      local stats = clients[i]:stats()
      -- It watches its predecessor, and perhaps its own key, if a busy machine makes the hold long.
      assert(stats.watches <= 2, ("%d watches, %d looks, %d failed"):format(stats.watches,
        stats.looks, stats.failed_attempts))
    end)
    print "done"
    for i = 1, #clients do clients[i]:close(1) end
  ]]
  -- The TTL is long, because with 300 waiters at once etcd may not answer for many seconds.
  local holder = connect { ttl = 30 }
  local first = assert(holder:lock "drained")
  local children = {}
  for i = 1, PROCESSES do
    children[i] = proc.lua(CROWD, etcd:endpoints(), prefix .. "drained", CLIENTS)
  end
  for _, child in ipairs(children) do child:expect("^waiting", 20) end
  etcd:await_keys(prefix .. "drained/", PROCESSES * CLIENTS + 1, 2)
  local places = assert(holder:queue "drained")
  assert(first:unlock())
  local grants = {}
  for _, child in ipairs(children) do
    for _ = 1, CLIENTS do
      local token, at = child:expect("^held (%d+) (%d+)", 30)
      grants[#grants + 1] = { token = tonumber(token), at = tonumber(at) }
    end
  end
  table.sort(grants, function(a, b) return a.at < b.at end)
  for i, grant in ipairs(grants) do assert.equal(places[i + 1].token, grant.token) end
  for _, child in ipairs(children) do
    child:expect("^done", 10)
    assert.equal(0, (child:wait(20)))
  end
  assert.same({}, etcd:keys(prefix .. "drained/"))
end)

it("fifty locks that become free at once are all granted to their waiter within 1 s", function()
  local WAITER = MANY .. [[
    local endpoint, prefix = ...
    local client, locks = connect(endpoint), {}
    for i = 1, 50 do locks[i] = client:lock(prefix .. i, "") end
    print "waiting"
    wait_all(locks, function(lock) lock:release() end)
    local stats = client:stats()
    print(("done %.0f %.0f"):format(stats.acquired, stats.watches))
    client:close(1)
  ]]
  local holder = connect()
  local locks = {}
  for i = 1, 50 do locks[i] = assert(holder:lock("free/" .. i)) end
  local waiter = proc.lua(WAITER, etcd:endpoints(), prefix .. "free/")
  waiter:expect "^waiting"
  etcd:await_keys(prefix .. "free/", 100)
  -- close revokes the lease, so that etcd deletes all keys in one transaction.
  local freed = wait.now()
  holder:close()
  local acquired, watches = waiter:expect("^done (%d+) (%d+)", 10)
  assert.is_true(wait.now() - freed <= 1 + wait.SLACK, "after more than 1 s")
  assert.same({ "50", "50" }, { acquired, watches })
  assert.equal("closed", (select(2, locks[1]:held())))
  assert.equal(0, (waiter:wait()))
end)

-- Regression 126. Each held lock took a third more memory on Lua's heap, because the table of its
-- options had 18 fields. A Lua table with more than 16 fields has room for 32.
describe("a held lock", function()
  local COUNT = 200
  local LIMIT = 700 -- bytes; Lua 5.1 needs most, 560

  it("takes at most 700 bytes on Lua's heap", function()
    local client, locks = connect(), {}
    for i = 1, COUNT do locks[i] = false end
    assert(client:lock "warm"):unlock()
    collectgarbage()
    collectgarbage()
    local before = collectgarbage "count"
    for i = 1, COUNT do locks[i] = assert(client:lock("held/" .. i)) end
    collectgarbage()
    collectgarbage()
    local bytes = (collectgarbage "count" - before) * 1024 / COUNT
    assert.is_true(bytes <= LIMIT, bytes)
    for i = 1, COUNT do assert(locks[i]:unlock()) end
  end)
end)

-- Regression 323. A call with the option `owner` went through all waits of this owner: 4,000 waits
-- took 0.9 s.
describe("a wait of an owner", function()
  local WAITS, SAMPLE = 1000, 100

  it("takes the same work if the owner waits for 900 other locks", function()
    local client, owner, ended, work = connect { loop = "luv" }, {}, 0, 0
    local function count() work = work + 1 end

    -- Starts the waits from number |first| to number |last|. Returns how many instructions of Lua
    -- that takes, in tens.
    local function start(first, last)
      work = 0
      for i = first, last do
        coroutine.wrap(function()
          debug.sethook(count, "", 10) -- counts in this coroutine
          local lock = assert(client:lock("wait/" .. i, { owner = owner }))
          debug.sethook()
          assert(lock:unlock())
          ended = ended + 1
        end)()
      end
      return work
    end

    start(1, 10) -- the first waits take more
    local few = start(11, 10 + SAMPLE)
    start(11 + SAMPLE, WAITS - SAMPLE)
    local many = start(WAITS - SAMPLE + 1, WAITS)
    wait.eventually(function()
      uv.run "nowait"
      return ended == WAITS
    end, 10, "the locks")
    assert.is_true(few > SAMPLE, few)
    assert.is_true(many < 2 * few, ("%d, then %d"):format(few, many))
  end)
end)
