-- Tests answers of etcd that are too large.
-- Needs: one plain member.

-- Regression 073. The client accepted messages of any size, so a server could make it use all
-- memory. The error about an answer that is too large counted as proof that etcd had not carried
-- out the request.

-- A field of 33 MiB that no message has, and that the client would skip. The client accepts
-- messages of up to 32 MiB.
local LARGE = protobuf.bytes(99, ("x"):rep(33 * 2 ^ 20))

scripted_client { ttl = 60 }

-- Asserts that |call| with the arguments |...| fails because of a large answer.
local function assert_too_large(call, ...)
  local message = assert_fails("invalid", clients.answered(call, ...))
  assert.matches("etcd " .. server.address .. ": the answer is too large; ", message, 1, true)
end

it('a read fails with "invalid" if its answer is too large', function()
  server:extend("Txn", LARGE)
  assert_too_large(client.queue, client, "a")
end)

it('lock fails with "invalid" if an answer is too large', function()
  for _, method in ipairs { "LeaseGrant", "Txn" } do
    server:extend(method, LARGE)
    assert_too_large(client.lock, client, "a")
    server:pass()
    etcd:await_keys(prefix, 0, 10)
    assert.is_true(assert(client:lock("b", { timeout = 5 })):unlock())
  end
end)

-- Regression 144. The code was "invalid", which says that etcd has not carried out the write.
it('a write whose answer is too large fails with "unavailable"', function()
  local lock = assert(client:lock "a")
  server:extend("Txn", LARGE)
  local message = assert_fails("unavailable", lock:put(prefix .. "data", "v"))
  assert.matches("the answer is too large; ", message, 1, true)
  server:pass()
  assert.equal("v", etcd:get(prefix .. "data"))
  assert.is_true(lock:put(prefix .. "data", "w"))
  assert.is_true(lock:unlock())
end)

it("a waiter gets its lock although a message of its watch is too large", function()
  local lock = assert(other:lock "a")
  local waiter = assert(client:lock_async "a")
  wait.eventually(function() return client:stats().watches == 1 end, 5, "its watch")
  server:extend("Watch", LARGE, 1)
  server:interrupt("Watch", 14, "away")
  wait.eventually(function() return server:calls "Watch" == 3 end, 10, "a third stream")
  clients.assert_wait(waiter)
  assert.is_true(lock:unlock())
  assert.is_true(clients.granted(waiter):unlock())
end)
