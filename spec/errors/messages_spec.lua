-- Tests the messages for common mistakes: each states the mistake and what to write instead.

-- Asserts that |call| raises a message that contains |text| and names a line of this file.
local function assert_raises(text, call, ...)
  local ok, message = pcall(call, ...)
  assert.is_false(ok)
  assert.matches(text, message, 1, true)
  assert.matches("messages_spec.lua:%d+: ", message)
end

describe("a call", function()
  it("of etcdlock.connect or with_lock with a colon raises an error that says so", function()
    assert_raises("etcdlock.connect{…}, not with a colon", function()
      etcdlock:connect { endpoints = suite.endpoints() }
    end)
    assert_raises("etcdlock.with_lock(…), not with a colon", function()
      etcdlock:with_lock("a", error)
    end)
  end)

  it("of any client method with a dot raises an error that says so", function()
    local count = 0
    for name, method in pairs(getmetatable(client).__index) do
      if type(method) == "function" and not name:find "^_" and name ~= "new" then
        count = count + 1
        local text = ("client:%s(…), not with a dot"):format(name)
        assert_raises(text, function() client[name] "a" end)
        assert_raises(text, function() client[name]() end)
      end
    end
    assert.is_true(count >= 12, count)
  end)

  it("of any lock method or of pending:step with a dot raises an error that says so", function()
    local lock, asked = assert(client:lock "a"), assert(client:lock_async "b")
    for object, name in pairs { [lock] = "unlock", [asked] = "step" } do
      assert_raises(("%s(…), not with a dot"):format(name), function() object[name]() end)
    end
    for name, method in pairs(getmetatable(lock).__index) do
      if type(method) == "function" and not name:find "^_" and name ~= "new" then
        assert_raises(("lock:%s(…), not with a dot"):format(name), function() lock[name] "a" end)
      end
    end
    assert.is_true(lock:held())
    asked:cancel()
  end)
end)

describe("an endpoint", function()
  local function refused(endpoints)
    return assert_fails("invalid", etcdlock.connect { endpoints = endpoints, env = false })
  end

  it("list without an endpoint is refused with an example", function()
    assert.equal('etcdlock.connect: endpoints is empty, wanted at least one, like "127.0.0.1:2379"',
      refused {})
    assert.equal(refused {}, refused "")
    assert.equal(refused {}, refused ",")
  end)

  it("with a path after the port is refused with the correct form", function()
    assert.matches('"http://host:2379/" has text after the port; write "http://host:2379"',
      refused "http://host:2379/", 1, true)
    assert.matches('; write "host:2379"', refused "host:2379/v3/kv", 1, true)
    for _, rest in ipairs { "?a=b", "#a" } do
      assert.matches('has text after the port; write "http://h:2379"',
        refused("http://h:2379" .. rest), 1, true)
    end
  end)

  it("without a port is refused with the correct form", function()
    assert.matches('"host" has no port; write "host:2379"', refused "host", 1, true)
    assert.matches('write "https://host:2379"', refused "https://host", 1, true)
  end)

  -- Regression 197. The message did not tell the reason of the resolver.
  it("with an unknown host name is reported with the reason", function()
    local client = connect { endpoints = "nobody.invalid:2379", env = false }
    wait.eventually(function()
      local message = assert_fails("unavailable", client:lock("a", { timeout = 1 }))
      return message:find("cannot be resolved: %u%l+ ", 1), message
    end, 10, "the reason")
  end)
end)

describe("an option of another function", function()
  it("raises an error that names the function to which it belongs", function()
    assert_raises('option "ttl" belongs to etcdlock.connect, because all locks of a client share a '
      .. "lease, which the client renews", function() client:lock("a", { ttl = 5 }) end)
    assert_raises('client:try_lock: option "prefix" belongs to etcdlock.connect', function()
      client:try_lock("a", { prefix = "b" })
    end)
    assert_raises('etcdlock.connect: option "max_hold" belongs to client:lock', function()
      etcdlock.connect { max_hold = 5 }
    end)
    assert_raises('unknown option "max_holt"; did you mean max_hold?', function()
      client:lock("a", { max_holt = 5 })
    end)
  end)
end)

describe("the message about another owner of this process", function()
  it("names the owner, or calls it another coroutine", function()
    local named = assert(client:lock("named", { owner = "first" }))
    local message = assert_fails("deadlock", client:lock("named", { owner = "second" }))
    assert.matches('is held by another owner of this program, "first", ', message, 1, true)
    assert.matches("cannot release it while this call waits", message, 1, true)
    local held = assert(client:lock "unnamed")
    message = assert_fails("deadlock", client:lock("unnamed", { owner = {} }))
    assert.matches("is held by another coroutine of this program, which", message, 1, true)
    message = assert_fails("locked", client:try_lock("unnamed", { owner = "x" }))
    assert.matches("is held by another coroutine of this program$", message)
    assert.is_true(held:unlock())
    assert.is_true(named:unlock())
  end)
end)

describe("make", function()
  it("with an unknown LUA_VERSION fails and lists the supported versions", function()
    local _, code, err = proc.run { "make", "LUA_VERSION=5.0", "all" }
    assert.equal(2, code)
    assert.matches("LUA_VERSION=5.0: wanted 5.1, 5.2, 5.3, 5.4, 5.5 or jit", err, 1, true)
  end)

  it("example with an unknown NAME fails and shows a valid command", function()
    local _, code, err = proc.run_lua("examples/run.lua", { "nothing" })
    assert.equal(2, code)
    assert.matches("make example NAME=hello", err, 1, true)
  end)
end)
