-- Tests the error table in src/base/error.c row by row: how calls, locks and tries end when a gRPC
-- call ends with the status and text of the row. A scripted etcd gives these answers in front of a
-- real etcd, whose keys show which requests were applied.
-- Needs: one plain member.

local stage = Stage.new(prefix)
local SOON, LONG, TIMEOUT, STORM = Stage.SOON, Stage.LONG, Stage.TIMEOUT, Stage.STORM
local STATUS, ROWS = error_rows.STATUS, error_rows.ROWS
local within = Stage.within

-- More texts of an etcd that cannot process a request. Most belong to the last row of the table.
local TROUBLE = {
  UNAVAILABLE = { "etcdserver: no leader", "etcdserver: leader changed",
    "etcdserver: request timed out, possibly due to previous leader failure" },
  UNKNOWN = { "etcdserver: server stopped" },
  CANCELLED = { "context canceled" },
}

local function look() return stage:look() end

local function lock_b() return stage.client:lock("b", { timeout = LONG }) end

local test = stage:undisturbed(it)
local each_row = error_rows.tests_with(test)
local each_row_in_vain = error_rows.tests_with(stage:undisturbed(it, TIMEOUT))

setup(function() stage:open() end)
teardown(function() stage:close() end)
after_each(function() stage:clear() end)

-- ---- rows and rules ----

-- Returns the rules in error.c as lists of their fields, and the number of codes in them.
local function read_rules()
  local file = assert(io.open "src/base/error.c")
  local text = file:read("*a"):gsub("/%*.-%*/", "")
  file:close()
  local macros = {}
  for name, value in text:gmatch '#define%s+(%u[%u_]*)%s+(%b"")' do macros[name] = value end
  local body = assert(text:match "}%s*rules%[%]%s*=%s*(%b{})"):sub(2, -2)
  local rules = {}
  for rule in body:gmatch "%b{}" do
    local fields, rest = {}, rule:sub(2, -2) .. ","
    -- A comma inside a string separates no fields.
    rest = rest:gsub('"[^"]*"', function(said) return (said:gsub(",", "\1")) end)
    for said in rest:gmatch "%s*(.-)%s*," do
      local field = (macros[said] or said):gsub("\1", ",")
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

describe("the error table", function()
  it("in error.c has the same rules as the rows in error_rows.lua", function()
    local rules, count = read_rules()
    assert.equal(count, #rules, "rules that can't be read")
    for i = 1, #rules > #ROWS and #rules or #ROWS do
      assert.same(rules[i], ROWS[i] and rule_of(ROWS[i]), "rule " .. i)
    end
  end)

  it("has no rule that is hidden by an earlier rule", function()
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

  it("has all its hints and causes in doc/errors.md", function()
    local document = assert(read_file "doc/errors.md")
    for _, row in ipairs(ROWS) do
      for _, text in pairs { row[5], cause = row.cause } do
        assert.is_truthy(document:find(text, 1, true), text)
      end
    end
  end)

  it("is applied by the core to the example of each row", function()
    if not core.test then return pending "needs a build with TESTING=1" end
    for _, row in ipairs(ROWS) do
      local got = { core.test.classify(row.number, row.says) }
      assert.same({ row[3], row.definite, row.retriable, row.lease_gone },
        { got[1], got[2], got[3], got[4] }, row.name)
    end
  end)
end)

-- ---- calls ----

describe("a read is retried or fails as the error table says after", function()
  each_row(function(row)
    stage:connect()
    stage:script(row, "Txn", row.retriable and 2)
    local count, seconds, message, code = stage.server:count("Txn", function()
      return within(0, SOON, look)
    end)
    if row.retriable then
      assert.is_table(seconds, message)
      assert.equal(3, count)
    else
      stage:assert_told(row, 'lock "' .. prefix .. 'looked-at": ', seconds, message, code)
      assert.equal(1, count)
    end
  end)
end)

describe("a write is retried only if it was certainly not applied, after", function()
  each_row(function(row)
    local lock = stage:hold "a"
    local key = prefix .. "data"
    local repeated = row.definite and row.retriable
    stage:script(row, "Txn", repeated and 2 or -1)
    local count, ok, message, code = stage.server:count("Txn", function()
      return within(0, SOON, function() return lock:put(key, "v") end)
    end)
    stage.server:pass()
    local found = suite.etcd():get(key)
    suite.etcd():del(key)
    if repeated then
      assert.is_true(ok, message)
      assert.equal(3, count)
    else
      -- "unavailable" is the code of an unknown outcome, whatever the cause (regression 243)
      stage:assert_told(row, ('lock "%sa": put "%s": '):format(prefix, key), ok, message, code,
        not row.definite and "unavailable" or nil)
      assert.equal(1, count)
    end
    local written = not row.definite or repeated
    assert.equal(written and "v" or nil, found)
    assert.is_true(lock:check())
  end)
end)

-- ---- locks and tries ----

describe("lock ends as the error table says after", function()
  -- Asserts that lock with |timeout| fails after |low| to |high| seconds, and that its message is
  -- |where| followed by the message of |row|. Returns the number of requests and the code.
  local function assert_refused(row, timeout, low, high, where)
    local count, lock, message, code = stage.server:count("Txn", function()
      return within(low, high, function() return stage.client:lock("b", { timeout = timeout }) end)
    end)
    assert.is_nil(lock)
    assert.equal(where .. stage:text_of(row, true), message)
    assert.is_true(count <= STORM, count .. " requests")
    return count, code
  end

  local function refuse(row)
    stage:connect_idle()
    stage:script(row, "Txn")
    local before = suite.etcd():revision()
    if row.retriable then
      local count, code = assert_refused(row, TIMEOUT, TIMEOUT, TIMEOUT + SOON,
        ('lock "' .. prefix .. 'b" was not acquired within %g s: '):format(TIMEOUT))
      assert.equal("unavailable", code)
      assert.is_true(count >= 3, count)
    else
      local _, code = assert_refused(row, LONG, 0, SOON, 'lock "' .. prefix .. 'b": ')
      assert.equal(row[3], code)
    end
    if not row.definite then
      assert.is_true(suite.etcd():revision() > before, "it was done all the same")
    end
    stage:assert_free "b"
  end

  each_row_in_vain(refuse, function(row) return row.retriable and not row.lease_gone end)
  each_row(refuse, function(row) return not row.retriable and not row.lease_gone end)
  test(ROWS[1].name .. ": it is granted with a new lease", function()
    local first = assert(stage:connect():lock "a")
    stage:script(ROWS[1], "Txn", 1)
    local count, lock = stage.server:count("LeaseGrant", function()
      return assert(within(0, SOON, lock_b))
    end)
    assert.equal(1, count)
    assert.is_true(lock:check())
    assert.are_not.equal(first:lease(), lock:lease())
    assert.same({ false, "lost" }, { first:held() })
    suite.etcd():revoke(first:lease()) -- the lease still exists in etcd
  end)
end)

describe("lock is retried and puts one key after", function()
  each_row(function(row)
    stage:connect_idle()
    stage:script(row, "Txn", 2)
    local lock = assert(within(0, SOON, lock_b))
    local keys = suite.etcd():keys(prefix .. "b")
    assert.same({ lock:key() }, keys)
    assert.equal(select(2, suite.etcd():get(keys[1])), lock:token())
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
    suite.etcd():await_keys(prefix .. "b", 0, 10)
  end, function(row) return row.retriable end)
  for status, texts in pairs(TROUBLE) do
    for _, text in ipairs(texts) do
      it(("%s %q"):format(status, text), function()
        stage:connect()
        stage.server:answer("Txn", "after", STATUS[status], text, 1)
        local lock = assert(within(0, SOON, lock_b))
        assert.same({ lock:key() }, suite.etcd():keys(prefix .. "b"))
      end)
    end
  end
end)

describe("try_lock is retried or fails as the error table says after", function()
  -- etcd may have applied a try that fails, and yet no key may stay behind.
  each_row(function(row)
    stage:connect_idle()
    stage:script(row, "Txn", not row.retriable and -1 or 1)
    local lock, message, code = within(0, SOON, function() return stage.client:try_lock "b" end)
    if row.retriable then
      assert.is_truthy(lock, message)
      assert.is_true(lock:unlock())
    else
      stage:assert_told(row, 'lock "' .. prefix .. 'b": ', lock, message, code, nil, true)
    end
    stage:assert_free "b"
  end, function(row) return not row.lease_gone end)
end)

describe("lock without any answer", function()
  for what, timeout in pairs {
    ["leaves no key behind although its key was put"] = TIMEOUT,
    ['fails with "unavailable" and "no answer in time" at its timeout'] = 2.5,
  } do
    it(what, function()
      stage:connect_idle()
      stage.server:answer("Txn", "never", 0)
      local before = suite.etcd():revision()
      local message = assert_fails("unavailable", within(timeout, timeout + SOON, function()
        return stage.client:lock("b", { timeout = timeout })
      end))
      if timeout > TIMEOUT then
        assert.matches(stage.server.address .. ": no answer in time", message, 1, true)
      end
      -- This waits for a new revision and not for the key, because the key may be deleted by now.
      wait.eventually(function() return suite.etcd():revision() > before end, 5, "put")
      stage:assert_free "b"
    end)
  end
end)
