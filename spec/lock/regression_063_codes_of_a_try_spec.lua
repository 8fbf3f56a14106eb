-- If etcd answered other requests but not the request of try_lock in time, try_lock returned
-- "timeout", which is not one of its codes. If another owner of the client waited for etcd as well,
-- try_lock returned "locked".
-- Needs: one plain member.

local clients = require "spec.support.harness.clients"
local rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local assert_fails = clients.assert_fails
local server, client

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 60 })
end)

after_each(function()
  server:pass()
  clients.close_all()
  etcd:del_all(prefix)
end)

-- Pings etcd with |client| until the pending lock |asked| is decided. Returns the results of
-- |asked|.
local function ended_beside_pings(asked)
  local lock, message, code
  wait.eventually(function()
    assert(client:ping())
    lock, message, code = asked:step()
    return lock ~= false
  end, 5, "the try ends")
  return lock, message, code
end

local NO_ANSWER = 'lock "' .. prefix .. 'a" was not acquired within 2 s: no answer from etcd '

for _, mode in ipairs { "lock", "read_lock", "write_lock" } do
  it('regression 063: a try of ' .. mode .. ' is "unavailable" without an answer', function()
    assert(client:lock "warm"):unlock()
    server:hold_back "Txn"
    local asked = assert(client[mode .. "_async"](client, "a", { timeout = 0 }))
    local message = assert_fails("unavailable", ended_beside_pings(asked))
    assert.matches(NO_ANSWER .. server.address, message, 1, true)
    server:tell "Txn"
    etcd:await_keys(prefix, 0, 10)
  end)
end

it('regression 063: a try is "unavailable" if the release before it has no answer', function()
  local lock = clients.keep(assert(client:lock("a", { owner = "first" })))
  clients.await_watched(client, lock)
  server:hold_back "Txn"
  assert.is_true(lock._core:release()) -- unlock would wait for the answer
  clients.await_held(server, client)
  local asked = assert(client:lock_async("a", { timeout = 0, owner = "second" }))
  assert_fails("unavailable", ended_beside_pings(asked))
  server:tell "Txn"
  etcd:await_keys(prefix, 0, 10)
end)

it('regression 063: a try is "unavailable" beside an owner that has no answer either', function()
  assert(client:lock "warm"):unlock()
  server:answer("Txn", "before", rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
  local first = assert(client:lock_async("a", { owner = "first" }))
  wait.eventually(function() return client:stats().failed_attempts > 0 end, 5, "a failed attempt")
  local message = assert_fails("unavailable", client:try_lock("a", { owner = "second" }))
  assert.matches("no leader", message, 1, true)
  server:pass()
  local lock = clients.granted(first)
  assert_fails("locked", client:try_lock("a", { owner = "second" }))
  assert.is_true(lock:unlock())
end)

it('regression 063: a try is "locked" behind an owner that waits for another client', function()
  local other = clients.connector { endpoints = suite.endpoint(), prefix = prefix }
    { elsewhere = true }
  local lock = assert(other:lock "a")
  local first = assert(client:lock_async("a", { owner = "first" }))
  etcd:await_keys(prefix, 2)
  clients.assert_wait(first)
  server:answer("Txn", "before", rows.STATUS.UNAVAILABLE, "etcdserver: no leader")
  assert_fails("locked", client:try_lock("a", { owner = "second" }))
  server:pass()
  assert.is_true(lock:unlock())
  assert.is_true(clients.granted(first):unlock())
end)
