-- Tests the watch cache: a client that waits for the same predecessor again uses the watch of its
-- last wait.
-- Needs: cqueues.

-- A waiter that misses a deletion finds it only by a read: 0.25 s after its wait began (MISSED is
-- a little less), or a minute later.
local MISSED = 0.2
client_options { ttl = 60 }
local holder, waiter

before_each(function() holder, waiter = connect(), connect { elsewhere = true } end)

-- Lets |client| wait for lock |name| of |from|, acquire it and release it. Returns true if the hold
-- may have been so long that |client| watched its own key, too.
local function pass(name, from, client)
  local held = assert(from:lock(name))
  local asked = assert(client:lock_async(name, { owner = {} }))
  etcd:await_keys(prefix .. name .. "/", 2)
  local since = wait.now()
  assert.is_true(held:unlock())
  assert.is_true(clients.granted(asked):unlock())
  return wait.now() - since >= clients.UNWATCHED
end

describe("a cached watch", function()
  it("serves the next wait for the same key", function()
    waiter = connect { endpoints = server:endpoint() }
    -- Asserts that a wait for |name| starts |count| watches, or one more, of the client's own key.
    local function assert_begins(count, name)
      local before = waiter:stats().watches
      local is_long = pass(name, holder, waiter)
      local begun = waiter:stats().watches - before
      assert.is_true(begun == count or is_long and begun == count + 1, begun .. " watches")
    end
    assert_begins(1, "a")
    for _ = 1, 10 do assert_begins(0, "a") end
    assert_begins(1, "b")
    assert.equal(1, server:calls "Watch") -- one stream for all watches
  end)

  it("reports a deletion to the next wait, also after its stream broke", function()
    waiter = connect { endpoints = server:endpoint() }
    for round = 1, 10 do
      pass("a", holder, waiter)
      local held = assert(holder:lock "a")
      server:interrupt("Watch", error_rows.STATUS.UNAVAILABLE, "broken")
      local asked = assert(waiter:lock_async("a", { owner = {} }))
      if round % 2 == 0 then
        etcd:await_keys(prefix .. "a/", 2)
      end
      assert.is_true(held:unlock())
      assert.is_true(clients.granted(asked):unlock())
    end
  end)

  it("misses no deletion while two clients acquire a lock 300 times each", function()
    local TURNS = 300
    local loop, last, slow = cqueues.new(), nil, 0
    for _, client in ipairs { holder, waiter } do
      loop:wrap(function()
        for _ = 1, TURNS do
          local from = wait.now()
          local lock = assert(client:lock "a")
          if wait.now() - from > MISSED then slow = slow + 1 end
          assert.not_equal(last, lock:token())
          last = lock:token()
          assert.is_true(lock:unlock())
        end
      end)
    end
    local started_at = wait.now()
    assert(loop:loop())
    assert.is_true(wait.now() - started_at < 50) -- no turn has waited for a minute
    assert.is_true(slow < TURNS / 10, slow .. " turns may have missed a deletion")
    local stats = waiter:stats()
    assert.is_true(stats.watches < TURNS / 2, stats.watches .. " watches")
  end)

  it("ends within 10 s if the client does not wait for its key again", function()
    pass("a", holder, waiter)
    assert.is_true(etcd:watchers() > 0)
    wait.eventually(function()
      local count = etcd:watchers()
      return count == 0, count .. " watchers"
    end, 10, "no watcher is left")
  end)
end)
