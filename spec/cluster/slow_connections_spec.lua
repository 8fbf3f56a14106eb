-- Tests a connection that is slow or falls silent.
-- Needs: one plain member.

-- Regression 148. The limits were those of a quick network. An attempt to connect ended after 1 s,
-- and all calls were cancelled and sent again if no answer came for 0.6 s, for ever. So on a line
-- with a round trip of more than 0.6 s no lock was granted. With one endpoint, a connection that
-- had fallen silent was used until the holds were lost, although a new one would have worked.
local proxy

before_each(function() proxy = Swallow.start(suite.endpoint()) end)
after_each(function()
  clients.close_all()
  proxy:stop()
  etcd:del_all(prefix)
end)

-- Asserts that a lock with |ttl| is granted on a line where each answer takes |delay|, and is held
-- for |hold|; all in seconds.
local function assert_held(delay, ttl, hold)
  proxy:slow(delay)
  local client = connect { endpoints = proxy:endpoint(), ttl = ttl }
  local lock = assert(client:lock("a", { timeout = 30 }))
  assert.equal("timeout", (select(3, lock:wait_lost(hold))))
  assert.is_true(lock:held())
end

it("a lock is granted and held although each answer takes 1.4 s", function()
  assert_held(1.4, 10, 12)
end)

-- The hold deadline counted from the grant of the lease, which waits for the connection.
it("the first hold is not lost at once on a line as slow as its TTL allows", function()
  assert_held(1.2, 5, 6)
end)

it("a hold outlives a connection that falls silent, with one endpoint", function()
  local client = connect { endpoints = proxy:endpoint(), ttl = 5 }
  local lock = assert(client:lock "a")
  proxy:mute()
  assert.equal("timeout", (select(3, lock:wait_lost(10))))
  assert.is_true(lock:held())
end)
