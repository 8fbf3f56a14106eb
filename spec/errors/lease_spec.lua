-- The table in src/base/error.c, row by row, as in table_spec: what becomes of
-- releases, leases, streams and tokens.

local Stage = require "spec.support.harness.error_stage"
local etcdlock = require "etcdlock"
local rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local stage = Stage.new(prefix)
local SOON, LONG, TIMEOUT, STORM = Stage.SOON, Stage.LONG, Stage.TIMEOUT, Stage.STORM
local ROWS, UNAVAILABLE = rows.ROWS, rows.STATUS.UNAVAILABLE
local within = Stage.within

local function look() return stage:look() end

local each_row = rows.tests_with(stage:undisturbed(it))
local each_row_in_vain = rows.tests_with(stage:undisturbed(it, TIMEOUT))

setup(function() stage:open() end)
teardown(function() stage:close() end)
after_each(function() stage:clear() end)

-- ---- what becomes of a release ----

describe("a release that ends with", function()
  -- It is repeated until its fate is known; who waits is told if it is refused.
  each_row(function(row)
    local lock = assert(stage:connect():lock "a")
    stage:script(row, "Txn", 1)
    local ok, message, code = within(0, SOON, function() return lock:unlock() end)
    if row.definite and not row.retriable then
      stage:assert_told(row, "", ok, message, code)
    else
      assert.is_true(ok, message)
    end
    suite.etcd():await_keys(prefix .. "a", 0, 10)
    assert.is_true(stage.client:alive())
  end, function(row) return not row.lease_gone end)
end)

-- ---- what becomes of a lease ----

-- What nobody has heard of is ended, and not left to its time.
local LONG_LEASE = { ttl = 60 }

describe("a lease that is asked for and ends with", function()
  each_row(function(row)
    stage:connect(LONG_LEASE)
    stage:script(row, "LeaseGrant", row.retriable and 2 or 1)
    local count, lock, message, code = stage.server:count("LeaseGrant", function()
      return within(0, SOON, function() return stage.client:lock("a", { timeout = LONG }) end)
    end)
    if row.retriable then
      assert.is_truthy(lock, message)
      assert.equal(3, count)
    else
      stage:assert_told(row, "", lock, message, code)
      assert.equal(1, count)
    end
    stage.await_leases(lock and 1 or 0)
  end)
end)

describe("a lease that isn't to be had, because of", function()
  each_row_in_vain(function(row)
    stage:connect(LONG_LEASE)
    stage:script(row, "LeaseGrant")
    local count, lock, message, code = stage.server:count("LeaseGrant", function()
      return within(TIMEOUT, TIMEOUT + SOON, function()
        return stage.client:lock("a", { timeout = TIMEOUT })
      end)
    end)
    assert.is_nil(lock)
    assert.equal(('lock "%sa" not taken in %g s: %s'):format(prefix, TIMEOUT, stage:text_of(row)),
      message)
    assert.equal("unavailable", code)
    assert.is_true(count >= 3 and count <= STORM, count .. " requests")
    stage.server:pass()
    assert(stage.client:lock("a", { timeout = LONG }))
    stage.await_leases(1)
  end, function(row) return row.retriable end)

  it("no answer at all", function()
    stage:connect(LONG_LEASE)
    stage.server:answer("LeaseGrant", "never", 0, nil, 1)
    assert(stage.client:lock("a", { timeout = LONG }))
    stage.await_leases(1)
  end)
end)

describe("leases that may have been granted", function()
  it("are all ended, also when that fails at first", function()
    stage:connect(LONG_LEASE)
    stage.server:answer("LeaseGrant", "after", UNAVAILABLE, "etcdserver: request timed out", 3)
    stage.server:answer("LeaseRevoke", "before", UNAVAILABLE, "etcdserver: no leader", 3)
    local lock = assert(stage.client:lock("a", { timeout = LONG }))
    stage.await_leases(1)
    assert.is_true(lock:unlock())
  end)
end)

describe("a close whose revoke ends with", function()
  each_row(function(row)
    assert(stage:connect():lock "a")
    stage:script(row, "LeaseRevoke", 1)
    within(0, 0.5 + SOON, function() return stage.client:close() end)
    assert.same({}, suite.etcd():keys(prefix))
    assert.same({}, suite.etcd():leases())
  end, function(row) return row.retriable end)
end)

-- ---- what becomes of streams ----

describe("a stream that breaks", function()
  it("with any of them costs neither hold nor place", function()
    local lock = assert(stage:connect { ttl = 4 }:lock "a")
    local waiter = assert(etcdlock.connect { endpoints = stage.server:endpoint(), prefix = prefix })
    finally(function() waiter:close() end)
    local wish = assert(waiter._core:lock(prefix .. "a", ""))
    suite.etcd():await_keys(prefix .. "a", 2, 10)
    local function interrupt(method, row)
      local before = stage.server:calls(method)
      stage.server:interrupt(method, row.number, row.says)
      wait.eventually(function() return stage.server:calls(method) > before end, 5,
        method .. " again after " .. row.name)
      assert.is_true(stage.server:calls(method) - before <= STORM)
    end
    for i, row in ipairs(ROWS) do
      interrupt("Watch", row)
      -- It is opened with the next renewal; that takes too long to try them all.
      if i % 4 == 1 then interrupt("LeaseKeepAlive", row) end
    end
    assert.is_true(lock:check())
    assert.is_nil((wish:wait(0)))
    assert.is_true(lock:unlock())
    assert.is_true((within(0, SOON, function() return wish:wait(5) end)))
    wish:release()
  end)

  it("has all that was watched on it watched again", function()
    local COUNT, held, wishes = 5, {}, {}
    local holder = assert(etcdlock.connect { endpoints = suite.endpoints(), prefix = prefix })
    finally(function() holder:close() end)
    stage:connect()
    for i = 1, COUNT do
      held[i] = assert(holder:lock("w" .. i))
      wishes[i] = assert(stage.client._core:lock(prefix .. "w" .. i, ""))
    end
    wait.eventually(function() return stage.client:stats().watches == COUNT end)
    stage.server:interrupt("Watch", UNAVAILABLE, "etcdserver: no leader")
    wait.eventually(function() return stage.client:stats().watches == 2 * COUNT end, 1, "watches")
    for i = COUNT, 1, -1 do
      assert.is_true(held[i]:unlock())
      assert.is_true((within(0, SOON, function() return wishes[i]:wait(5) end)))
      wishes[i]:release()
    end
  end)
end)

-- ---- what becomes of a token ----

describe("a token is fetched anew and the call repeated, three times, after", function()
  -- The etcd behind has no users, and says so, which is as good as a token.
  each_row(function(row)
    stage:connect { user = "somebody", password = "secret" }
    assert.is_number(stage.client:ping())
    local before = stage.server:calls "Authenticate"
    stage:script(row, "Txn", 2)
    local count, seconds, message = stage.server:count("Txn", look)
    assert.is_table(seconds, message)
    assert.same({ 3, before + 2 }, { count, stage.server:calls "Authenticate" })
    stage:script(row, "Txn")
    local code
    count, seconds, message, code = stage.server:count("Txn", look)
    stage:assert_told(row, "", seconds, message, code)
    assert.same({ 4, before + 5 }, { count, stage.server:calls "Authenticate" })
  end, function(row) return row.token_bad end)
end)

describe("a user who is refused with", function()
  -- The call itself is never made, and the next one is told the same.
  each_row(function(row)
    stage:connect { user = "somebody", password = "secret" }
    stage:script(row, "Authenticate")
    local before = stage.server:calls "Authenticate"
    for _ = 1, 5 do
      local count, seconds, message, code = stage.server:count("Txn", function()
        return within(0, SOON, look)
      end)
      stage:assert_told(row, "", seconds, message, code)
      assert.equal(0, count)
    end
    assert.equal(before + 1, stage.server:calls "Authenticate")
  end, function(row) return row.definite and not row.retriable and not row.auth_off end)

  it("anything is let in when the server has changed its mind", function()
    stage:connect { user = "somebody", password = "secret" }
    stage:script(ROWS[6], "Authenticate", 1)
    assert.is_nil((stage.client:ping()))
    wait.eventually(look, 3, "another attempt")
  end)
end)
