-- Each multi-lock put keys with new names. etcd's index keeps the names of deleted keys until the
-- next compaction, and scans them when it reads a lock's keys. After 12,000 multi-locks, a call
-- took 12 ms instead of 1 ms.

local clients = require "spec.support.harness.clients"
local error_rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local NAMES = { "a", "b" }
local server, client

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix })
end)

after_each(clients.close_all)

local function ask(names)
  return assert(client:multi_lock(names or NAMES, { owner = {} }))
end

describe("regression 035: the key of a multi-lock", function()
  it("is reused by the next one", function()
    local first, beside = ask(), ask { "c", "d" }
    local key, other = first:key(), beside:key():match "%-%x+$"
    assert.are_not_equal(other, key:match "%-%x+$")
    assert.is_true(first:unlock())
    local token = first:token()
    for _ = 1, 5 do
      local again = ask()
      assert.equal(key, again:key())
      assert.is_true(again:token() > token)
      token = again:token()
      assert.is_true(again:unlock())
    end
    assert.is_true(beside:check())
    assert.is_true(beside:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("is not reused while a late delete of it may arrive", function()
    local first = ask()
    local key = first:key()
    server:delay "Txn"
    assert.is_true(first:unlock())
    local second = ask()
    assert.are_not_equal(key, second:key())
    assert.is_true(server:deliver "Txn" >= 1)
    assert.is_true(second:check())
    assert.equal(2, #etcd:keys(prefix))
    assert.is_true(second:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("is reused although an older lease audit has listed it", function()
    local first, stays = ask(), ask { "c", "d" } -- keeps the session open
    -- A request of unknown outcome makes the client audit its lease.
    server:answer("Txn", "late", error_rows.STATUS.RESOURCE_EXHAUSTED,
      "etcdserver: mvcc: database space exceeded", 1)
    server:hold_back("LeaseTimeToLive")
    clients.assert_fails("no_space", client:lock "late")
    wait.eventually(function() return server:held "LeaseTimeToLive" == 1 end, 10, "an audit")
    assert.is_true(first:unlock())
    local before = client:stats()
    server:tell "LeaseTimeToLive"
    -- The next audit starts after |first| has ended.
    wait.eventually(function() return client:stats().audits > before.audits end, 10, "another")
    assert.equal(before.looks, client:stats().looks)
    assert.equal(first:key(), ask():key())
    assert.is_true(stays:unlock())
  end)
end)
