-- A guarded write had to wait for an earlier one. If the hold was lost before the write could be
-- sent, the write failed with "not_held", as after an unlock, instead of "lost".

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local KEY = prefix .. "x"
local server, client

before_each(function()
  server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 60 })
end)

after_each(function()
  clients.close_all()
  etcd:del_all(prefix)
  etcd:revoke_all()
end)

local CALLS = {
  put = function(lock) return lock:put(KEY, "2") end,
  delete = function(lock) return lock:delete(KEY) end,
  txn = function(lock) return lock:txn { { "get", KEY }, { "put", KEY, "2" } } end,
  downgrade = function(lock) return lock:downgrade() end,
}

-- For each way to end a hold: a function that ends it, and the reason of the loss.
local ENDS = {
  max_hold = { function(lock) assert(lock:expire(0.5)) end, "max_hold" },
  ["the deletion of its key"] = { function(lock) etcd:del(lock:key()) end, "deleted" },
}

describe("regression 088: a hold that is ended by", function()
  for what, case in pairs(ENDS) do
    for name, call in pairs(CALLS) do
      it(("%s while %s waits for an earlier write is lost to it"):format(what, name), function()
        local finish, reason = (table.unpack or unpack)(case)
        local lock = assert(client:write_lock "a")
        clients.await_watched(client, lock)
        server:hold_back "Txn"
        local earlier = clients.start_put(client, lock, KEY, "1", 1)
        finish(lock)
        local message = clients.assert_fails("lost", call(lock))
        assert.equal(reason, lock:wait_lost(0))
        assert.same({ false, "lost" }, { lock:held() })
        assert.equal(message, clients.assert_fails("lost", lock:check()))
        clients.assert_unheard(earlier)
        server:tell "Txn"
        clients.assert_fails("lost", lock:unlock())
      end)
    end
  end
end)
