-- Tests messages about wrong arguments and other misuse.

-- Regression 130. Messages about wrong arguments were untrue, or showed neither the value nor the
-- fix. The arguments were: a string instead of the table of options, a table with names as
-- endpoints, an option without a name, a client, and no value for a leader. Besides, break_lock
-- accepted a fraction as a token.
local function assert_raises(expected, call) assert.has_error(call, expected) end

local function work() end

describe("the message", function()
  it("about a text instead of options shows it, and an example of options", function()
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
    for _, call in ipairs { "with_lock", "try_lock", "lock" } do
      assert.error_matches(function() client[call](client, "a", client, work) end,
        ("client:%s: options = .*, wanted a table such as { timeout = 5 }$"):format(call))
    end
  end)

  it("about an option without a name shows how options are written", function()
    assert_raises("client:lock: options[1] has no name, wanted options with names, such as "
      .. "{ timeout = 5 }", function() client:lock("a", { 5 }) end)
  end)

  it("about an option that belongs to a method suggests the method", function()
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
    assert.error_matches(function() election:with_leadership(work) end,
      "election:with_leadership: value = .*, wanted a string$")
  end)

  it("about a token that is a fraction says so, and nothing is broken", function()
    local lock = assert(client:lock "a")
    local _, message, code = client:break_lock("a", lock:token() - 0.5)
    assert.equal("invalid", code)
    assert.matches("wanted a whole number, as in client:queue$", message)
    assert.is_true(lock:held())
    assert.is_false(pcall(client.break_lock, client, nil, 0.5), "the name is checked first")
  end)
end)

it("an error in a tail call inside with_lock has the caller's line", function()
  local function call()
    client:with_lock("a", function(lock) return lock:put("k", 5) end)
  end
  local ok, message = pcall(call)
  assert.is_false(ok)
  assert.matches("misuse_spec[^:]*:%d+: lock:put", message)
  ok, message = coroutine.resume(coroutine.create(call))
  assert.is_false(ok)
  -- In PUC Lua 5.1, coxpcall may run the function in a coroutine of its own.
  if _VERSION ~= "Lua 5.1" or jit then
    assert.matches("misuse_spec[^:]*:%d+: lock:put", message)
  end
end)

-- Regression 122. Messages about common mistakes named neither the mistake nor the fix: options
-- with the names of other libraries, a list of names for with_lock, options after the function, a
-- dropped coroutine.
describe("the message", function()
  local function assert_matching(expected, call)
    assert.error_matches(call, expected .. "$")
  end

  it("about a constructor of another name names connect", function()
    for _, name in ipairs { "new", "client", "open" } do
      assert_matching(("etcdlock.%s: there is no such function; write etcdlock.connect { .* }")
        :format(name), function() etcdlock[name] { endpoints = "127.0.0.1:2379" } end)
    end
  end)

  it("about an unknown option suggests the option with another name", function()
    for wrong, right in pairs {
      endpoint = "endpoints", hosts = "endpoints", host = "endpoints", port = "endpoints",
      username = "user", ca = "cacert", exptime = "ttl", ttl_seconds = "ttl",
      wait_timeout = "timeout", tls = "cacert", timout = "timeout", prefx = "prefix",
      pass = "password", passwort = "password", endpont = "endpoints", usr = "user", tll = "ttl",
    } do
      assert_raises(('etcdlock.connect: unknown option "%s"; did you mean %s?')
        :format(wrong, right), function() etcdlock.connect { [wrong] = "x" } end)
    end
    local limit = "; the client renews its locks; max_hold limits the time of a hold"
    for wrong, hint in pairs {
      timout = "timeout", timeuot = "timeout", lingr = "linger", max_holds = "max_hold",
      ownr = "owner", wait_timeout = "timeout", Timeout = "timeout", exptime = limit,
      maxHold = limit, EX = limit, expTime = limit, colour = "",
    } do
      local text = hint:find "^%l" and ("; did you mean %s?"):format(hint) or hint
      assert_raises(('client:lock: unknown option "%s"%s'):format(wrong, text),
        function() client:lock("a", { [wrong] = 5 }) end)
    end
    assert_matching('client:lock: option "permits" belongs to client:semaphore; .*',
      function() client:lock("a", { permits = 3 }) end)
  end)

  it("about a list of names names the call for several names", function()
    for call, right in pairs {
      lock = "multi_lock", try_lock = "try_multi_lock", with_lock = "with_multi_lock",
      lock_async = "multi_lock_async",
    } do
      local text = "client:%s: name = table: [^ ]+, wanted a string; for several names, "
        .. "use client:%s"
      assert_matching(text:format(call, right), function()
        client[call](client, { "a", "b" }, call == "with_lock" and work or nil)
      end)
    end
  end)

  it("about options after the function says where they belong", function()
    local text = ": the function is the last argument; give the options before it"
    assert_matching("client:with_lock" .. text,
      function() client:with_lock("a", work, { timeout = 1 }) end)
    assert_matching("client:wrap" .. text, function() client:wrap("a", work, { timeout = 1 }) end)
  end)

  it("about a lock of a dropped coroutine says that the coroutine was dropped", function()
    local texts = {}
    local client = connect { log = function(event)
      if event.event == "leaked" then texts[#texts + 1] = tostring(event) end
    end }
    if _VERSION == "Lua 5.1" and not jit then return pending "coxpcall keeps the coroutine" end
    local function begin_and_drop()
      coroutine.wrap(function() client:with_lock("a", coroutine.yield) end)()
    end
    begin_and_drop()
    wait.eventually(function() -- a call of the client reports the event
      collectgarbage()
      assert(client:lock "b"):unlock()
      return texts[1]
    end, 5, "the coroutine is collected")
    assert.same({ 'etcdlock: lock "' .. prefix
      .. 'a" was released because the coroutine that ran its with_lock '
      .. "was dropped and collected as garbage; keep the coroutine until it ends" }, texts)
  end)
end)
