-- Tests guarded calls whose hold ends before they are answered.
-- Needs: cqueues.

-- Regression 049. A coroutine released a lock while another one waited for the answer to a guarded
-- call. Then three results were wrong. A read that etcd answered during the next owner's hold
-- returned a value. A write that etcd applied during its own hold was reported as failed. A late
-- read was reported as a loss, although no hold was lost.

local KEY = prefix .. "x"

scripted_client { ttl = 60, handoff_time = 60 }

-- Runs |fn|(go) in an event loop; go(other) starts another coroutine.
local function run(fn)
  local loop = cqueues.new()
  loop:wrap(fn, function(other) loop:wrap(other) end)
  assert(loop:loop())
end

local function until_true(condition)
  while not condition() do cqueues.sleep(0.001) end
end

it("a get answered after a handoff to another owner returns not_held", function()
  local token, code
  run(function(go)
    local first = assert(client:lock "a")
    go(function()
      local second = assert(client:lock "a")
      token = second:token()
      server:tell "Txn"
    end)
    until_true(function() return client:stats().waiting == 1 end)
    clients.await_watched(client, first)
    server:hold_back("Txn", -1) -- -1: also the answers to retries
    go(function() code = select(3, first:get(KEY)) end)
    until_true(function() return server:held "Txn" > 0 end)
    assert(first:unlock())
    until_true(function() return token end)
    assert.equal(first:token(), token)
  end)
  assert.equal("not_held", code)
end)

-- Sends a read and blocks until it is answered. Earlier answers have then arrived, too, but no
-- other coroutine has run to receive them.
local function ask_at_once()
  local txn = client._core:txn()
  txn:get(KEY)
  assert(txn:start(5))
  assert(txn:wait(5))
end

local WRITES = {
  put = function(lock) return lock:put(KEY, "1") end,
  txn = function(lock) return lock:txn { { "get", KEY }, { "put", KEY, "1" } } end,
}

for name, write in pairs(WRITES) do
  it(name .. " succeeds if unlock follows its answer at once", function()
    local ok, message
    run(function(go)
      local lock = assert(client:lock("a", { linger = 60 }))
      clients.await_watched(client, lock) -- the client then sends nothing by itself
      server:hold_back "Txn"
      go(function() ok, message = write(lock) end)
      until_true(function() return server:held "Txn" == 1 end)
      server:tell "Txn"
      ask_at_once()
      assert(lock:unlock())
    end)
    assert.truthy(ok, message)
  end)
end

-- Regression 050. If a read was answered after its hold had ended, it failed with the code "lost"
-- and the message "key is gone", whatever had ended the hold.
describe("a late get", function()
  -- For each way to end a hold: the code that reports it, a function that ends the hold of |lock|,
  -- and how many losses the client counts for each hold.
  local ENDS = {
    ["max_hold"] = { "lost", function(lock)
      assert(lock:expire(0.001))
      assert.equal("max_hold", lock:wait_lost(5))
    end, 1 },
    -- The end of an nginx request ends its holds in this way.
    ["the end of its nginx request"] = { "not_held", function(lock) lock._core:outlive() end, 0 },
    -- Regression 049.
    ["unlock"] = { "not_held", function(lock) assert(lock:unlock()) end, 0 },
  }

  before_each(function() etcd:put(KEY, "1") end)
  for what, row in pairs(ENDS) do
    it("returns the code for the end of its hold: " .. what, function()
      local code, end_hold, losses = (table.unpack or unpack)(row)
      scripted_client { ttl = 60 }
      local late, count = 0, 5
      run(function(go)
        for i = 1, count do
          local lock = assert(client:lock("a" .. i))
          clients.await_watched(client, lock)
          server:delay "Txn" -- so that the client sends the read again
          local calls, answer = server:calls "Txn", nil
          go(function()
            local value, message, got = lock:get(KEY)
            answer = { value = value, message = message, code = got, held = { lock:held() } }
          end)
          until_true(function() return server:calls "Txn" > calls end)
          end_hold(lock)
          until_true(function() return answer end)
          if answer.value ~= "1" then -- else the answer came before the end of the hold
            late = late + 1
            assert.same({ code, { false, code } }, { answer.code, answer.held })
            assert.not_matches("key is gone", answer.message)
          end
        end
      end)
      assert.is_true(late > 0)
      assert.equal(losses * count, client:stats().lost)
    end)
  end
end)

-- Regression 088. A guarded write had to wait for an earlier one. If the hold was lost before the
-- write could be sent, the write failed with "not_held", as after an unlock, instead of "lost".
describe("a hold that is ended by", function()
  before_each(function() scripted_client { ttl = 60 } end)

  after_each(clear_etcd)

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

  for what, case in pairs(ENDS) do
    for name, call in pairs(CALLS) do
      it(("%s while %s waits for an earlier write is lost to it"):format(what, name), function()
        local finish, reason = (table.unpack or unpack)(case)
        local lock = assert(client:write_lock "a")
        clients.await_watched(client, lock)
        server:hold_back "Txn"
        local earlier = clients.start_put(client, lock, KEY, "1", 1)
        finish(lock)
        local message = assert_fails("lost", call(lock))
        assert.equal(reason, lock:wait_lost(0))
        assert.same({ false, "lost" }, { lock:held() })
        assert.equal(message, assert_fails("lost", lock:check()))
        clients.assert_unheard(earlier)
        server:tell "Txn"
        assert_fails("lost", lock:unlock())
      end)
    end
  end
end)
