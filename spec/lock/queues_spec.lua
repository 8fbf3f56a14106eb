-- Tests client:queues, which lists all queues below a prefix, and that it omits keys that are no
-- entries.

local keep = clients.keep

after_each(clear_etcd)

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
    keep(clients.ask(other, "write", "b"))
    etcd:await_keys(prefix .. "b/", 2)
    local found = assert(other:queues())
    assert.same({ "a write+", "a/1 lock+", "b read+ write-", "c permit+", "leader leader+" },
      shown(found))
    for _, queue in ipairs(found) do
      assert.same(other:queue(queue.name), queue.entries)
    end
  end)

  it("lists a multi-lock under each of its names", function()
    local held = keep(assert(client:multi_lock { "b", "a" }))
    keep(assert(client:lock "c"))
    keep(assert(other:multi_lock_async { "c", "d" }))
    etcd:await_keys(prefix .. "c/", 2)
    local found = assert(client:queues())
    assert.same({ "a multi+", "b multi+", "c lock+ multi-", "d multi-" }, shown(found))
    assert.same({ "b", "a" }, found[1].entries[1].names)
    assert.equal(held:token(), found[2].entries[1].token)
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
    keep(clients.ask(client, "write", "stuck"))
    etcd:await_keys(prefix .. "stuck/", 2)
    assert.same({ "rw read+", "stuck lock+ write-", "theirs lock+" }, shown(other:queues()))
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
    assert.same(other:queue "many/077", found[77].entries)
  end)

  -- Regression 291. The result could be read only as a whole.
  describe("with a limit", function()
    -- Returns all pages of |limit| entries.
    local function read_pages(below, limit)
      local pages, after = {}, nil
      repeat
        local page
        page, after = client:queues(below, { limit = limit, after = after })
        pages[#pages + 1] = assert(page, after)
      until not after
      return pages
    end

    it("returns pages that together have all queues, in the order of their bytes", function()
      -- The keys of "a-1" are before those of "a"; the keys of "a/m" are among those of "a".
      for _, name in ipairs { "a", "a-1", "a/m", "a/m/n", "a\1", "a\255", "b", "z" } do
        keep(assert(client:read_lock(name)))
        keep(assert(assert(client:semaphore(name, 2)):lock()))
      end
      etcd:put(prefix .. "a/data", "1")
      etcd:put(prefix .. "c/1f", "not on lease 1f")
      for _, below in ipairs { "", "a" } do
        local all = client:queues(below)
        for _, limit in ipairs { 1, 2, 3, 5, 1000 } do
          local joined = {}
          for _, page in ipairs(read_pages(below, limit)) do
            local count = 0
            for _, queue in ipairs(page) do
              joined[#joined + 1] = queue
              count = count + #queue.entries
            end
            assert.is_true(count <= limit or #page == 1, count)
          end
          if limit == 1 then
            assert.equal(#all, #joined)
          else
            assert.same(all, joined)
          end
        end
      end
    end)

    it("returns the oldest entries of a longer queue, and the number of the others", function()
      for i = 1, 5 do keep(assert(assert(client:semaphore("pool", 9)):lock { owner = i })) end
      local all = client:queue "pool"
      local page, after = client:queues("", { limit = 2 })
      assert.is_nil(after)
      assert.same({ { all[1], all[2] }, 3, 0 },
        { page[1].entries, page[1].more, page[1].other_keys })
    end)

    -- Regression 308. The key that marks the downgrade counted as an entry: |more| was 0 where all
    -- was read, and a page had one entry fewer than |limit|.
    it("shows a downgraded writer as a reader, and does not count its marker", function()
      local lock = keep(assert(client:write_lock "a"))
      assert(lock:downgrade())
      assert.is_nil(client:queues("", { limit = 1 })[1].more)
      keep(assert(other:read_lock "a"))
      for limit, entries in ipairs { { "a read+" }, { "a read+ read+" } } do
        local page = client:queues("", { limit = limit })
        assert.same(entries, shown(page))
        assert.equal(limit == 1 and 1 or nil, page[1].more)
        assert.equal(1, page[1].other_keys)
      end
    end)

    it("begins after any name, also of another prefix", function()
      keep(assert(client:lock "b"))
      assert.same({ "b lock+" }, shown((client:queues("", { after = "a/zzz" }))))
      assert.same({ "b lock+" }, shown((client:queues("b", { after = "a" }))))
      assert.same({}, (client:queues("", { after = "b" })))
      assert.same({}, (client:queues("b", { after = "zzz" })))
    end)

    it("rejects a limit below 1 and a fraction", function()
      for _, limit in ipairs { 0, -1, 1.5, 0 / 0, math.huge } do
        assert_fails("invalid", client:queues("", { limit = limit }))
      end
      assert.has_error(function() client:queues("", { after = 5 }) end)
      assert.has_error(function() client:queues("", { count = 5 }) end)
    end)
  end)

  it("rejects a prefix that is too long, contains NUL or is no string", function()
    assert_fails("invalid", client:queues(("x"):rep(513)))
    assert_fails("invalid", client:queues "a\0")
    assert.has_error(function() client:queues(1) end,
      "client:queues: prefix = 1, wanted a string")
  end)
end)
