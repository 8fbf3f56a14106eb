-- If a read was answered after its hold had ended, it failed with the code "lost" and the message
-- "key is gone", whatever had ended the hold.

local clients = require "spec.support.harness.clients"
local cqueues = require "cqueues"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local KEY = prefix .. "x"

-- For each way to end a hold: the code that reports it, and a function that ends the hold of
-- |lock|.
local ENDS = {
  ["max_hold"] = { "lost", function(lock)
    assert(lock:expire(0.001))
    assert.equal("max_hold", lock:wait_lost(5))
  end },
  -- The nginx binding makes this call when a request ends.
  ["the end of its nginx request"] = { "not_held", function(lock) lock._core:outlive() end },
}

before_each(function() etcd:put(KEY, "1") end)

after_each(function()
  clients.close_all()
  etcd:del_all(prefix)
end)

for what, row in pairs(ENDS) do
  it("regression 050: a late get returns the code for the end of its hold: " .. what, function()
    local code, end_hold = row[1], row[2]
    local server, client = clients.through_scripted(suite.endpoint(), { prefix = prefix, ttl = 60 })
    local loop, answers = cqueues.new(), {}
    loop:wrap(function()
      for i = 1, 5 do
        local lock = assert(client:lock("a" .. i))
        clients.await_watched(client, lock)
        server:delay "Txn" -- so that the client sends the read again
        local calls = server:calls "Txn"
        loop:wrap(function()
          local value, message, got = lock:get(KEY)
          answers[i] = { value = value, message = message, code = got, held = { lock:held() } }
        end)
        repeat cqueues.sleep(0.001) until server:calls "Txn" > calls
        end_hold(lock)
        repeat cqueues.sleep(0.001) until answers[i]
      end
    end)
    assert(loop:loop())
    local late = 0
    for _, answer in ipairs(answers) do
      if answer.value ~= "1" then -- else the answer came before the end of the hold
        late = late + 1
        assert.same({ code, { false, code } }, { answer.code, answer.held })
        assert.not_matches("key is gone", answer.message)
      end
    end
    assert.is_true(late > 0)
  end)
end
