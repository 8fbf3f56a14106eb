-- The table in src/error.c, row by row: what becomes of calls, waits, releases
-- and leases when a gRPC call ends with that status and text. The etcd here says
-- what it is told to say, in front of a real one, which knows what was done.

local Scripted = require "spec.support.scripted"
local core = require "etcdlock.core"
local etcdlock = require "etcdlock"
local rows = require "spec.support.error_rows"
local suite = require "spec.support.suite"
local wait = require "spec.support.wait"

local prefix = suite.prefix()

-- How soon an answer comes that is known, how long we wait if there is one (LONG)
-- and if there is none, and how many requests may be made of that.
local SOON, LONG, TIMEOUT, STORM = 1, 5, 0.5, 10

local STATUS, ROWS = rows.STATUS, rows.ROWS

-- More examples of the last row: what etcd says when it is in trouble.
local TROUBLE = {
  UNAVAILABLE = { "etcdserver: no leader", "etcdserver: leader changed",
    "etcdserver: request timed out, possibly due to previous leader failure" },
  UNKNOWN = { "etcdserver: server stopped" },
  INTERNAL = { "stream terminated by RST_STREAM" },
  CANCELLED = { "context canceled" },
}

local server, client

local function connect(opts)
  local all = { endpoints = server:endpoint(), prefix = prefix }
  for name, value in pairs(opts or {}) do all[name] = value end
  client = assert(etcdlock.connect(all))
  return client
end

-- A client that has a lease already, and nothing to do.
local function connect_idle()
  assert(connect():lock "first"):unlock()
  return client
end

-- A hold that has begun to watch its key and asks for nothing more for a while.
local function hold(name)
  local lock = assert(connect():lock(name))
  wait.eventually(function() return client:stats().looks == 1 end)
  return lock
end

-- What |row| says of the server.
local function text_of(row)
  return ("etcd %s: %s%s"):format(server.address, row.cause or row.says,
    row[5] and "; " .. row[5] or "")
end

local function script(row, method, when, times)
  server:answer(method, when, row.number, row.says, times)
end

-- |run| takes at least |low| and at most |high| seconds; returns what it does.
local function within(low, high, run)
  local from = wait.now()
  local results = { run() }
  local took = wait.now() - from
  assert.is_true(took >= low and took <= high, ("took %.3f s"):format(took))
  return (table.unpack or unpack)(results)
end

local function assert_told(row, where, ok, message, code)
  assert.is_nil(ok)
  assert.equal(where .. text_of(row), message)
  assert.equal(row[3], code)
end

local function await_keys(name, count)
  wait.eventually(function()
    local keys = suite.etcd():keys(prefix .. name)
    return #keys == count, table.concat(keys, " ")
  end, 10, count .. " keys of " .. name)
end

local function each_row(test, is_wanted)
  for _, row in ipairs(ROWS) do
    if not is_wanted or is_wanted(row) then
      it(row.name, function() test(row) end)
    end
  end
end

setup(function() server = Scripted.start(suite.endpoint()) end)
teardown(function() server:stop() end)

after_each(function()
  server:pass()
  if client then client:close() end
end)

-- ---- the rows are the rules ----

-- The rules as they stand in error.c.
local function read_rules()
  local file = assert(io.open "src/error.c")
  local text = file:read("*a"):gsub("/%*.-%*/", "")
  file:close()
  local macros = {}
  for name, value in text:gmatch '#define%s+(%u[%u_]*)%s+(%b"")' do macros[name] = value end
  local body = assert(text:match "}%s*rules%[%]%s*=%s*(%b{})"):sub(2, -2)
  local rules = {}
  for rule in body:gmatch "%b{}" do
    local fields, rest = {}, rule:sub(2, -2) .. ","
    -- A comma within a text is none.
    rest = rest:gsub('"[^"]*"', function(said) return (said:gsub(",", "\1")) end)
    for field in rest:gmatch "%s*(.-)%s*," do
      field = (macros[field] or field):gsub("\1", ",")
      fields[#fields + 1] = field:match '^"(.*)"$' or field:gsub("%s+", " ")
    end
    assert.equal(5, #fields, rule)
    fields[1] = fields[1]:gsub("^GRPC_", "")
    rules[#rules + 1] = fields
  end
  return rules, select(2, body:gsub("EL_%u", ""))
end

local function rule_of(row)
  return {
    row[1], row[2] or "NULL", "EL_" .. row[3]:upper(), row[4] == "" and "0" or row[4],
    row[5] or "NULL",
  }
end

describe("the table of errors", function()
  it("has a row here for each rule, and no more", function()
    local rules, count = read_rules()
    assert.equal(count, #rules, "rules that can't be read")
    for i = 1, #rules > #ROWS and #rules or #ROWS do
      assert.same(rules[i], ROWS[i] and rule_of(ROWS[i]), "rule " .. i)
    end
  end)

  it("has no rule that another one hides", function()
    for i, row in ipairs(ROWS) do
      local first
      for k, rule in ipairs(ROWS) do
        local fits = (rule[1] == "ANY_STATUS" or STATUS[rule[1]] == row.number)
          and (not rule[2] or row.says:find(rule[2], 1, true))
        first = first or fits and k
      end
      assert.equal(i, first, row.name)
    end
  end)

  it("is what the core goes by", function()
    if not core.test then return pending "needs a build with TESTING=1" end
    for _, row in ipairs(ROWS) do
      local got = { core.test.classify(row.number, row.says) }
      assert.same({ row[3], row.definite, row.retriable, row.lease_gone },
        { got[1], got[2], got[3], got[4] }, row.name)
    end
  end)
end)

-- ---- what becomes of a call ----

describe("a read that ends with", function()
  each_row(function(row)
    connect()
    script(row, "Txn", "before", row.retriable and 2)
    local count, seconds, message, code = server:count("Txn", function()
      return within(0, SOON, function() return client:ping() end)
    end)
    if row.retriable then
      assert.is_number(seconds, message)
      assert.equal(3, count)
    else
      assert_told(row, "", seconds, message, code)
      assert.equal(1, count)
    end
  end)
end)

describe("a write that ends with", function()
  -- It is repeated only if it certainly wasn't done.
  each_row(function(row)
    local lock = hold "a"
    local key = prefix .. "data"
    local repeated = row.definite and row.retriable
    script(row, "Txn", row.definite and "before" or "after", repeated and 2 or -1)
    local count, ok, message, code = server:count("Txn", function()
      return within(0, SOON, function() return lock:put(key, "v") end)
    end)
    if repeated then
      assert.is_true(ok, message)
      assert.equal(3, count)
    else
      assert_told(row, "", ok, message, code)
      assert.equal(1, count)
    end
    server:pass()
    local written = not row.definite or repeated
    assert.equal(written and "v" or nil, (suite.etcd():get(key)))
    suite.etcd():del(key)
    assert.is_true(lock:check())
  end)
end)

-- ---- what becomes of a wait ----

local function assert_free(name)
  server:pass()
  await_keys(name, 0)
  assert(client:lock(name, { timeout = LONG })):unlock()
end

describe("a lock that ends with", function()
  -- After |low| to |high| seconds, with a message that begins with |where|.
  local function assert_refused(row, timeout, low, high, where)
    local count, lock, message, code = server:count("Txn", function()
      return within(low, high, function() return client:lock("b", { timeout = timeout }) end)
    end)
    assert.is_nil(lock)
    assert.equal(where .. text_of(row), message)
    assert.is_true(count <= STORM, count .. " requests")
    return count, code
  end

  each_row(function(row)
    connect_idle()
    script(row, "Txn", row.definite and "before" or "after")
    if row.retriable then
      local count, code = assert_refused(row, TIMEOUT, TIMEOUT, TIMEOUT + SOON,
        ('lock "%sb" not taken in %g s: '):format(prefix, TIMEOUT))
      assert.equal("unavailable", code)
      assert.is_true(count >= 3, count)
    else
      local _, code = assert_refused(row, LONG, 0, SOON, ('lock "%sb": '):format(prefix))
      assert.equal(row[3], code)
    end
    if not row.definite then
      assert.equal(1, #suite.etcd():keys(prefix .. "b"), "it was done all the same")
    end
    assert_free "b"
  end, function(row) return not row.lease_gone end)

  it(ROWS[1].name .. ", and has another lease then", function()
    local first = assert(connect():lock "a")
    script(ROWS[1], "Txn", "before", 1)
    local count, lock = server:count("LeaseGrant", function()
      return within(0, SOON, function() return assert(client:lock("b", { timeout = LONG })) end)
    end)
    assert.equal(1, count)
    assert.is_true(lock:check())
    assert.are_not.equal(first:lease(), lock:lease())
    assert.same({ false, "lost" }, { first:held() })
    suite.etcd():revoke(first:lease()) -- which etcd never lost
  end)
end)

describe("a lock that is repeated after", function()
  each_row(function(row)
    connect_idle()
    script(row, "Txn", row.definite and "before" or "after", 2)
    local lock = within(0, SOON, function() return assert(client:lock("b", { timeout = LONG })) end)
    local keys = suite.etcd():keys(prefix .. "b")
    assert.same({ lock:key() }, keys)
    assert.equal(select(2, suite.etcd():get(keys[1])), lock:token())
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
    await_keys("b", 0)
  end, function(row) return row.retriable end)

  for status, texts in pairs(TROUBLE) do
    for _, text in ipairs(texts) do
      it(("%s %q"):format(status, text), function()
        connect()
        server:answer("Txn", "after", STATUS[status], text, 1)
        local lock = within(0, SOON, function() return client:lock("b", { timeout = LONG }) end)
        assert.same({ lock:key() }, suite.etcd():keys(prefix .. "b"))
      end)
    end
  end
end)

describe("a try that ends with", function()
  -- It has nobody to wait for, but it may have been done all the same.
  each_row(function(row)
    connect_idle()
    script(row, "Txn", row.definite and "before" or "after", not row.retriable and -1 or 1)
    local lock, message, code = within(0, SOON, function() return client:try_lock "b" end)
    if row.retriable then
      assert.is_truthy(lock, message)
      assert.is_true(lock:unlock())
    else
      assert_told(row, ('lock "%sb": '):format(prefix), lock, message, code)
    end
    assert_free "b"
  end, function(row) return not row.lease_gone end)
end)

describe("no answer at all", function()
  it("to a lock whose key was put leaves no key behind", function()
    connect_idle()
    server:answer("Txn", "never", 0)
    local lock, message, code = within(TIMEOUT, TIMEOUT + SOON, function()
      return client:lock("b", { timeout = TIMEOUT })
    end)
    assert.is_nil(lock)
    assert.equal("unavailable", code, message)
    assert.equal(1, #suite.etcd():keys(prefix .. "b"))
    assert_free "b"
  end)

  it("to a lock is repeated, and told at the end", function()
    connect_idle()
    server:answer("Txn", "never", 0)
    local lock, message, code = within(2.5, 2.5 + SOON, function()
      return client:lock("b", { timeout = 2.5 })
    end)
    assert.is_nil(lock)
    assert.equal("unavailable", code)
    assert.matches(server.address .. ": no answer in time", message, 1, true)
    assert_free "b"
  end)
end)

-- ---- what becomes of a release ----

describe("a release that ends with", function()
  -- It is repeated until its fate is known; who waits is told if it is refused.
  each_row(function(row)
    local lock = assert(connect():lock "a")
    script(row, "Txn", row.definite and "before" or "after", 1)
    local ok, message, code = within(0, SOON, function() return lock:unlock() end)
    if row.definite and not row.retriable then
      assert_told(row, "", ok, message, code)
    else
      assert.is_true(ok, message)
    end
    await_keys("a", 0)
    assert.is_true(client:alive())
  end, function(row) return not row.lease_gone end)
end)

-- ---- what becomes of a lease ----

describe("a lease that is asked for and ends with", function()
  each_row(function(row)
    connect()
    script(row, "LeaseGrant", row.definite and "before" or "after", row.retriable and 2 or 1)
    local count, lock, message, code = server:count("LeaseGrant", function()
      return within(0, SOON, function() return client:lock("a", { timeout = LONG }) end)
    end)
    if row.retriable then
      assert.is_truthy(lock, message)
      assert.equal(3, count)
    else
      assert_told(row, "", lock, message, code)
      assert.equal(1, count)
    end
    -- One that was granted without our knowledge is revoked.
    wait.eventually(function()
      local leases = suite.etcd():leases()
      return #leases == (lock and 1 or 0), table.concat(leases, " ")
    end, 5, "no other lease")
  end)
end)

describe("a close whose revoke ends with", function()
  each_row(function(row)
    assert(connect():lock "a")
    script(row, "LeaseRevoke", row.definite and "before" or "after", 1)
    within(0, 1, function() return client:close() end)
    assert.same({}, suite.etcd():keys(prefix))
    assert.same({}, suite.etcd():leases())
  end, function(row) return row.retriable and not row.definite end)
end)

-- ---- what becomes of streams ----

describe("a stream that breaks", function()
  it("with any of them costs neither hold nor place", function()
    local lock = assert(connect { ttl = 2 }:lock "a")
    local waiter = assert(etcdlock.connect { endpoints = server:endpoint(), prefix = prefix })
    finally(function() waiter:close() end)
    local wish = assert(waiter._core:lock(prefix .. "a", "", nil, nil, false))
    await_keys("a", 2)
    local function interrupt(method, row)
      local before = server:calls(method)
      server:interrupt(method, row.number, row.says)
      wait.eventually(function() return server:calls(method) > before end, 5,
        method .. " again after " .. row.name)
      assert.is_true(server:calls(method) - before <= STORM)
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
end)

-- ---- what becomes of a token ----

describe("a token is fetched anew and the call repeated, three times, after", function()
  -- The etcd behind has no users, and says so, which is as good as a token.
  each_row(function(row)
    connect { user = "somebody", password = "secret" }
    assert.is_number(client:ping())
    local before = server:calls "Authenticate"
    script(row, "Txn", "before", 2)
    local count, seconds, message = server:count("Txn", function() return client:ping() end)
    assert.is_number(seconds, message)
    assert.same({ 3, before + 2 }, { count, server:calls "Authenticate" })
    script(row, "Txn", "before")
    local code
    count, seconds, message, code = server:count("Txn", function() return client:ping() end)
    assert_told(row, "", seconds, message, code)
    assert.same({ 4, before + 5 }, { count, server:calls "Authenticate" })
  end, function(row) return row.token_bad end)
end)

describe("a user who is refused with", function()
  -- The call itself is never made, and the next one is told the same.
  each_row(function(row)
    connect { user = "somebody", password = "secret" }
    script(row, "Authenticate", "before")
    local before = server:calls "Authenticate"
    for _ = 1, 5 do
      local count, seconds, message, code = server:count("Txn", function()
        return within(0, SOON, function() return client:ping() end)
      end)
      assert_told(row, "", seconds, message, code)
      assert.equal(0, count)
    end
    assert.equal(before + 1, server:calls "Authenticate")
  end, function(row) return row.definite and not row.retriable and not row.auth_off end)

  it("anything is let in when the server has changed its mind", function()
    connect { user = "somebody", password = "secret" }
    script(ROWS[6], "Authenticate", "before", 1)
    assert.is_nil((client:ping()))
    wait.eventually(function() return client:ping() end, 3, "another attempt")
  end)
end)
