-- Tests client:queue and client:break_lock: which keys in etcd are entries of a lock's queue, and
-- what queue returns about them.

-- Writes the key |name|, an entry of another program.
local function put_entry(name, value) etcd:put_entry(prefix .. name, value or "") end

after_each(clear_etcd)

describe("the queue of a lock", function()
  it("is empty if no client holds the lock or waits for it", function()
    assert.same({}, client:queue "a")
  end)

  it("shows the holder with token, lease, mode, key, host, pid, owner and value", function()
    local from = os.time()
    local lock = assert(client:lock("a", { owner = "me", value = "why" }))
    local queue = assert(other:queue "a")
    assert.equal(1, #queue)
    local place = queue[1]
    assert.is_true(place.since >= from and place.since <= os.time())
    place.since = nil
    assert.same({
      held = true,
      token = lock:token(),
      lease = lock:lease(),
      mode = "lock",
      key = lock:key(),
      host = core.host(),
      pid = core.pid(),
      owner = "me",
      value = "why",
    }, place)
  end)

  it("shows an owner that is a number as a string, and no owner that is a table", function()
    clients.keep(assert(client:lock("a", { owner = 4711 })))
    clients.keep(assert(client:lock("b", { owner = {} })))
    assert.equal("4711", client:queue "a"[1].owner)
    assert.is_nil(client:queue "b"[1].owner)
  end)

  it("omits the owner and value that the holder did not set", function()
    clients.keep(assert(client:lock "a"))
    local place = other:queue "a"[1]
    assert.is_nil(place.owner)
    assert.is_nil(place.value)
    assert.equal("number", type(place.pid))
    assert.matches("^%d+$", tostring(place.pid))
    assert.matches("^%d+$", tostring(place.since))
    assert.matches("^%d+$", tostring(place.token))
  end)

  it("shows any bytes of the option value unchanged", function()
    for _, value in ipairs { "", "\"quoted\"\n", "größe", "a\0b", "{}" } do
      local lock = assert(client:lock("a", { value = value }))
      assert.equal(value, other:queue "a"[1].value)
      lock:unlock()
    end
  end)

  it("shows waiters after the holder in the order of their arrival", function()
    local lock = assert(client:lock "a")
    local children = {}
    for i = 1, 3 do
      children[i] = remote.start { endpoints = etcd:endpoints(), prefix = prefix }
      remote.send(children[i], ("return client:lock('a', { owner = 'w%d' }):unlock()"):format(i))
      wait.eventually(function() return #client:queue "a" == i + 1 end, 10)
    end
    local queue = client:queue "a"
    for i, place in ipairs(queue) do
      assert.equal(i == 1, place.held)
      if i > 1 then
        assert.equal("w" .. i - 1, place.owner)
        assert.equal(children[i - 1].pid, place.pid)
        assert.is_true(place.token > queue[i - 1].token)
      end
    end
    assert.is_true(lock:unlock())
    for _, child in ipairs(children) do
      assert.same({ "true" }, remote.answer_of(child))
      child:wait()
    end
  end)

  it("shows entries of other programs, with lease, mode and held", function()
    put_entry("a/abc123", "")
    put_entry("a/read/1f", "not ours")
    put_entry("a/write/2f", "")
    local queue = assert(client:queue "a")
    assert.equal(3, #queue)
    assert.same({ "abc123", "1f", "2f" }, { queue[1].lease, queue[2].lease, queue[3].lease })
    assert.same({ "lock", "read", "write" }, { queue[1].mode, queue[2].mode, queue[3].mode })
    assert.same({ true, false, false }, { queue[1].held, queue[2].held, queue[3].held })
    assert.is_nil(queue[1].host)
    assert.is_nil(queue[1].pid)
  end)

  it("shows all readers before the first writer as holders", function()
    for _, name in ipairs { "a/read/1", "a/read/2", "a/3", "a/read/4" } do put_entry(name) end
    local held = {}
    for i, place in ipairs(client:queue "a") do held[i] = place.held end
    assert.same({ true, true, false, false }, held)
  end)

  it("tolerates any values that other programs write into their keys", function()
    local values = {
      "", "x", "{", "null", "1", '"text"', "[]", "[1,2]", "{}", '{"pid":"me"}',
      '{"pid":null,"since":null}', '{"since":"today"}', '{"pid":{}}', '{"host":null}',
      '{"owner":5,"value":[1]}', '{"pid":1e300}', '{"pid":1.5}', "\255\254",
      '{"host":"h","pid":1.5,"since":2}', '{"host":"h","pid":1e999,"since":2}',
      '{"host":"h","pid":1,"since":-1e300}', '{"host":"h","pid":1,"since":1e999}',
    }
    for i, value in ipairs(values) do
      put_entry(("a/%x"):format(i), value)
      local ok, queue = pcall(client.queue, client, "a")
      assert.is_true(ok, value .. ": " .. tostring(queue))
      assert.equal(i, #queue)
      for _, field in ipairs { "pid", "since" } do
        local said = queue[i][field]
        assert.is_true(said == nil or math.abs(said) <= 2 ^ 53 and said % 1 == 0,
          value .. " gave " .. tostring(said))
      end
      for _, field in ipairs { "host", "owner", "value" } do
        assert.not_equal("userdata", type(queue[i][field]), value)
      end
    end
  end)
end)

it("nested lock names are different locks, each with its own queue", function()
  local held = {}
  for _, name in ipairs { "a", "a/b", "a/b/c", "a/", "a//", "ab", "a/b/", "a/x", "a/0" } do
    held[name] = assert((#name % 2 == 0 and client or other):lock(name, { timeout = 5 }))
  end
  for name, lock in pairs(held) do
    assert.is_true(lock:check())
    assert_fails("locked", (#name % 2 == 0 and other or client):try_lock(name))
    assert.equal(1, #client:queue(name), name)
  end
  for _, lock in pairs(held) do assert.is_true(lock:unlock()) end
  assert.same({}, etcd:keys(prefix))
end)

describe("break_lock", function()
  it("ends the hold with the given token", function()
    local lock = assert(client:lock "a")
    assert.is_true(other:break_lock("a", lock:token()))
    assert.same({}, etcd:keys(prefix))
    assert.equal("deleted", lock:wait_lost(5))
  end)

  it('returns "not_held" or "invalid" for any other token and does not end the hold', function()
    assert_fails("not_held", other:break_lock("a", 1))
    local lock = assert(client:lock "a")
    for _, token in ipairs { lock:token() - 1, lock:token() + 1, 0, -1 } do
      assert_fails("not_held", other:break_lock("a", token))
    end
    for _, token in ipairs { lock:token() + 0.5, math.huge, 0 / 0 } do
      assert_fails("invalid", other:break_lock("a", token))
    end
    assert.matches("token", assert_fails("not_held", other:break_lock("b", lock:token())))
    assert.is_true(lock:check())
  end)

  it('returns "not_held" for the token of a waiter', function()
    put_entry "a/1"
    put_entry "a/2"
    local queue = client:queue "a"
    assert_fails("not_held", client:break_lock("a", queue[2].token))
    assert.equal(2, #client:queue "a")
    assert.is_true(client:break_lock("a", queue[1].token))
    assert.is_true(client:break_lock("a", queue[2].token))
  end)

  -- The lock is released and acquired between the read and the deletion of break_lock.
  it('leaves a hold alone that begins during the call, and returns "not_held"', function()
    local lock = assert(client:lock "a")
    other._run_txn = function(self, txn)
      self._run_txn = nil
      local results = { self:_run_txn(txn) }
      assert(lock:unlock())
      lock = assert(client:lock "a")
      return (table.unpack or unpack)(results, 1, 3)
    end
    assert_fails("not_held", other:break_lock("a", lock:token()))
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
  end)
end)
