-- Several names at once: one lock, taken in one transaction.

local Scripted = require "spec.support.servers.scripted"
local clients = require "spec.support.harness.clients"
local remote = require "spec.support.programs.remote"
local rows = require "spec.support.harness.error_rows"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local STATUS = rows.STATUS
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix }
local assert_fails, assert_wait = clients.assert_fails, clients.assert_wait
local granted = clients.granted
local client, other, third

before_each(function()
  client, other, third = connect(), connect { elsewhere = true }, connect { elsewhere = true }
end)

after_each(clients.close_all)

local function ask(of, names)
  return assert(of:multi_lock_async(names, { owner = {} }))
end

describe("several names at once", function()
  it("are one lock, with one token, taken and released together", function()
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

  it("cost two requests where all are free", function()
    assert(client:lock "first"):unlock()
    local before = client:stats().rpcs
    local lock = assert(client:multi_lock { "a", "b", "c", "d", "e" })
    assert.is_true(lock:unlock())
    assert.equal(before + 2, client:stats().rpcs)
  end)

  it("are waited for until the last of them is free, in every order", function()
    local a, b = assert(other:lock "a"), assert(third:lock "b")
    local asked = ask(client, { "b", "a", "c" })
    etcd:await_keys(prefix, 5)
    assert_wait(asked)
    assert.is_true(b:unlock())
    assert_wait(asked)
    assert_fails("locked", other:try_lock "c") -- who waits stands in every queue
    assert.is_true(a:unlock())
    local lock = granted(asked)
    assert.is_true(lock:check())
    assert.is_true(lock:unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("stand in the queue of each name where they have asked", function()
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

  it("in opposite orders wait for each other never", function()
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

  it("and one of them that are asked for at once stand in an order", function()
    -- What leaves together has one revision, by which neither would be the older.
    local asked = {}
    for i = 1, 40 do
      asked[i] = {
        assert(client:lock_async("n" .. i, { owner = "s" })),
        assert(client:multi_lock_async({ "n" .. i, "m" .. i }, { owner = "m" })),
      }
    end
    for _, pair in ipairs(asked) do
      local first
      wait.eventually(function()
        first = first or pair[1]:step() and 1 or pair[2]:step() and 2
        return first
      end, 10, "one of them")
      assert_wait(pair[3 - first])
      local held = pair[first]:step()
      assert.is_true(held:unlock())
      local next_one = granted(pair[3 - first])
      assert.is_true(next_one:token() > held:token())
      assert.is_true(next_one:unlock())
    end
    assert.same({}, etcd:keys(prefix))
  end)

  it("are tried without a trace, unless all are free", function()
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

  it("exclude readers and writers of each, and wait for them", function()
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

  it("run a function, and other forms, as one name does", function()
    assert.same({ true, 7 }, { client:with_multi_lock({ "a", "b" }, { timeout = 5 }, function(lock)
      assert.is_true(lock:held())
      return 7
    end) })
    assert_fails("timeout", (function()
      clients.keep(assert(other:lock "a"))
      return client:multi_lock({ "a", "b" }, { timeout = 0.1 })
    end)())
    etcd:await_keys(prefix, 1)
  end)

  it("are as many as sixty", function()
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
    assert.equal("client:multi_lock: #names = 61, wanted 1 to 60",
      assert_fails("invalid", client:multi_lock(names)))
  end)
end)

describe("who has asked for several names", function()
  it("and waits for one of them isn't shown as a holder of the others", function()
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

  it("says under each of them who he is", function()
    local lock = assert(client:multi_lock({ "a", "b" }, { owner = "anna", value = "move" }))
    for _, name in ipairs { "a", "b" } do
      local place = other:queue(name)[1]
      assert.same({ "anna", "move" }, { place.owner, place.value })
      assert.is_true(place.pid > 0 and place.since > 0 and #place.host > 0)
    end
    assert.is_true(lock:unlock())
  end)

  it("is broken under any of them, and then under all", function()
    for _, name in ipairs { "a", "b" } do
      local lock = assert(client:multi_lock { "a", "b" })
      assert.is_true(other:break_lock(name, lock:token()))
      assert.same({}, etcd:keys(prefix))
      assert.equal("deleted", lock:wait_lost(5))
    end
  end)
end)

describe("names of several", function()
  it("are refused if they can't be", function()
    local same = assert_fails("invalid", client:multi_lock { "a", "b", "a" })
    assert.equal('client:multi_lock: names[3] = "a", wanted another than names[1]', same)
    assert_fails("invalid", client:multi_lock {})
    assert.matches("names[2]", assert_fails("invalid", client:try_multi_lock { "a", "" }), 1, true)
    assert.matches("names[1]", assert_fails("invalid", client:multi_lock { "a/read" }), 1, true)
    assert.matches("linger", assert_fails("invalid",
      client:multi_lock({ "a", "b" }, { linger = 1 })), 1, true)
    assert.has_error(function() client:multi_lock "a" end,
      "client:multi_lock: names = a, wanted a list of names")
    assert.has_error(function() client:multi_lock { "a", 2 } end,
      "client:multi_lock: names[2] = 2, wanted a string")
    assert.same({}, etcd:keys(prefix))
  end)
end)

describe("the owner of several names", function()
  it("has each of them by the same hold", function()
    local lock = assert(client:multi_lock { "a", "b", "c" })
    assert.equal(lock, client:lock "b")
    assert.equal(lock, client:read_lock "c")
    assert.equal(lock, client:multi_lock { "c", "a" })
    assert.equal(lock, client:try_multi_lock { "a", "b", "c" })
    assert.equal(5, lock:count())
    for _ = 1, 5 do assert.is_true(lock:unlock()) end
    assert.same({}, etcd:keys(prefix))
  end)

  it("who has some of them already would wait for himself", function()
    local lock = assert(client:lock "a")
    local message = assert_fails("deadlock", client:multi_lock { "a", "b" })
    assert.equal('lock "a b": its owner holds "a", but not all of it: he would wait for himself',
      message)
    assert_fails("deadlock", client:try_multi_lock { "b", "a" })
    assert_fails("deadlock", client:multi_lock_async { "b", "a" })
    assert.equal(lock, client:multi_lock { "a" })
    assert.is_true(lock:unlock())
    assert.is_true(lock:unlock())
    lock = assert(client:read_lock "b")
    assert_fails("deadlock", client:multi_lock { "a", "b" })
    assert.is_true(lock:unlock())
  end)

  it("would wait for ever for another one of the same blocking program", function()
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

describe("the hold of several names", function()
  local function lose(take)
    local watchful = connect { ttl = 60 } -- which doesn't look by itself meanwhile
    local lock = assert(watchful:multi_lock { "a", "b", "c" })
    clients.await_watched(watchful, lock)
    take(lock)
    local reason = assert(lock:wait_lost(5))
    wait.eventually(function() return #etcd:keys(prefix) == 0 end, 5, "nothing left")
    return reason
  end

  it("is lost with any of its keys, and then leaves none", function()
    for _, name in ipairs { "a", "b", "c" } do
      assert.equal("deleted", lose(function()
        etcd:del((other:queue(name)[1].key))
      end))
    end
    assert.equal("replaced", lose(function()
      local key = other:queue("b")[1].key
      etcd:ctl("put", key, "by an admin")
    end))
  end)

  it("is lost while it waits if any of its keys is, or its lease", function()
    for _, take in ipairs {
      function() etcd:del((other:queue("a")[1].key)) end,
      function() etcd:revoke(client:lease()) end,
    } do
      local lock = assert(other:lock "b")
      local asked = ask(client, { "a", "b" })
      etcd:await_keys(prefix, 3)
      take()
      assert.is_true(lock:unlock())
      assert_fails("lost", clients.ended(asked))
      etcd:await_keys(prefix, 0)
    end
  end)

  -- A client through |server| that hears nothing of what becomes of its keys.
  local function deaf(server)
    local client_of_it = connect { endpoints = server:endpoint(), ttl = 60 }
    assert(client_of_it:lock "first"):unlock()
    server:answer("Watch", "never", STATUS.UNAVAILABLE, "")
    return client_of_it
  end

  local function scripted()
    local server = Scripted.start(etcd:endpoint())
    finally(function() server:stop() end)
    return server
  end

  it("guards what is written by all of its keys", function()
    local lock = assert(client:multi_lock { "a", "b" })
    assert.is_true(lock:put(prefix .. "data", "1"))
    assert.equal("1", (lock:get(prefix .. "data")))
    assert.same({ true, "2" }, assert(lock:txn {
      { "put", prefix .. "data", "2" }, { "get", prefix .. "data" } }))
    assert.is_true(lock:unlock())
    local unheard = deaf(scripted())
    for _, name in ipairs { "a", "b", "c" } do
      local mine = assert(unheard:multi_lock { "a", "b", "c" })
      assert.is_true(mine:put(prefix .. "data", "2"))
      etcd:del((other:queue(name)[1].key))
      assert_fails("lost", mine:put(prefix .. "data", "late"))
    end
    assert.equal("2", (etcd:get(prefix .. "data")))
    etcd:del(prefix .. "data")
  end)

  it("is lost, and not released, if any of its keys was gone before", function()
    local server = scripted()
    local unheard = deaf(server)
    for times = 0, 1 do -- that nobody knows what has become of a first attempt
      for _, name in ipairs { "a", "b", "c" } do
        local mine = assert(unheard:multi_lock { "a", "b", "c" })
        etcd:del((other:queue(name)[1].key))
        server:answer("Txn", "before", STATUS.UNAVAILABLE, "lost", times)
        assert_fails("lost", mine:unlock())
        etcd:await_keys(prefix, 0)
      end
    end
  end)

  it("is what was asked for, though nobody heard the answer", function()
    local server = scripted()
    local through = connect { endpoints = server:endpoint(), ttl = 60 }
    assert(through:lock "first"):unlock()
    for _, method in ipairs { "multi_lock", "try_multi_lock" } do
      server:answer("Txn", "after", STATUS.UNAVAILABLE, "etcdserver: request timed out", 1)
      local mine = assert(through[method](through, { "a", "b" }))
      assert.equal(2, #etcd:keys(prefix))
      assert.is_true(mine:check())
      server:answer("Txn", "after", STATUS.UNAVAILABLE, "etcdserver: request timed out", 1)
      assert.is_true(mine:unlock())
      assert.same({}, etcd:keys(prefix))
    end
  end)

  it("can't become a reader's", function()
    local lock = assert(client:multi_lock { "a", "b" })
    assert.has_error(function() lock:downgrade() end,
      'lock:downgrade: lock "a b" is no writer\'s, wanted one of write_lock')
    assert.is_true(lock:unlock())
  end)

  it("that nobody keeps is told of by all of its names", function()
    local told = {}
    local heedless = connect { log = function(line) told[#told + 1] = line end }
    assert(heedless:multi_lock { "a", "b" }) -- luacheck: ignore
    etcd:await_keys(prefix, 2)
    collectgarbage()
    collectgarbage()
    assert(heedless:lock "c"):unlock()
    assert.equal(1, #told)
    assert.matches('lock "a b" was released because', told[1], 1, true)
    etcd:await_keys(prefix, 0)
  end)

  it("ends by max_hold, on its own, and with the one who has it", function()
    local lock = assert(client:multi_lock({ "a", "b" }, { max_hold = 0.1 }))
    assert.equal("max_hold", lock:wait_lost(5))
    etcd:await_keys(prefix, 0)
    local child = remote.start { endpoints = suite.endpoints(), prefix = prefix, ttl = 2 }
    assert.same({ "true" }, remote.ask(child,
      "lock = assert(client:multi_lock { 'a', 'b' }) return (lock:held())"))
    local asked = ask(client, { "b", "c" })
    etcd:await_keys(prefix, 4)
    child:kill()
    assert.is_true(granted(asked):unlock())
    assert.same({}, etcd:keys(prefix))
  end)

  it("is given up while it waits, without a trace", function()
    local lock = assert(other:lock "b")
    local asked = ask(client, { "a", "b", "c" })
    etcd:await_keys(prefix, 4)
    asked:cancel()
    etcd:await_keys(prefix, 1)
    assert.is_true(lock:unlock())
  end)

  it("ends for a key of one name that lingers elsewhere, and here", function()
    for _, of in ipairs { client, other } do
      for _, name in ipairs { "a", "b" } do
        local lock = assert(of:lock(name, { linger = 60 }))
        clients.await_watched(of, lock) -- and so hears of who comes from elsewhere
        assert.is_true(lock:unlock())
        assert.is_true(assert(client:multi_lock({ "a", "b" }, { timeout = 5 })):unlock())
        assert.same({}, etcd:keys(prefix))
      end
    end
  end)
end)
