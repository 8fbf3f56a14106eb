-- Tests a lock call that would wait for a lock of its own process.

-- Regression 042. A process had two clients. Inside with_lock of the first client, it called the
-- second client for the same lock. The call blocked the process forever.
local client, other

before_each(function() client, other = connect(), connect() end)

describe("a second client of the process", function()
  it("gets deadlock at once for a lock of the first client", function()
    local from = wait.now()
    local ok, message, code = client:with_lock("a", function(lock)
      local text = assert_fails("deadlock", other:with_lock("a", error))
      assert_fails("deadlock", other:lock("a", { timeout = 10 }))
      assert_fails("locked", other:try_lock "a")
      assert.is_true(lock:check())
      return text
    end)
    assert.is_true(ok, message, code)
    assert.matches('lock "' .. prefix
      .. 'a" is held by another client of this program', message, 1, true)
    assert.is_true(wait.now() - from < 4) -- a wait without a detected deadlock would take 10 s
    assert.is_true(assert(other:lock "a"):unlock())
  end)

  it("gets deadlock if its prefix and name form the same key", function()
    local below = connect { prefix = prefix .. "b/" }
    clients.keep(assert(client:lock "b/c"))
    assert_fails("deadlock", below:lock "c")
    assert.is_true(assert(below:lock "b/c"):unlock())
  end)

  it("gets deadlock if its endpoints spell the member differently", function()
    local one = etcd:endpoint()
    local bare, name = one:gsub("^https?://", ""), one:gsub("127%.0%.0%.1", "localhost")
    clients.keep(assert(client:lock "c"))
    for _, endpoints in ipairs { bare, name, "nobody.invalid:2379," .. one } do
      assert_fails("deadlock", connect { endpoints = endpoints }:lock("c", { timeout = 5 }))
    end
  end)

  it("takes the same name in another etcd cluster", function()
    local another = suite.start()
    clients.keep(assert(client:lock "c"))
    local lock = assert(connect { endpoints = another:endpoints() }:lock("c", { timeout = 5 }))
    assert.is_true(lock:unlock())
  end)

  it("in another cluster times out behind a writer there", function()
    local another = suite.start()
    clients.keep(assert(client:read_lock "c"))
    clients.keep(assert(connect { endpoints = another:endpoints(), elsewhere = true }:lock "c"))
    local reader = connect { endpoints = another:endpoints() }
    assert(reader:lock "warm"):unlock()
    assert_fails("timeout", clients.answered(reader.read_lock, reader, "c", { timeout = 1 }))
  end)

  it("waits for a hold with max_hold, then gets the lock", function()
    clients.keep(assert(client:lock("a", { max_hold = 0.2 })))
    assert.is_true(assert(other:lock("a", { timeout = 5 })):unlock())
  end)

  it("gets a lock that the first client leaked", function()
    assert(client:lock("a"))
    assert.is_true(assert(other:lock("a", { timeout = 5 })):unlock())
  end)
end)
