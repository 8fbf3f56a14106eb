-- Messages about wrong arguments showed neither the value nor the fix, or were untrue: a text
-- instead of the table of options, endpoints with names, an option without a name, a client among
-- the arguments, a missing value of a leader. break_lock took a fraction for a token.

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
    assert_raises('etcdlock.connect: options = (not shown), wanted a table such as '
      .. '{ endpoints = "127.0.0.1:2379" }', function()
      etcdlock.connect "http://bob:secret@127.0.0.1:2379"
    end)
    assert_raises('client:lock: options = "NX", wanted a table such as { timeout = 5 }',
      function() client:lock("a", "NX", "EX", 10) end)
    assert_raises('semaphore:with_lock: options = "a", wanted a table such as { timeout = 5 }',
      function() client:semaphore("a", 2):with_lock("a", work) end)
  end)

  it("about a client instead of options does not name its fields", function()
    local client = connect()
    local ok, message = pcall(function() client:with_lock("a", client, work) end)
    assert.is_false(ok)
    assert.matches("client:with_lock: options = .*, wanted a table such as { timeout = 5 }$",
      message)
  end)

  it("about an option without a name shows how options are written", function()
    local client = connect()
    assert_raises("client:lock: options[1] has no name, wanted options with names, such as "
      .. "{ timeout = 5 }", function() client:lock("a", { 5 }) end)
  end)

  it("about an option in another spelling suggests the option", function()
    local client = connect()
    for wrong, right in pairs { Timeout = "timeout", maxHold = "max_hold" } do
      assert_raises(('client:lock: unknown option "%s"; did you mean %s?'):format(wrong, right)
        :gsub("did you mean max_hold%?", "the client renews its locks; max_hold limits the time of "
          .. "a hold"), function() client:lock("a", { [wrong] = 5 }) end)
    end
    assert_raises('client:lock: option "on_lost" belongs to lock:on_lost; write lock:on_lost(fn)',
      function() client:lock("a", { on_lost = work }) end)
  end)

  it("about endpoints with names shows a list", function()
    assert_raises('etcdlock.connect: endpoints has a field "host", wanted a list such as '
      .. '{ "127.0.0.1:2379" }', function() etcdlock.connect { endpoints = { host = "h" } } end)
  end)

  it("about metrics names all types that are allowed", function()
    assert_raises('etcdlock.connect: metrics = "stock/*", wanted true, a list of patterns or a '
      .. "function", function() etcdlock.connect { metrics = "stock/*" } end)
  end)

  it("about handoff and log_rate refuses what the reference does not allow", function()
    assert_raises("etcdlock.connect: handoff = true, wanted a number", function()
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
  end)
end)

it("regression 130: an error in a tail call inside with_lock has the caller's line", function()
  local client = connect()
  local ok, message = pcall(function()
    client:with_lock("a", function(lock) return lock:put("k", 5) end)
  end)
  assert.is_false(ok)
  assert.matches("regression_130[^:]*:%d+: lock:put", message)
end)
