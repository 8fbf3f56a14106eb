-- A guarded write was given up after 0.6 s of silence, although it isn't sent again and there
-- was no other member to go to: its caller was told `unavailable` of an etcd that was slow.

local clients = require "spec.support.harness.clients"
local error_rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local SILENCE = 0.8 -- seconds: more than was too long, ...
local ATTEMPT = 3 -- ... and less than a write has for its answer
local server

before_each(function() server = clients.scripted(suite.endpoint()) end)

after_each(function()
  clients.close_all()
  etcd:ctl("del", prefix, "--prefix")
end)

local function key(i)
  return prefix .. "data/" .. i
end

-- A client and |n| locks that it holds; it asks nothing by itself now.
local function holding(n, opts)
  opts.prefix, opts.ttl = prefix, 60
  local client, locks = clients.connector(opts)(), {}
  for i = 1, n do locks[i] = assert(client:lock("a" .. i)) end
  wait.eventually(function() return client:stats().watches >= n end)
  for _, lock in ipairs(locks) do clients.await_watched(client, lock) end
  return client, locks
end

-- Has each of |locks| write its key.
local function start_puts(client, locks)
  local writes = {}
  for i, lock in ipairs(locks) do
    writes[i] = clients.start_put(client, lock, key(i), "new", 10)
  end
  return writes
end

it("a write waits for the only member's answer", function()
  local client, locks = holding(1, { endpoints = server:endpoint() })
  server:hold_back("Txn", -1)
  local write = start_puts(client, locks)[1]
  wait.eventually(function() return server:held "Txn" == 1 end)
  wait.sleep(SILENCE)
  server:tell "Txn"
  assert.is_true((write:wait(10)))
  assert.equal("new", (etcd:get(key(1))))
end)

-- Has what |ask| sends gather, because two requests are out, until it leaves as one, whose
-- answer doesn't come; then calls look(what |ask| returned). If it takes too long it leaves
-- apart: then that is done again.
local function together(client, ask, look)
  local round = 0
  wait.eventually(function()
    local shared, asked = client:stats().shared, {}
    round = round + 1
    server:hold_back("Txn", -1)
    for i = 1, 2 do asked[i] = assert(client:lock_async(("b%d of %d"):format(i, round))) end
    wait.eventually(function() return server:held "Txn" == 2 end)
    local sent = ask(round)
    wait.eventually(function() return server:held "Txn" >= 3 end)
    local is_one = client:stats().shared > shared
    if is_one then look(sent) end
    server:pass()
    server:tell "Txn"
    for i = 1, 2 do assert.is_true(clients.granted(asked[i]):unlock()) end
    return is_one
  end, 15, "what leaves together")
end

it("writes that leave together wait for it, too", function()
  local client, locks = holding(5, { endpoints = server:endpoint() })
  together(client, function() return start_puts(client, locks) end, function(writes)
    wait.sleep(SILENCE)
    server:pass()
    server:tell "Txn"
    for i, write in ipairs(writes) do
      assert.is_true((write:wait(10)))
      assert.equal("new", (etcd:get(key(i))))
    end
  end)
end)

-- |write| ends before it would if it were waited for, and nobody knows what became of it.
local function assert_given_up(write, from)
  clients.assert_unheard(write)
  assert.is_true(wait.now() - from < ATTEMPT)
end

local function assert_given_up_alone(opts)
  local client, locks = holding(1, opts)
  server:hold_back("Txn", -1)
  local from = wait.now()
  assert_given_up(start_puts(client, locks)[1], from)
end

it("where there is another member it is given up with everything else", function()
  assert_given_up_alone {
    endpoints = { server:endpoint(), clients.scripted(suite.endpoint()):endpoint() },
  }
end)

it("nor does whoever would rather be told at once wait", function()
  assert_given_up_alone { endpoints = server:endpoint(), fail_fast = true }
end)

it("nor does what leaves with something that is to be sent again", function()
  local client, locks = holding(1, { endpoints = server:endpoint() })
  local from
  together(client, function(round)
    from = wait.now()
    local write = start_puts(client, locks)[1]
    clients.keep(assert(client:lock_async("b3 of " .. round)))
    return write
  end, function(write)
    assert_given_up(write, from)
  end)
end)

it("nor does the first one after a failure: others wait for it", function()
  local client, locks = holding(1, { endpoints = server:endpoint() })
  local failed = client:stats().failed_attempts
  server:answer("Txn", "before", error_rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
  local asked = assert(client:lock_async "b")
  wait.eventually(function() return client:stats().failed_attempts > failed end)
  server:hold_back("Txn", -1)
  asked:cancel()
  local from = wait.now()
  assert_given_up(start_puts(client, locks)[1], from)
end)
