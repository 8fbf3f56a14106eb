-- Messages about common mistakes named neither the mistake nor the fix: options with the names of
-- other libraries, a list of names for with_lock, options after the function, a dropped coroutine.

local clients = require "spec.support.harness.clients"
local etcdlock = require "etcdlock"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local connect = clients.connector { endpoints = suite.endpoint(), prefix = prefix }

after_each(clients.close_all)

local function assert_raises(expected, call)
  local ok, message = pcall(call)
  assert.is_false(ok)
  assert.matches(expected .. "$", message)
end

local function work() end

describe("regression 122: the message", function()
  it("about an unknown option suggests the option with another name", function()
    for wrong, right in pairs {
      endpoint = "endpoints", hosts = "endpoints", host = "endpoints", port = "endpoints",
      username = "user", ca = "cacert", exptime = "ttl", ttl_seconds = "ttl",
      wait_timeout = "timeout", tls = "cacert",
    } do
      assert_raises(('etcdlock.connect: unknown option "%s"; did you mean %s%%?')
        :format(wrong, right), function() etcdlock.connect { [wrong] = "x" } end)
    end
    local client = connect()
    for wrong, text in pairs {
      exptime = "the client renews its locks; max_hold limits the time of a hold",
      wait_timeout = "did you mean timeout%?",
    } do
      assert_raises(('client:lock: unknown option "%s"; %s'):format(wrong, text), function()
        client:lock("a", { [wrong] = 5 })
      end)
    end
    assert_raises('client:lock: option "permits" belongs to client:semaphore; .*', function()
      client:lock("a", { permits = 3 })
    end)
    assert_raises('client:lock: unknown option "colour"', function()
      client:lock("a", { colour = "red" })
    end)
  end)

  it("about a list of names names the call for several names", function()
    local client = connect()
    for call, right in pairs {
      lock = "multi_lock", try_lock = "try_multi_lock", with_lock = "with_multi_lock",
      lock_async = "multi_lock_async",
    } do
      local text = "client:%s: name = table: [^ ]+, wanted a string; for several names, "
        .. "use client:%s"
      assert_raises(text:format(call, right), function()
        client[call](client, { "a", "b" }, call == "with_lock" and work or nil)
      end)
    end
  end)

  it("about options after the function says where they belong", function()
    local client = connect()
    local text = ": the function is the last argument; give the options before it"
    assert_raises("client:with_lock" .. text, function()
      client:with_lock("a", work, { timeout = 1 })
    end)
    assert_raises("client:wrap" .. text, function() client:wrap("a", work, { timeout = 1 }) end)
  end)

  it("about a reserved name says that it is reserved", function()
    local message = clients.assert_fails("invalid", connect { prefix = "" }:lock "a/read")
    assert.equal('client:lock: name "a/read" is reserved: etcdlock keeps the keys of other locks '
      .. 'below names that end in "/read"; choose another name', message)
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
    assert.same({ 'etcdlock: lock "a" was released because the coroutine that ran its with_lock '
      .. "was dropped and collected as garbage; keep the coroutine until it ends" }, texts)
  end)
end)
