-- Since etcd 3.7 omits the lease of a key that is read without its value, the client reads the
-- values of a queue, too. An answer with many large values exceeds the size limit of a message
-- (32 MiB). Then the client must read the queue in smaller parts.

local clients = require "spec.support.harness.clients"
local remote = require "spec.support.programs.remote"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = suite.endpoints(), prefix = prefix, ttl = 30 }
local assert_fails, granted = clients.assert_fails, clients.granted

local MEGABYTE = ("x"):rep(1000 * 1000)
-- So many keys of one megabyte do not fit into one answer.
local KEYS = 40
local SOON = { timeout = 10 }

after_each(function()
  clients.close_all()
  etcd:del_all(prefix)
  etcd:revoke_all()
end)

describe("regression 131: a queue whose values exceed the size of a message", function()
  it("is read in parts by lock, try_lock, write_lock, multi_lock and queues", function()
    for i = 1, KEYS do etcd:put(("%sdata/%x"):format(prefix, i), MEGABYTE) end
    local client = connect()
    assert.is_true(assert(client:lock("data", SOON)):unlock())
    assert.is_true(assert(client:try_lock "data"):unlock())
    assert.is_true(assert(client:write_lock("data", SOON)):unlock())
    assert.is_true(assert(client:multi_lock({ "data", "other" }, SOON)):unlock())
    assert.is_true(assert(client:lock("other", SOON)):unlock())
    assert.same({}, client:queues())
  end)

  it("does not make tries fail that leave in one batch", function()
    local client, pending = connect(), {}
    for i = 1, KEYS do etcd:put(("%smany/%d/data"):format(prefix, i), MEGABYTE) end
    assert(client:lock "warm"):unlock()
    for i = 1, KEYS do
      pending[i] = assert(client:lock_async("many/" .. i, { timeout = 0, owner = i }))
    end
    for i = 1, KEYS do
      local lock, message
      wait.eventually(function()
        lock, message = pending[i]:step()
        return lock ~= false
      end, 10, "an outcome")
      assert.is_truthy(lock, message)
      assert.is_true(lock:unlock())
    end
  end)

  it("is counted in parts by a waiter for a permit", function()
    for i = 1, KEYS do
      local lease = etcd:grant(600)
      etcd:put(("%spool/permit/%s.1"):format(prefix, lease), MEGABYTE, lease)
      if i == 1 then etcd:put(prefix .. "pool/first", lease) end
    end
    local client = connect()
    local more = assert(client:semaphore("pool", KEYS + 1))
    assert.is_true(assert(more:lock(SOON)):unlock())
    assert.is_true(assert(more:try_lock()):unlock())
    local same = assert(client:semaphore("pool", KEYS))
    assert_fails("locked", same:try_lock())
    local pending = assert(same:lock_async { timeout = 30 })
    etcd:await_keys(prefix .. "pool/", KEYS + 2)
    assert.is_false((pending:step()))
    etcd:revoke((etcd:get(prefix .. "pool/first")))
    assert.is_true(granted(pending):unlock())
  end)
end)

-- A second try that had to read in parts could put its key while another key disappeared. The
-- client then took the number of keys for a sign that etcd had omitted some.
it("regression 146: a try is not disturbed by keys that come and go", function()
  for i = 1, 2 do etcd:put(("%sbusy/data%d"):format(prefix, i), MEGABYTE:sub(1, 300000)) end
  local child = remote.start { endpoints = suite.endpoints(), prefix = prefix, ttl = 30 }
  remote.ask(child, "semaphore = client:semaphore('busy', 5)")
  local client = connect()
  for _ = 1, 20 do
    remote.send(child, "for _ = 1, 10 do assert(semaphore:lock()):unlock() end")
    for _ = 1, 10 do
      local lock, message, code = client:try_write_lock "busy"
      if lock then lock:unlock() else assert.equal("locked", code, message) end
    end
    remote.answer_of(child)
  end
  remote.ask(child, "client:close()")
end)
