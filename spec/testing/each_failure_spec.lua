-- Tests testing.each_failure: it makes each call fail in each way that its documentation lists, and
-- finds the programs that take a failed read for a value, or ignore the result of a write.
-- Needs: one plain member.

local testing = require "etcdlock.testing"

local client, other

setup(function()
  assert(testing.start { ttl = 60 })
  client, other = assert(etcdlock.connect()), assert(testing.connect())
end)

teardown(function()
  client:close()
  other:close()
  testing.stop()
end)

local function read(key)
  return select(2, assert(other:with_lock("test", function(lock) return assert(lock:get(key)) end)))
end

local function write(key, value)
  assert(other:with_lock("test", function(lock) assert(lock:put(key, value)) end))
end

describe("testing.each_failure finds a program that", function()
  -- Each program sells one of 3 items, and returns the number that is left, or nil or false.
  -- |faults| are patterns of the lines of the report.
  local function assert_faults(program, faults)
    local count, report = testing.each_failure(function()
      write("left", "3")
      local ok, left, code = client:with_lock("stock", { timeout = 5 }, program)
      return ok and left, code
    end, function(ok, told)
      local left = tonumber(read "left")
      if ok and told and told ~= left then
        return nil, ("told %d, but %d left"):format(told, left)
      end
      return left >= 2
    end)
    if not faults[1] then return assert.equal(8, count, report) end
    local lines = {}
    for line in report:gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.equal(#faults, #lines, report)
    for i, fault in ipairs(faults) do
      assert.matches("^spec/testing/each_failure_spec.lua:%d+: " .. fault .. "$", lines[i])
    end
  end

  -- The write of a key whose read has failed is refused, so only the answer can be wrong.
  local MISREAD = { 'lock:get ended with "unavailable": told 99, but 3 left' }

  it("takes a failed get for a missing key, by `or`", function()
    assert_faults(function(lock)
      local left = lock:get "left" or 100
      local _, _, code = lock:put("left", ("%d"):format(left - 1))
      return code ~= "unavailable" and code ~= "lost" and left - 1
    end, MISREAD)
  end)

  it("takes a failed get for a missing key, by tonumber", function()
    assert_faults(function(lock)
      local left = (tonumber((lock:get "left")) or 100) - 1
      local _, _, code = lock:put("left", ("%d"):format(left))
      return code ~= "unavailable" and code ~= "lost" and left
    end, MISREAD)
  end)

  it("ignores the result of put", function()
    assert_faults(function(lock)
      local left = tonumber(assert(lock:get "left")) - 1
      lock:put("left", ("%d"):format(left))
      return left
    end, { 'lock:put ended with "unavailable": told 2, but 3 left' })
  end)

  it("takes a failed get for a job that is not done", function()
    local done = 0
    local count, report = testing.each_failure(function()
      write("done/job", "yes")
      done = 0
      return client:with_lock("job", function(lock)
        if not lock:get "done/job" then done = done + 1 end
      end)
    end, function() return done == 0 end)
    assert.is_nil(count)
    assert.matches('lock:get ended with "lost": .*lock:get ended with "unavailable": ',
      (report:gsub("\n", " ")))
  end)

  it("leaves a lock held after a failure", function()
    local line = debug.getinfo(1, "l").currentline + 2
    local count, report = testing.each_failure(function()
      local lock = assert(client:lock("stock", { timeout = 5 }))
      if not lock:get "left" then return nil end
      lock:unlock()
    end, function() return true end)
    assert.is_nil(count)
    local place = "spec/testing/each_failure_spec.lua:"
    assert.equal(('%s%d: lock:get ended with "unavailable": lock "stock", taken at %s%d, is still '
      .. "held"):format(place, line + 1, place, line), report)
    assert.is_true(assert(client:try_lock "stock"):unlock())
  end)

  it("is right already: it returns the number of failures", function()
    assert_faults(function(lock)
      local text = lock:get "left"
      if not text then return nil end
      local left = ("%d"):format(text - 1)
      return lock:put("left", left) and tonumber(left)
    end, {})
  end)

  it("is wrong without a failure", function()
    local count, report = testing.each_failure(function() client:ping() end, error)
    assert.is_nil(count)
    assert.matches("without a failure: true", report, 1, true)
  end)
end)

describe("testing.each_failure makes these calls fail:", function()
  local runs = 0 -- of the program of client:once

  -- Name of a call -> a program, and the ways in which the call ends in it.
  local CALLS = {
    ["client:lock"] = { function() return client:lock "a" end, "lost unavailable" },
    ["client:multi_lock"] = {
      function() return client:multi_lock({ "a", "b" }, { timeout = 5 }) end,
      "lost unavailable timeout",
    },
    ["client:try_read_lock"] = {
      function() return client:try_read_lock "a" end, "locked unavailable",
    },
    ["client:write_lock_async"] = {
      function() client:write_lock_async("a"):cancel() end, "unavailable",
    },
    ["client:with_lock"] = { function()
      client:wrap("a", { timeout = 0 }, function()
        client:with_lock("a", function() end) -- taken again: cannot fail
      end)()
    end, "locked unavailable" },
    ["client:once"] = { function()
      runs = runs + 1
      local name = ("job%d."):format(runs)
      local ran = client:once(name, "ever", function() end)
      assert.equal(ran and 1 or 0, #other:runs(name)) -- a run that has failed is not recorded
    end, "lost unavailable timeout" },
    ["client:runs"] = { function() client:runs() end, "unavailable" },
    ["client:queue"] = { function() client:queue "a" end, "unavailable" },
    ["client:queues"] = { function() client:queues() end, "unavailable" },
    ["client:get"] = { function() client:get "key" end, "unavailable" },
    ["client:break_lock"] = {
      function() client:break_lock("a", 1) end, "unavailable unavailable-applied",
    },
    ["semaphore:lock"] = {
      function() return client:semaphore("s", 2):lock() end, "lost unavailable",
    },
    ["semaphore:available"] = { function() client:semaphore("s", 2):available() end,
      "unavailable" },
    ["election:with_leadership"] = { function()
      client:election("e"):with_leadership("me", { timeout = 5 }, function() end)
    end, "lost unavailable timeout" },
    ["lock:txn"] = { function()
      local lock = assert(client:lock "a")
      assert(lock:unlock())
      lock:txn { { "get", "k" } } -- fails in any case, because the lock is not held
    end, "" },
    -- Regression 331. An unlock that does not release had an outcome that does not exist.
    ["lock:unlock of two"] = { function()
      local lock = assert(client:lock "a")
      assert(client:lock "a")
      lock:unlock()
      return lock
    end, "lost" },
    ["election:leader"] = { function() client:election("e"):leader() end, "unavailable" },
    ["observer:next"] = { function() (client:election("e"):observe()):next(0.01) end,
      "unavailable timeout" },
  }

  -- The calls of a lock, and the ways in which they end.
  local WRITE = "lost unavailable unavailable-applied"
  for call, outcomes in pairs {
    held = "lost", check = "lost unavailable", expire = "lost", wait_lost = "lost",
    get = "lost unavailable", put = WRITE, delete = WRITE,
    downgrade = WRITE, unlock = "lost unavailable",
  } do
    CALLS["lock:" .. call] = { function()
      local lock = assert(client:write_lock "a")
      local argument = (call == "expire" or call == "wait_lost") and 0.01 or "key"
      lock[call](lock, argument, "value")
      return lock
    end, outcomes }
  end

  for list, outcomes in pairs {
    [{ { "get", "k" } }] = "lost unavailable", [{ { "get", "k" }, { "put", "k", "v" } }] = WRITE,
  } do
    CALLS["lock:txn of " .. #list] = { function()
      local lock = assert(client:lock "a")
      lock:txn(list)
      return lock
    end, outcomes }
  end

  for title, row in pairs(CALLS) do
    local call = title:match "%S+"
    it(title, function()
      local is_clean = true
      local _, report = testing.each_failure(row[1], function(_, lock)
        if type(lock) == "table" and lock:held() then lock:unlock() end
        local was_clean = is_clean
        is_clean = false
        return was_clean
      end)
      local ends = {}
      for line in report:gmatch "[^\n]+" do
        local name, code, note = line:match ': (%S+) ended with "(%a+)"(.-): '
        if note == ", although etcd has applied it" then code = code .. "-applied" end
        if name == call then ends[#ends + 1] = code end
      end
      assert.equal(row[2], table.concat(ends, " "), report)
      assert.equal(0, client:stats().held)
    end)
  end
end)

describe("testing.each_failure", function()
  it("leaves other processes alone, and names the line of the program", function()
    local line
    local _, report = testing.each_failure(function()
      assert(assert(other:lock "b"):unlock())
      client:ping()
      line = line or debug.getinfo(1, "l").currentline - 1
      local seconds = client:ping()
      return seconds
    end, function(_, pinged) assert(pinged, "no\n  ping") end)
    local text = 'spec/testing/each_failure_spec.lua:%d: client:ping ended with "unavailable": %s'
    assert.equal(text:format(line + 2, "no ping"), (report:gsub(": [^:]*:%d+: no", ": no")))
  end)
end)
