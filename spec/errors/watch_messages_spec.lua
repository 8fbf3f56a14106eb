-- Tests odd messages of a watch.
-- Needs: one plain member.

-- Regression 061. If etcd ended an established watch with "permission denied", the process crashed.
-- If etcd refused a watch and its answer had no watch id, the client could end a wait for another
-- watch.
local lock

before_each(function()
  scripted_client { ttl = 5 }
  lock = assert(other:lock "a")
end)

-- ---- messages ----

local DENIED = "etcdserver: permission denied"

-- Returns a message about the watch |id| with |fields|: created, canceled, reason, revision, and
-- the encoded content of an event. The ids of a client are 1, 2, ...
local function message(id, fields)
  local bytes = protobuf.bytes(1, protobuf.number(3, fields.revision or 1))
    .. protobuf.number(2, id)
  if fields.created then bytes = bytes .. protobuf.number(3, 1) end
  if fields.canceled then bytes = bytes .. protobuf.number(4, 1) end
  if fields.reason then bytes = bytes .. protobuf.bytes(6, fields.reason) end
  if fields.event then bytes = bytes .. protobuf.bytes(11, fields.event) end
  return bytes
end

local function refusal(id)
  return message(id, { created = true, canceled = true, reason = DENIED })
end

local function cancellation(id, reason) return message(id, { canceled = true, reason = reason }) end

-- Returns an event of the empty key at revision 1.
local function event(kind)
  return protobuf.number(1, kind == "delete" and 1 or 0) .. protobuf.bytes(2, protobuf.number(3, 1))
end

-- ---- established watches ----

-- Starts a wait of |client| for the lock |name|. Returns the pending lock when its watch is
-- established.
local function wait_established(name, opts)
  local watches = client:stats().watches
  local waiter = assert(client:lock_async(name, opts))
  wait.eventually(function() return client:stats().watches == watches + 1 end, 5, "its watch")
  return waiter
end

it('a wait ends with "denied" if etcd ends its watch for that reason', function()
  local waiter = wait_established "a"
  assert.equal(1, server:push("Watch", cancellation(1, DENIED)))
  local text = assert_fails("denied", clients.ended(waiter))
  assert.matches('watch of "' .. prefix .. "a/", text, 1, true)
  assert.is_true(lock:unlock())
  assert.is_true(assert(client:lock("a", { timeout = 5 })):unlock())
end)

it("a hold goes on if etcd ends the watch of its key as denied", function()
  local held = assert(client:lock "b")
  clients.await_watched(client, held)
  server:push("Watch", cancellation(1, DENIED))
  server:push("Watch", cancellation(1, DENIED))
  assert.is_true(assert(client:lock("c", { timeout = 5 })):unlock())
  assert.is_true(held:check())
  assert.is_true(held:unlock())
end)

it("a lingering lock is released if etcd ends its watch as denied", function()
  local watches = client:stats().watches
  assert.is_true(assert(client:lock("b", { linger = 60 })):unlock())
  wait.eventually(function() return client:stats().watches > watches end, 5, "its watch")
  for id = 1, client:stats().watches do server:push("Watch", cancellation(id, DENIED)) end
  etcd:await_keys(prefix .. "b/", 0, 5)
end)

it('an observer ends with "denied" if etcd ends its watch as denied', function()
  local observer = assert(client:election("a"):observe())
  wait.eventually(function() return client:stats().watches == 1 end, 5, "its watch")
  server:push("Watch", cancellation(1, DENIED))
  wait.eventually(function()
    local leader, text, code = observer:next(1)
    assert.is_true(code ~= "timeout" or leader == nil, text)
    return code == "denied"
  end, 10, "the end of the observer")
end)

-- ---- messages that fit no watch ----

local ODD = {
  { "cancels a watch that does not exist", { cancellation(99, DENIED) } },
  { "cancels no watch", { cancellation(-1, DENIED), cancellation(0) } },
  { "cancels a watch twice", { cancellation(1), cancellation(1) } },
  { "cancels a watch twice as denied, one that it has not created",
    { cancellation(2, DENIED), cancellation(2, DENIED) } },
  { "creates a watch twice", { message(1, { created = true }), message(1, { created = true }) } },
  { "creates a watch that was not asked for", { message(7, { created = true }) } },
  { "creates a watch without an id",
    { message(-1, { created = true }), message(0, { created = true }) } },
  { "refuses a watch that was not asked for", { refusal(-1), refusal(9), refusal(-1) } },
  { "refuses an established watch", { refusal(-1), refusal(2) } },
  { "tells events of a watch that does not exist",
    { message(5, { event = event "delete" }), message(-1, { event = event "put" }) } },
  { "tells events of the distant past", { message(1, { event = event "delete", revision = 0 }) } },
  { "says nothing", { message(1, {}), message(-1, {}), message(8, {}) } },
}

for _, row in ipairs(ODD) do
  local what, messages = row[1], row[2]
  it("a waiter gets its lock, and no sooner, if etcd " .. what, function()
    local waiter = wait_established "a"
    for _, bytes in ipairs(messages) do server:push("Watch", bytes) end
    clients.assert_wait(waiter)
    assert.is_true(lock:unlock())
    assert.is_true(clients.granted(waiter):unlock())
  end)
end

-- ---- watches that are being created ----

it("a refusal without an id counts for the watch that it answers", function()
  local another = assert(other:lock "b")
  server:hold_back "Watch"
  local given_up = assert(client:lock_async "a")
  wait.eventually(function() return server:held "Watch" == 1 end, 5, "the answer to the first")
  given_up:cancel()
  local waiter = assert(client:lock_async "b")
  wait.eventually(function() return #assert(client:queue "b") == 2 end, 5, "the second wait")
  clients.assert_wait(waiter)
  server:push("Watch", refusal(-1))
  clients.assert_wait(waiter)
  server:tell "Watch"
  clients.assert_wait(waiter)
  assert.is_true(another:unlock())
  assert.is_true(clients.granted(waiter):unlock())
end)

it("each refusal without an id ends one of several waits, in order", function()
  local waiters = {}
  for i = 2, 3 do clients.keep(assert(other:lock("a" .. i))) end
  server:hold_back "Watch"
  waiters[1] = assert(client:lock_async "a")
  wait.eventually(function() return server:held "Watch" == 1 end, 5, "the first answer")
  for i = 2, 3 do
    waiters[i] = assert(client:lock_async("a" .. i))
    wait.eventually(function() return #assert(client:queue("a" .. i)) == 2 end, 5, "the next wait")
    clients.assert_wait(waiters[i])
  end
  for i = 1, 3 do
    server:push("Watch", refusal(-1))
    assert_fails("denied", clients.ended(waiters[i]))
    for later = i + 1, 3 do clients.assert_wait(waiters[later]) end
  end
  assert.is_true(assert(client:lock("c", { timeout = 5 })):unlock())
end)
