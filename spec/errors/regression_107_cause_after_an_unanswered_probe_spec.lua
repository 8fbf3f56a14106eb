-- If a call that cannot wait gets no answer, the client reads from etcd in the background. (A call
-- in a comparator of table.sort, for example, cannot wait in the coroutine of an event loop.) If
-- this read got no answer either, every later timeout of an observer was reported as "unavailable",
-- although etcd answered again.
local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector(function()
  return { endpoints = etcd:endpoints(), prefix = prefix, ttl = wait.ttl(15), loop = "luv" }
end)
local assert_fails = clients.assert_fails

-- Returns the results of a `try_lock` that would stop the event loop if it waited.
local function try(client, name)
  local results
  coroutine.wrap(function()
    table.sort({ 2, 1 }, function(a, b)
      results = results or { client:try_lock(name) }
      return a < b
    end)
  end)()
  return (table.unpack or unpack)(results, 1, 3) -- luacheck: ignore unpack
end

it('regression 107: an observer returns "timeout" when etcd answers again after an outage',
  function()
    local client = connect()
    local observer = client:election "boss":observe()
    assert_fails("timeout", observer:next(0.3))
    finally(function()
      etcd:resume()
      clients.close_all()
    end)
    etcd:pause()
    wait.eventually(function() return select(3, try(client, "a")) == "unavailable" end)
    assert_fails("unavailable", client:ping()) -- lasts as long as the read in the background
    etcd:resume()
    wait.eventually(function() return client:ping() end)
    assert_fails("timeout", observer:next(0.3))
    wait.eventually(function()
      local lock, message = try(client, "a")
      return lock and lock:unlock(), message
    end)
  end)
