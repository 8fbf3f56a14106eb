-- Tests bad input. Misuse raises an error; a value that cannot work returns "invalid". The messages
-- of both name the option and show the value.

local ENDPOINT = "127.0.0.1:2379" -- no test sends a request there
local HUGE, NAN = math.huge, 0 / 0

-- Asserts that |call| raises an error whose message contains all of |...|; returns the message.
local function assert_raises(call, ...)
  local ok, message = pcall(call)
  assert.is_false(ok, "nothing was raised")
  for _, part in ipairs { ... } do assert.matches(part, message, 1, true) end
  return message
end

-- Asserts that the results |...| of a call are a failure with "invalid", and that the message
-- contains all |parts|.
local function assert_invalid(parts, ...)
  local message = assert_fails("invalid", ...)
  for _, part in ipairs(parts) do assert.matches(part, message, 1, true) end
end

-- Returns |number| as messages show it; tostring writes a decimal comma in some locales.
local function shown(number)
  return (tostring(number):gsub(",", "."))
end

describe("connect", function()
  local function connect(opts)
    -- Options from the environment are not tested here.
    if type(opts) == "table" then opts.env = false end
    local client, message, code = etcdlock.connect(opts)
    if client then client:close() end
    return client, message, code
  end

  it("raises an error for an option of a wrong type", function()
    assert_raises(function() connect { ttl = "ten" } end, "ttl", '"ten"', "number")
    assert_raises(function() connect { ttl = "10" } end, "ttl", '"10"')
    assert_raises(function() connect { timeout = true } end, "timeout", "true", "number")
    assert_raises(function() connect { prefix = 7 } end, "prefix", "7", "string")
    assert_raises(function() connect { endpoints = 2379 } end, "endpoints", "2379")
    assert_raises(function() connect { endpoints = { ENDPOINT, 5 } } end, "endpoints[2]", "5")
    assert_raises(function() connect { endpoints = true } end, "endpoints", "true")
  end)

  it("refuses options that are no number of seconds, holds or events", function()
    for _, options in ipairs {
      { handoff = NAN }, { handoff = HUGE }, { handoff_time = NAN }, { handoff_time = HUGE },
      { log_rate = NAN }, { lock_delay = -1 }, { lock_delay = 300.1 }, { lock_delay = NAN },
    } do
      assert_invalid({ (next(options)) }, connect(options))
    end
  end)

  it("accepts a ttl of 2 to 300 seconds only", function()
    for _, ttl in ipairs { 0, -5, 1.9, 301, HUGE, NAN } do
      assert_invalid({ "ttl", shown(ttl), "2 to 300" },
        connect { endpoints = ENDPOINT, ttl = ttl })
    end
    assert.is_truthy(connect { endpoints = ENDPOINT, ttl = 2 })
    assert.is_truthy(connect { endpoints = ENDPOINT, ttl = 300 })
  end)

  it("accepts any timeout of 0 or more, also math.huge", function()
    for _, timeout in ipairs { -1, -HUGE, NAN } do
      assert_invalid({ "timeout", shown(timeout) },
        connect { endpoints = ENDPOINT, timeout = timeout })
    end
    assert.is_truthy(connect { endpoints = ENDPOINT, timeout = 0 })
    assert.is_truthy(connect { endpoints = ENDPOINT, timeout = HUGE })
  end)

  it("accepts a prefix of up to 511 bytes without NUL only", function()
    assert_invalid({ "prefix" }, connect { endpoints = ENDPOINT, prefix = ("p"):rep(512) })
    assert_invalid({ "prefix" }, connect { endpoints = ENDPOINT, prefix = "a\0b" })
    assert.is_truthy(connect { endpoints = ENDPOINT, prefix = ("p"):rep(511) })
  end)

  it("accepts lists of up to 32 endpoints", function()
    assert.is_truthy(connect { endpoints = "a:1, https://b:2" })
    assert.is_truthy(connect { endpoints = { "a:1", "http://b:2" } })
    assert_invalid({ "endpoints", "33" }, connect { endpoints = ("a:1,"):rep(33) })
  end)
end)

describe("a lock call", function()
  -- Four calls that acquire a lock, each as a function(name, opts).
  local WAYS = {
    ["client:lock"] = function(...) return client:lock(...) end,
    ["client:try_lock"] = function(...) return client:try_lock(...) end,
    ["client:with_lock"] = function(name, opts) return client:with_lock(name, opts, error) end,
    ["client:wrap"] = function(name, opts) return client:wrap(name, opts, error)() end,
  }

  local function each_way(check)
    for where, way in pairs(WAYS) do check(way, where) end
  end

  it("raises an error if the name is not a string, as queue and break_lock do", function()
    each_way(function(way, where)
      assert_raises(function() way() end, where, "name = nil", "string")
      assert_raises(function() way(5) end, where, "name = 5")
      assert_raises(function() way({}) end, where, "name = table")
    end)
    assert_raises(function() client:queue() end, "client:queue", "name = nil")
    assert_raises(function() client:break_lock(nil, 5) end, "client:break_lock", "name = nil")
  end)

  it("accepts a name of 1 to 512 bytes without NUL only, including the prefix", function()
    local longest = ("n"):rep(512 - #prefix)
    each_way(function(way, where)
      assert_invalid({ where, "name", '""' }, way "")
      assert_invalid({ where, "name" }, way "a\0b")
      assert_invalid({ where, "name", "nnn" }, way(longest .. "n"))
    end)
    assert_invalid({ "client:queue", "name" }, client:queue "")
    assert_invalid({ "client:break_lock", "name" }, client:break_lock("", 5))
    local lock = assert(client:lock(longest))
    assert.equal(longest, lock:name())
    assert.is_true(lock:unlock())
  end)

  it("raises an error for an unknown option and for an option of a wrong type", function()
    each_way(function(way, where)
      assert_raises(function() way("a", { time_out = 1 }) end, where, '"time_out"')
      assert_raises(function() way("a", { 1 }) end, where, "options[1] has no name")
      assert_raises(function() way("a", { max_hold = "1" }) end, where, "max_hold", '"1"')
      assert_raises(function() way("a", { value = 5 }) end, where, "value", "5", "string")
    end)
    assert_raises(function() client:lock("a", { timeout = "1" }) end, "timeout", '"1"')
  end)

  it("refuses options that are no number of seconds", function()
    for _, options in ipairs {
      { timeout = NAN }, { timeout = -HUGE }, { timeout = -1 }, { max_hold = HUGE },
      { max_hold = NAN }, { max_hold = 0 },
    } do
      assert_invalid({ (next(options)) }, client:lock("a", options))
    end
  end)

  it("accepts a value of up to 4096 bytes only", function()
    assert_invalid({ "client:lock", "value" }, client:lock("a", { value = ("v"):rep(4097) }))
    local lock = assert(client:lock("a", { value = ("v"):rep(4096) }))
    assert.equal(4096, #client:queue("a")[1].value)
    assert.is_true(lock:unlock())
  end)

  it("raises an error for a missing or wrong fn, as break_lock does for its token", function()
    assert_raises(function() client:with_lock "a" end, "client:with_lock", "fn = nil")
    assert_raises(function() client:with_lock("a", {}, 5) end, "client:with_lock", "fn = 5")
    assert_raises(function() client:with_lock("a", "b") end, "client:with_lock", 'fn = "b"')
    assert_raises(function() client:wrap("a", {}) end, "client:wrap", "fn = nil")
    assert_raises(function() client:break_lock("a", "5") end, "client:break_lock", 'token = "5"')
    assert_raises(function() client:break_lock "a" end, "client:break_lock", "token = nil")
  end)

  it("accepts a table with a __call metamethod as the function of with_lock", function()
    local callable = setmetatable({}, { __call = function(_, lock) return lock:name() end })
    assert.same({ true, "a" }, { client:with_lock("a", callable) })
  end)

  it("sends no request if its arguments are invalid", function()
    pcall(client.lock, client, 5)
    client:lock ""
    client:lock("a", { max_hold = 0 })
    assert.equal(0, client:stats().rpcs)
  end)
end)

describe("a method of a lock", function()
  local lock

  before_each(function() lock = assert(client:lock "a") end)

  it("raises an error for an argument of a wrong type and for a negative timeout", function()
    assert_raises(function() lock:on_lost() end, "lock:on_lost", "fn = nil")
    assert_raises(function() lock:on_lost "f" end, "lock:on_lost", 'fn = "f"')
    assert_raises(function() lock:wait_lost "1" end, "lock:wait_lost", "timeout", '"1"')
    assert_raises(function() lock:wait_lost(-1) end, "lock:wait_lost", "timeout", "-1")
    assert_raises(function() lock:wait_lost(NAN) end, "lock:wait_lost", "timeout")
    assert_raises(function() lock:put(5, "v") end, "lock:put", "key = 5")
    assert_raises(function() lock:put("k", 5) end, "lock:put", "value = 5")
    assert_raises(function() lock:put "k" end, "lock:put", "value = nil")
    assert_raises(function() lock:get() end, "lock:get", "key = nil")
    assert_raises(function() lock:delete() end, "lock:delete", "key = nil")
  end)

  it("raises an error with the number of the first malformed operation of a txn", function()
    assert_raises(function() lock:txn() end, "lock:txn")
    assert_raises(function() lock:txn {} end, "lock:txn")
    assert_raises(function() lock:txn { "put", "k", "v" } end, "lock:txn", "operation 1")
    assert_raises(function() lock:txn { { "get", "k" }, { "move", "k" } } end, "operation 2")
    assert_raises(function() lock:txn { { "put", "k" } } end, "operation 1, field 3", "nil")
    assert_raises(function() lock:txn { { "get", 5 } } end, "operation 1, field 2", "5")
    assert_raises(function() lock:txn { nil, { "get", "k" } } end, "operation 1")
    assert_raises(function() lock:txn { { "get", "k" }, nil, { "get", "l" } } end, "operation 2")
  end)
end)

it("a raised error names the line of the call", function()
  local lock = assert(client:lock "a")
  local wrapped_badly = client:wrap("a", { value = 5 }, error)
  for _, call in ipairs {
    function() local _ = etcdlock.connect { ttl = "x" } end,
    function() local _ = etcdlock.connect { user = 5 } end,
    function() local _ = etcdlock.connect { endpoints = 5 } end,
    function() local _ = client:lock(5) end,
    function() local _ = client:lock("a", { value = 5 }) end,
    function() local _ = client:try_lock(5) end,
    function() local _ = client:try_lock("a", { value = 5 }) end,
    function() local _ = client:with_lock(5, error) end,
    function() local _ = client:with_lock("a", { value = 5 }, error) end,
    function() local _ = client:with_lock("a", 5) end,
    function() local _ = client:wrap(5, error) end,
    function() local _ = wrapped_badly() end,
    function() local _ = client:queue(5) end,
    function() local _ = client:break_lock(5, 5) end,
    function() local _ = client:break_lock("a", "b") end,
    function() local _ = lock:put("k", 5) end,
    function() local _ = lock:get(5) end,
    function() local _ = lock:txn { { "get", 5 } } end,
    function() local _ = lock:wait_lost(-1) end,
    function() local _ = lock:on_lost(5) end,
  } do
    local _, message = pcall(call)
    local line = debug.getinfo(call, "S").linedefined
    assert.matches("options_spec.lua:" .. line .. ":", message, 1, true)
  end
end)

-- Regression 114. Values of options were checked in the order of a hash table, which differs from
-- run to run. If several values were not allowed, the message named now one option and now another.
local RUNS = 12

it("connect and lock name the same wrong value in each run", function()
  local program = ([[
    local etcdlock = require "etcdlock"
    local _, message = etcdlock.connect {
      env = false, ttl = 1, timeout = -1, handoff = 0, handoff_time = 100, log_rate = -1, cert = "",
    }
    local client = assert(etcdlock.connect { endpoints = %q, env = false })
    local _, lock_message = client:lock("a", {
      timeout = -1, max_hold = 0, linger = -1, value = ("x"):rep(5000),
    })
    print(message .. "\n" .. lock_message)
  ]]):format(suite.endpoint())
  local first
  for _ = 1, RUNS do
    local child = proc.lua(program)
    assert.equal(0, child:wait(), child:errors())
    first = first or child.out.text
    assert.equal(first, child.out.text)
  end
end)
