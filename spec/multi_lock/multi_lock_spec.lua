-- Tests multi_lock: several names are one lock, which is taken in one transaction.

local assert_wait = clients.assert_wait
local granted = clients.granted

local function ask(of, names) return assert(of:multi_lock_async(names, { owner = {} })) end

describe("multi_lock", function()
  it("takes and releases several names as one lock with one token", function()
    local lock = assert(client:multi_lock { "a", "b", "c" })
    assert.equal("multi", lock:mode())
    assert.equal("a b c", lock:name())
    assert.same({ "a", "b", "c" }, lock:names())
    assert.is_true(lock:held())
    assert.is_true(lock:check())
    for _, name in ipairs { "a", "b", "c" } do
      local places = assert(other:queue(name))
      assert.equal(1, #places)
      assert.same({ true, lock:token(), "multi", lock:lease() },
        { places[1].held, places[1].token, places[1].mode, places[1].lease })
      assert_fails("locked", other:try_lock(name))
    end
    assert.equal(lock:key(), other:queue("a")[1].key)
    assert.is_true(lock:unlock())
    assert.same({ false, "not_held" }, { lock:held() })
    assert.same({}, etcd:keys(prefix))
  end)

  it("takes and releases five free names with two requests", function()
    assert(client:lock "first"):unlock()
    assert.equal(2, clients.briefly(function()
      local before = client:stats().rpcs
      assert.is_true(assert(client:multi_lock { "a", "b", "c", "d", "e" }):unlock())
      return client:stats().rpcs - before
    end))
  end)

  it("waits in the queue of each name until all names are free", function()
    local a, b = assert(other:lock "a"), assert(third:lock "b")
    local asked = ask(client, { "b", "a", "c" })
    etcd:await_keys(prefix, 5)
    assert_wait(asked)
    assert.is_true(b:unlock())
    assert_wait(asked)
    assert_fails("locked", other:try_lock "c") -- a waiter has a key in each queue
    assert.is_true(a:unlock())
    local lock = granted(asked)
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("keeps its position in each queue: a later lock of one name waits for it", function()
    local first = assert(other:lock "b")
    local multi = ask(client, { "a", "b" })
    etcd:await_keys(prefix, 3)
    local single = assert(third:lock_async("a", { owner = 1 }))
    etcd:await_keys(prefix, 4)
    assert_wait(multi, single)
    assert.is_true(first:unlock())
    multi = granted(multi)
    assert_wait(single)
    assert.is_true(multi:unlock())
    single = granted(single)
    assert.is_true(single:token() > multi:token())
    assert.is_true(single:unlock())
  end)

  it("never deadlocks with calls that list the same names in opposite order", function()
    local asked = {}
    for i = 1, 20 do
      local names = i % 2 == 0 and { "a", "b", "c" } or { "c", "b", "a" }
      asked[i] = ask(({ client, other, third })[i % 3 + 1], names)
    end
    local last = 0
    for _ = 1, 20 do
      local lock
      wait.eventually(function()
        for i, one in ipairs(asked) do
          lock = one:step()
          if lock then return table.remove(asked, i) end
        end
      end, 10, "one of them")
      assert.is_true(lock:token() > last)
      last = lock:token()
      assert_wait((table.unpack or unpack)(asked, 1, math.min(3, #asked)))
      assert.is_true(lock:unlock())
    end
    assert.same({}, etcd:keys(prefix))
  end)

  it("and a lock of one of the names requested at once are granted one by one", function()
    -- If one batch put both keys, they would have the same revision, and so no order.
    local asked = {}
    for i = 1, 40 do
      asked[i] = {
        assert(client:lock_async("n" .. i, { owner = "s" })),
        assert(client:multi_lock_async({ "m" .. i, "n" .. i }, { owner = "m" })),
      }
    end
    for _, pair in ipairs(asked) do clients.assert_one_after_the_other(pair) end
    assert.same({}, etcd:keys(prefix))
  end)

  it('via try_multi_lock fails with "locked" and writes nothing if a name is taken', function()
    local lock = assert(other:lock "b")
    local before = etcd:revision()
    assert_fails("locked", client:try_multi_lock { "a", "b", "c" })
    assert.equal(before, etcd:revision())
    assert.is_true(lock:unlock())
    lock = clients.keep(assert(other:lock "a/below"))
    assert.is_true(assert(client:try_multi_lock { "a", "b", "c" }):unlock())
    assert.is_true(lock:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("waits for readers of each name, and excludes readers and writers", function()
    local reader = assert(other:read_lock "b")
    local multi = ask(client, { "a", "b" })
    etcd:await_keys(prefix, 3)
    assert_fails("locked", third:try_read_lock "b")
    assert_fails("locked", third:try_read_lock "a")
    assert_wait(multi)
    assert.is_true(reader:unlock())
    multi = granted(multi)
    assert_fails("locked", third:try_read_lock "a")
    assert_fails("locked", third:try_write_lock "b")
    assert.is_true(multi:unlock())
    assert.is_true(assert(third:try_read_lock "a"):unlock())
  end)

  it('runs a function via with_multi_lock, and fails with "timeout" if a name is taken', function()
    assert.same({ true, 7 }, { client:with_multi_lock({ "a", "b" }, { timeout = 5 }, function(lock)
      assert.is_true(lock:held())
      return 7
    end) })
    clients.keep(assert(other:lock "a"))
    assert_fails("timeout",
      clients.answered(client.multi_lock, client, { "a", "b" }, { timeout = 1 }))
    etcd:await_keys(prefix, 1)
  end)

  it("takes up to 60 names and refuses 61", function()
    local names = {}
    for i = 1, 60 do names[i] = "n" .. i end
    local lock = assert(client:multi_lock(names))
    assert.equal(60, #etcd:keys(prefix))
    assert.is_true(lock:put(prefix .. "data", "v"))
    assert.is_true(lock:delete(prefix .. "data"))
    local asked = ask(other, names)
    etcd:await_keys(prefix, 120)
    assert_fails("locked", third:try_multi_lock(names))
    assert.is_true(lock:unlock())
    assert.is_true(granted(asked):unlock())
    assert.is_true(assert(third:try_multi_lock(names)):unlock())
    assert.same({}, etcd:keys(prefix))
    names[61] = "n61"
    assert.equal("client:multi_lock: #names = 61, wanted 1 to 60 names",
      assert_fails("invalid", client:multi_lock(names)))
  end)
end)

describe("the queue entry of a multi-lock", function()
  it("that waits for one name is not shown as holder of the other names", function()
    local b = assert(other:lock "b")
    local asked = ask(client, { "a", "b" })
    etcd:await_keys(prefix, 3)
    for _, of in ipairs { client, other } do
      local places = assert(of:queue "a")
      assert.equal(1, #places)
      assert.is_false(places[1].held)
      assert.same({ "a", "b" }, places[1].names)
      assert.is_false(of:queue("b")[2].held)
      assert_fails("not_held", of:break_lock("a", places[1].token))
    end
    assert.is_true(b:unlock())
    local lock = granted(asked)
    for _, name in ipairs { "a", "b" } do
      local place = other:queue(name)[1]
      assert.is_true(place.held)
      assert.same({ "a", "b" }, place.names)
      assert.is_nil(place.first or place.fulls)
    end
    assert.is_true(lock:unlock())
  end)

  -- Regression 145. break_lock failed for such an entry, and left its other keys.
  it("is removed by break_lock after one of its keys is deleted", function()
    local child = remote.start { endpoints = suite.endpoints(), prefix = prefix, ttl = 60 }
    for _, gone in ipairs { "a", "b", "c" } do
      local token = tonumber(remote.ask(child, [[
        lock = assert(client:multi_lock { 'a', 'b', 'c' }) return ('%.0f'):format(lock:token())
      ]])[1])
      child:kill "sigstop" -- so that it cannot delete its other keys
      etcd:del((other:queue(gone)[1].key))
      for _, name in ipairs { "a", "b", "c" } do
        local places = assert(other:queue(name))
        assert.equal(name == gone and 0 or 1, #places)
        assert.is_nil(places[1] and places[1].held)
      end
      for _, name in ipairs { "a", "b", "c" } do
        for _, place in ipairs(assert(other:queue(name))) do
          assert.is_true(other:break_lock(name, place.token))
        end
        assert_fails("not_held", other:break_lock(name, token))
      end
      child:kill "sigcont"
      etcd:await_keys(prefix, 0)
      remote.ask(child, "lock:unlock()")
    end
    remote.ask(child, "client:close()") -- ends its lease
  end)

  it('is not imitated by another key with "names" or "first" in its value', function()
    local PLAIN, SEVERAL = prefix .. "d/77", prefix .. "d/77-1"
    local FIRST, NAMES = '"first":"a"', '"names":["a","c"]'
    for _, says in ipairs { FIRST, NAMES, '"names":[]', '"names":0' } do
      for _, key in ipairs { PLAIN, SEVERAL } do
        etcd:put_entry(key, '{"host":"h","pid":1,"since":2,' .. says .. "}")
        local place = assert(other:queue "d")[1]
        assert.is_true(place.held or key == SEVERAL)
        assert.is_nil(place.names or place.first or place.fulls)
        etcd:revoke "77"
      end
    end
  end)

  it("shows owner, value, process, host and time under each of its names", function()
    local lock = assert(client:multi_lock({ "a", "b" }, { owner = "anna", value = "move" }))
    for _, name in ipairs { "a", "b" } do
      local place = other:queue(name)[1]
      assert.same({ "anna", "move" }, { place.owner, place.value })
      assert.is_true(place.pid > 0 and place.since > 0 and #place.host > 0)
    end
    assert.is_true(lock:unlock())
  end)

  it("is removed from all queues at once by break_lock on one of its names", function()
    for _, name in ipairs { "a", "b" } do
      local lock = assert(client:multi_lock { "a", "b" })
      local before = etcd:revision()
      assert.is_true(third:break_lock(name, lock:token()))
      assert.same({}, etcd:keys(prefix))
      assert.equal(before + 1, etcd:revision()) -- one transaction, sent without the former holder
      assert.equal("deleted", lock:wait_lost(5))
    end
  end)
end)

it("arguments of multi_lock are refused for repeated or invalid names, and for linger", function()
  local same = assert_fails("invalid", client:multi_lock { "a", "b", "a" })
  assert.equal('client:multi_lock: names[3] = "a", wanted each name once, and it is names[1]',
    same)
  assert.equal("client:multi_lock: #names = 0, wanted 1 to 60 names",
    assert_fails("invalid", client:multi_lock {}))
  assert.matches("names[2]", assert_fails("invalid", client:try_multi_lock { "a", "" }), 1, true)
  assert.matches("names[1]", assert_fails("invalid", client:multi_lock { "a/read" }), 1, true)
  assert.error_matches(function() client:multi_lock { "a", nil, "b" } end, "names%[2%] = nil")
  assert.matches("linger", assert_fails("invalid",
    client:multi_lock({ "a", "b" }, { linger = 1 })), 1, true)
  assert.has_error(function() client:multi_lock "a" end,
    "client:multi_lock: names = a, wanted a list of names")
  assert.has_error(function() client:multi_lock { "a", 2 } end,
    "client:multi_lock: names[2] = 2, wanted a string")
  assert.same({}, etcd:keys(prefix))
end)

describe("an owner", function()
  it("of a multi-lock gets the same hold for each of its names and for several of them", function()
    local lock = assert(client:multi_lock { "a", "b", "c" })
    assert.equal(lock, client:lock "b")
    assert.equal(lock, client:read_lock "c")
    assert.equal(lock, client:multi_lock { "c", "a" })
    assert.equal(lock, client:try_multi_lock { "a", "b", "c" })
    assert.equal(5, lock:count())
    for _ = 1, 5 do assert.is_true(lock:unlock()) end
    assert.same({}, etcd:keys(prefix))
  end)

  it('that holds only some of the names gets "deadlock" from multi_lock', function()
    local lock = assert(client:lock "a")
    local message = assert_fails("deadlock", client:multi_lock { "a", "b" })
    assert.equal(('lock "%sa %sb": its owner holds "%sa" already, but not all names in one hold; '
      .. "unlock that first"):format(prefix, prefix, prefix), message)
    assert_fails("deadlock", client:try_multi_lock { "b", "a" })
    assert_fails("deadlock", client:multi_lock_async { "b", "a" })
    assert.equal(lock, client:multi_lock { "a" })
    assert.is_true(lock:unlock())
    assert.is_true(lock:unlock())
    lock = assert(client:read_lock "b")
    assert_fails("deadlock", client:multi_lock { "a", "b" })
    assert.is_true(lock:unlock())
  end)

  it('gets "deadlock" if another owner of the blocking process has one of the names', function()
    local lock = assert(client:lock("b", { owner = "another" }))
    assert_fails("deadlock", client:multi_lock { "a", "b" })
    assert_fails("locked", client:try_multi_lock { "a", "b" })
    assert.is_true(lock:unlock())
    lock = assert(client:multi_lock({ "a", "b" }, { owner = "another" }))
    assert_fails("deadlock", client:lock "b")
    assert_fails("locked", client:try_read_lock "a")
    assert.is_true(lock:unlock())
  end)
end)
