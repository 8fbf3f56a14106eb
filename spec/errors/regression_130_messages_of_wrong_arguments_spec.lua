-- Messages about wrong arguments were untrue, or showed neither the value nor the fix. The
-- arguments were: a string instead of the table of options, a table with names as endpoints, an
-- option without a name, a client, and no value for a leader. Besides, break_lock accepted a
-- fraction as a token.

local clients = require "spec.support.harness.clients"
local etcdlock = require "etcdlock"
local suite = require "spec.support.harness.suite"

local prefix = suite.prefix()
local connect = clients.connector { endpoints = suite.endpoint(), prefix = prefix }

after_each(clients.close_all)

local function assert_raises(expected, call)
  local ok, message = pcall(call)
  assert.is_false(ok)
  assert.equal(expected, message:match "^[^:]+:%d+: (.*)$", message)
end

local function work() end

describe("regression 130: the message", function()
  it("about a text instead of options shows it, and an example of options", function()
    local client = connect()
    assert_raises('etcdlock.connect: options = "127.0.0.1:2379", wanted a table such as '
      .. '{ endpoints = "127.0.0.1:2379" }', function() etcdlock.connect "127.0.0.1:2379" end)
    for _, secret in ipairs { "http://bob:secret@127.0.0.1:2379", "bob:secret" } do
      assert_raises('etcdlock.connect: options = (not shown), wanted a table such as '
        .. '{ endpoints = "127.0.0.1:2379" }', function() etcdlock.connect(secret) end)
    end
    assert_raises("etcdlock.connect: unknown option (not shown)", function()
      etcdlock.connect { ["http://bob:secret@127.0.0.1:2379"] = true }
    end)
    assert_raises('client:lock: options = "NX", wanted a table such as { timeout = 5 }',
      function() client:lock("a", "NX", "EX", 10) end)
    assert_raises('semaphore:with_lock: options = "a", wanted a table such as { timeout = 5 }',
      function() client:semaphore("a", 2):with_lock("a", work) end)
  end)

  it("about a client instead of options does not name its fields", function()
    local client = connect()
    for _, call in ipairs { "with_lock", "try_lock", "lock" } do
      local ok, message = pcall(function() client[call](client, "a", client, work) end)
      assert.is_false(ok)
      assert.matches(("client:%s: options = .*, wanted a table such as { timeout = 5 }$")
        :format(call), message)
    end
  end)

  it("about an option without a name shows how options are written", function()
    local client = connect()
    assert_raises("client:lock: options[1] has no name, wanted options with names, such as "
      .. "{ timeout = 5 }", function() client:lock("a", { 5 }) end)
  end)

  it("about an option in another spelling suggests the option", function()
    local client = connect()
    local limit = "the client renews its locks; max_hold limits the time of a hold"
    for wrong, hint in pairs {
      Timeout = "did you mean timeout?", maxHold = limit, EX = limit, expTime = limit,
    } do
      assert_raises(('client:lock: unknown option "%s"; %s'):format(wrong, hint),
        function() client:lock("a", { [wrong] = 5 }) end)
    end
    for _, name in ipairs { "on_lost", "onLost" } do
      assert_raises(('client:lock: option "%s" belongs to lock:on_lost; write lock:on_lost(fn)')
        :format(name), function() client:lock("a", { [name] = work }) end)
    end
  end)

  it("about endpoints with names shows a list", function()
    assert_raises("etcdlock.connect: endpoints has fields with names, wanted a list such as "
      .. '{ "127.0.0.1:2379" }', function() etcdlock.connect { endpoints = { host = "h" } } end)
    assert_raises("etcdlock.connect: endpoints[2] = nil, wanted a string", function()
      etcdlock.connect { endpoints = { "a:1", nil, "b:2" } }
    end)
  end)

  it("about metrics names all types that are allowed", function()
    assert_raises('etcdlock.connect: metrics = "stock/*", wanted true, a list of patterns or a '
      .. "function", function() etcdlock.connect { metrics = "stock/*" } end)
  end)

  it("about handoff and log_rate refuses what the reference does not allow", function()
    assert_raises("etcdlock.connect: handoff = true, wanted false or a number", function()
      etcdlock.connect { handoff = true }
    end)
    local _, message = etcdlock.connect { env = false, log_rate = 2.5 }
    assert.equal("etcdlock.connect: log_rate = 2.5, wanted a whole number of events a second, "
      .. "0 or more", message)
  end)

  it("about a leadership without a value names the value", function()
    local election = assert(connect():election "a")
    local ok, message = pcall(function() election:with_leadership(work) end)
    assert.is_false(ok)
    assert.matches("election:with_leadership: value = .*, wanted a string$", message)
  end)

  it("about a token that is a fraction says so, and nothing is broken", function()
    local client = connect()
    local lock = assert(client:lock "a")
    local _, message, code = client:break_lock("a", lock:token() - 0.5)
    assert.equal("invalid", code)
    assert.matches("wanted a whole number, as in client:queue$", message)
    assert.is_true(lock:held())
    assert.is_false(pcall(client.break_lock, client, nil, 0.5), "the name is checked first")
  end)
end)

it("regression 130: an error in a tail call inside with_lock has the caller's line", function()
  local client = connect()
  local function call()
    client:with_lock("a", function(lock) return lock:put("k", 5) end)
  end
  local ok, message = pcall(call)
  assert.is_false(ok)
  assert.matches("regression_130[^:]*:%d+: lock:put", message)
  ok, message = coroutine.resume(coroutine.create(call))
  assert.is_false(ok)
  -- In PUC Lua 5.1, coxpcall may run the function in a coroutine of its own.
  if _VERSION ~= "Lua 5.1" or jit then
    assert.matches("regression_130[^:]*:%d+: lock:put", message)
  end
end)
