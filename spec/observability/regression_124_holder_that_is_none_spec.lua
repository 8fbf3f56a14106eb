-- The message of a timeout could name a "holder" that did not hold the lock: the writer before a
-- reader, which itself waited for another reader; a holder that had released the lock since; or a
-- multi-lock that still waited for another name. Besides, "since" looked like the time of the
-- grant.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local connect = clients.connector { endpoints = suite.endpoint(), prefix = suite.prefix(), ttl = 5 }
local LIMIT = { timeout = 14 }

after_each(clients.close_all)

local function value(text) return { value = text, timeout = 60 } end

-- Steps |pending| (name -> pending lock) until each is decided or the function is_over returns
-- true. Returns the locks and the failed messages by name.
local function step_all(pending, is_over)
  local locks, messages = {}, {}
  while next(pending) and not is_over() do
    wait.sleep(0.02)
    for name, one in pairs(pending) do
      local lock, message = one:step()
      if lock ~= false then
        pending[name], locks[name], messages[name] = nil, lock, message
      end
    end
  end
  return locks, messages
end

it("regression 124: a timeout names the holder, and says so if it may be another one", function()
  local holder, waiter, client = connect(), connect(), connect()
  clients.keep { assert(holder:read_lock("shared", value "reader")), assert(holder:lock "second") }
  local released = assert(holder:lock("released", value "first"))
  local granted = assert(holder:lock("granted", value "first"))
  local many = {}
  for i = 1, 60 do many[i] = "many" .. i end
  clients.keep(assert(holder:lock("many60")))
  local between = {
    assert(waiter:write_lock_async("shared", value "writer")),
    assert(waiter:lock_async("released", value "next")),
    assert(waiter:multi_lock_async({ "first", "second" }, value "several")),
  }
  wait.eventually(function()
    return #assert(client:queue "shared") == 2 and #assert(client:queue "released") == 2
      and #assert(client:queue "first") == 1
  end)
  local from = wait.now()
  local pending = {
    shared = assert(client:read_lock_async("shared", LIMIT)),
    released = assert(client:lock_async("released", LIMIT)),
    granted = assert(client:lock_async("granted", LIMIT)),
    first = assert(client:lock_async("first", LIMIT)),
    many = assert(client:multi_lock_async(many, LIMIT)),
  }
  step_all(pending, function() return wait.now() - from > 11.5 end)
  assert(released:unlock())
  assert(granted:unlock())
  local locks, messages = step_all(pending, function() return false end)
  clients.keep(between)
  local process = "this process, pid %d+ on [^ ]+, queued since [%d-]+ [%d:]+, value "
  assert.matches("; holder %d+ s ago: " .. process .. '"reader"$', messages.shared)
  assert.matches("; holder %d+ s ago: " .. process .. '"first"$', messages.released)
  assert.matches("; first in the queue %d+ s ago: multi%-lock of " .. process .. '"several"$',
    messages.first)
  -- The read of a multi-lock with 60 names has no room to read a holder as well.
  assert.matches("was not free within 14 s$", messages.many)
  assert.is_nil(locks.granted._core:take_holder()) -- a granted lock keeps no text about a holder
end)
