-- Tests the error table in src/base/error.c row by row, as table_spec does, for releases, leases,
-- streams and tokens.
-- Needs: one plain member.

local stage = Stage.new(prefix)
local SOON, LONG, TIMEOUT, STORM = Stage.SOON, Stage.LONG, Stage.TIMEOUT, Stage.STORM
local ROWS, UNAVAILABLE = error_rows.ROWS, error_rows.STATUS.UNAVAILABLE
local within = Stage.within

local function look() return stage:look() end

local each_row = error_rows.tests_with(stage:undisturbed(it))
local each_row_in_vain = error_rows.tests_with(stage:undisturbed(it, TIMEOUT))

setup(function() stage:open() end)
teardown(function() stage:close() end)
after_each(function() stage:clear() end)

-- The start of the messages of `look`.
local LOOKED_AT = ('lock "%slooked-at": '):format(prefix)

-- ---- releases ----

describe("unlock is retried or fails as the error table says after", function()
  -- The delete is retried until its outcome is known; only a refusal is returned to the caller.
  each_row(function(row)
    local lock = assert(stage:connect():lock "a")
    stage:script(row, "Txn", 1)
    local ok, message, code = within(0, SOON, function() return lock:unlock() end)
    if row.definite and not row.retriable then
      stage:assert_told(row, 'lock "' .. prefix .. 'a": ', ok, message, code, nil, true)
    else
      assert.is_true(ok, message)
    end
    suite.etcd():await_keys(prefix .. "a", 0, 10)
    assert.is_true(stage.client:alive())
  end, function(row) return not row.lease_gone end)
end)

-- ---- leases ----

-- The TTL is longer than a test waits, so no lease expires in time: the client must revoke a lease
-- that etcd may have granted without an answer.
local LONG_LEASE = { ttl = 60 }

describe("a lease request is retried or fails as the error table says after", function()
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
      stage:assert_told(row, 'lock "' .. prefix .. 'a": ', lock, message, code, nil, true)
      assert.equal(1, count)
    end
    stage.await_leases(lock and 1 or 0)
  end)
end)

describe("lock gets exactly one lease after LeaseGrant has ended with", function()
  each_row_in_vain(function(row)
    stage:connect(LONG_LEASE)
    stage:script(row, "LeaseGrant")
    local count, lock, message, code = stage.server:count("LeaseGrant", function()
      return within(TIMEOUT, TIMEOUT + SOON, function()
        return stage.client:lock("a", { timeout = TIMEOUT })
      end)
    end)
    assert.is_nil(lock)
    assert.equal(('lock "' .. prefix .. 'a" was not acquired within %g s: %s'):format(TIMEOUT,
      stage:text_of(row)), message)
    assert.equal("unavailable", code)
    assert.is_true(count >= 3 and count <= STORM, count .. " requests")
    stage.server:pass()
    assert(stage.client:lock("a", { timeout = LONG }))
    stage.await_leases(1)
  end, function(row) return row.retriable end)
  it("no answer", function()
    stage:connect(LONG_LEASE)
    stage.server:answer("LeaseGrant", "never", 0, nil, 1)
    assert(stage.client:lock("a", { timeout = LONG }))
    stage.await_leases(1)
  end)
end)

describe("leases granted without an answer", function()
  it("are all revoked, even if the first revocations fail", function()
    stage:connect(LONG_LEASE)
    stage.server:answer("LeaseGrant", "after", UNAVAILABLE, "etcdserver: request timed out", 3)
    stage.server:answer("LeaseRevoke", "before", UNAVAILABLE, "etcdserver: no leader", 3)
    local lock = assert(stage.client:lock("a", { timeout = LONG }))
    stage.await_leases(1)
    assert.is_true(lock:unlock())
  end)
end)

describe("close leaves no key and no lease after LeaseRevoke has ended with", function()
  each_row(function(row)
    assert(stage:connect():lock "a")
    stage:script(row, "LeaseRevoke", 1)
    within(0, 0.5 + SOON, function() return stage.client:close() end)
    assert.same({}, suite.etcd():keys(prefix))
    assert.same({}, suite.etcd():leases())
  end, function(row) return row.retriable end)
end)

-- ---- streams ----

describe("a stream that breaks", function()
  it("with the status of any error row ends neither a hold nor a wait", function()
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
      -- The client opens its keepalive stream again only at the next renewal, so a test of each row
      -- would take too long.
      if i % 4 == 1 then interrupt("LeaseKeepAlive", row) end
    end
    assert.is_true(lock:check())
    assert.is_nil((wish:wait(0)))
    assert.is_true(lock:unlock())
    assert.is_true((within(0, SOON, function() return wish:wait(5) end)))
    wish:release()
  end)

  it("is reopened with all of its watches", function()
    local COUNT, held, wishes = 5, {}, {}
    local holder = connect()
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

-- ---- tokens ----

describe("a token is fetched again and the call retried three times after", function()
  -- The real etcd answers that it has no authentication. The client accepts this answer in place of
  -- a token.
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
    stage:assert_told(row, LOOKED_AT, seconds, message, code)
    assert.same({ 4, before + 5 }, { count, stage.server:calls "Authenticate" })
  end, function(row) return row.token_bad end)
end)

describe("Authenticate is not repeated for each call after", function()
  -- The client sends no call, and further calls fail with the same error.
  each_row(function(row)
    stage:connect { user = "somebody", password = "secret" }
    stage:script(row, "Authenticate")
    local before = stage.server:calls "Authenticate"
    for _ = 1, 5 do
      local count, seconds, message, code = stage.server:count("Txn", function()
        return within(0, SOON, look)
      end)
      stage:assert_told(row, LOOKED_AT, seconds, message, code)
      assert.equal(0, count)
    end
    assert.equal(before + 1, stage.server:calls "Authenticate")
  end, function(row) return row.definite and not row.retriable and not row.auth_off end)
  it("a refusal, but is retried within 3 s", function()
    stage:connect { user = "somebody", password = "secret" }
    stage.server:answer("Authenticate", "before", error_rows.STATUS.INVALID_ARGUMENT,
      "etcdserver: user name is empty", 1)
    assert.is_nil((stage.client:ping()))
    wait.eventually(look, 3, "another attempt")
  end)
end)
