-- Tests client:queues, which lists all queues below a prefix, and that it omits keys that are no
-- entries.

local keep = clients.keep

-- Returns a line "name mode+ mode-" for each queue in |found|: + marks a holder, - a waiter.
local function shown(found)
  local lines = {}
  for i, queue in ipairs(found) do
    lines[i] = queue.name
    for _, place in ipairs(queue.entries) do
      lines[i] = lines[i] .. " " .. place.mode .. (place.held and "+" or "-")
    end
  end
  return lines
end

describe("queues", function()
  it("returns an empty list if there is no entry", function()
    assert.same({}, client:queues())
  end)

  it("lists the queues of all lock modes by name, with the same entries as queue", function()
    keep(assert(client:read_lock("b", { value = "reads" })))
    keep(assert(client:semaphore("c", 2):lock()))
    keep(assert(client:lock "a/1"))
    keep(assert(client:election "leader":campaign "me"))
    keep(assert(client:write_lock "a"))
    local waiting = clients.ask(other, "write", "b")
    etcd:await_keys(prefix .. "b/", 2)
    local found = assert(other:queues())
    assert.same({ "a write+", "a/1 lock+", "b read+ write-", "c permit+", "leader leader+" },
      shown(found))
    for _, queue in ipairs(found) do
      assert.same(other:queue(queue.name), queue.entries)
    end
    waiting:cancel()
  end)

  it("lists a multi-lock under each of its names", function()
    local held = keep(assert(client:multi_lock { "b", "a" }))
    keep(assert(client:lock "c"))
    local waiting = assert(other:multi_lock_async { "c", "d" })
    etcd:await_keys(prefix .. "c/", 2)
    local found = assert(client:queues())
    assert.same({ "a multi+", "b multi+", "c lock+ multi-", "d multi-" }, shown(found))
    assert.same({ "b", "a" }, found[1].entries[1].names)
    assert.equal(held:token(), found[2].entries[1].token)
    waiting:cancel()
  end)

  it("lists only names that begin with the given prefix", function()
    for _, name in ipairs { "stock/1", "stock/2", "stoc", "stockings", "sto\255", "sto\255\255" } do
      keep(assert(client:lock(name)))
    end
    assert.same({ "stock/1 lock+", "stock/2 lock+" }, shown(client:queues "stock/"))
    assert.same({ "sto\255 lock+", "sto\255\255 lock+" }, shown(client:queues "sto\255"))
    assert.equal(6, #client:queues "sto")
    assert.same({}, client:queues "stock/1/")
  end)

  it("lists entries of other programs, and of waiters behind them", function()
    local lease = etcd:grant(60)
    etcd:put(prefix .. "theirs/" .. lease, "", lease)
    etcd:put(prefix .. "rw/read/1700000000123456789", "", lease)
    etcd:put_entry(prefix .. "stuck/1", "")
    local waiting = clients.ask(client, "write", "stuck")
    etcd:await_keys(prefix .. "stuck/", 2)
    assert.same({ "rw read+", "stuck lock+ write-", "theirs lock+" }, shown(other:queues()))
    waiting:cancel()
    etcd:revoke "1"
    etcd:revoke(lease)
  end)

  it("lists all entries among more than 2,000 other keys, and omits those", function()
    local lock = assert(client:lock "zz")
    local lease = etcd:grant(60)
    etcd:put(prefix .. "service/1f", "not on lease 1f", lease)
    for i = 1, 3 do etcd:put(("%szz/%d"):format(prefix, i), "user data") end
    for page = 1, 21 do
      local puts = {}
      for i = 1, 100 do puts[i] = { "put", ("%sdata/%d-%d"):format(prefix, page, i), "x" } end
      assert(lock:txn(puts))
    end
    for i = 1, 101 do keep(assert(client:lock(("many/%03d"):format(i)))) end
    local found = assert(other:queues())
    assert.equal(102, #found)
    assert.equal("many/101", found[101].name)
    assert.equal("zz", found[102].name)
    assert.same({ 3, 0 }, { found[102].other_keys, found[101].other_keys })
    for i = 1, 3 do etcd:del(("%szz/%d"):format(prefix, i)) end
    assert.same(other:queue "many/077", found[77].entries)
    etcd:revoke(lease)
    etcd:del_all(prefix .. "data/")
    assert(lock:unlock())
  end)

  it("rejects a prefix that is too long, contains NUL or is no string", function()
    assert_fails("invalid", client:queues(("x"):rep(513)))
    assert_fails("invalid", client:queues "a\0")
    assert.has_error(function() client:queues(1) end,
      "client:queues: prefix = 1, wanted a string")
  end)
end)
