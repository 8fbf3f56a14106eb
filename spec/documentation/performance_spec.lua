-- Tests the table in doc/performance.md: runs the call of each row, and compares its requests and
-- writes with those in the row.

-- With so long a TTL, the client sends no keepalive during a measurement.
client_options { ttl = 300 }

-- The requests that a call may wait for: their names in the table, and their fields in stats.
-- (Looks and watches happen in the background; see stats_spec.)
local KINDS = {
  grant = "grants", enqueue = "enqueues", try = "tries", delete = "deletes", call = "calls",
  audit = "audits", revoke = "revokes",
}

local RECORD = prefix .. "a.last-run"

local function nothing() end

-- Returns the function of a row whose calls, |run|(lock, client), need a lock "a" that the client
-- has taken with the method |take| (nil: "lock").
local function held(run, take, opts)
  return function(client, cost)
    local lock = clients.keep(assert(client[take or "lock"](client, "a", opts)))
    cost(function() run(lock, client) end)
  end
end

-- For each row, by the text of its first cell, a function(client, cost, other). |other| counts as a
-- client of another process. The function makes its preparations and then calls cost(run,
-- measured): |run| makes the calls of the row, and |measured| is the client that sends the requests
-- (nil: |client|).
local ROWS = {
  ["`lock`, free"] = function(client, cost)
    cost(function() clients.keep(assert(client:lock "a")) end)
  end,
  ["`lock`, free, the client's first"] = function(_, cost)
    local fresh = connect()
    cost(function() clients.keep(assert(fresh:lock "a")) end, fresh)
  end,
  ["`try_lock`, free"] = function(client, cost)
    cost(function() clients.keep(assert(client:try_lock "a")) end)
  end,
  ["`try_lock`, taken"] = function(client, cost, other)
    clients.keep(assert(other:lock "a"))
    cost(function() assert.is_nil((client:try_lock "a")) end)
  end,
  ["`unlock`"] = held(function(lock) assert(lock:unlock()) end),
  ["`lock` and `unlock` of a lock that the owner holds, `held`, `remaining`, `token`"] =
    held(function(lock, client)
      assert(client:lock "a")
      assert(lock:unlock())
      assert(lock:held() and lock:remaining() and lock:token())
    end),
  ["`unlock` with `linger`, and `lock` after it"] = held(function(lock, client)
    assert(lock:unlock())
    clients.keep(assert(client:lock "a"))
  end, "lock", { linger = 60 }),
  ["`lock`, handed off by another owner of the client"] = function(_, cost)
    local client = connect { handoff_time = 60 } -- long enough for a handoff on a slow machine
    assert(client:lock "warm"):unlock()
    local lock = assert(client:lock("a", { owner = "first" }))
    local pending = assert(client:lock_async("a", { owner = "second" }))
    cost(function()
      assert(lock:unlock())
      wait.eventually(function() return pending:step() end)
    end, client)
    clients.keep(pending:step())
  end,
  ["`read_lock` beside a reader of the client"] = held(function(_, client)
    clients.keep(assert(client:read_lock("a", { owner = "second" })))
  end, "read_lock", { owner = "first" }),
  ["`read_lock`, `write_lock`, `semaphore:lock`, free"] = function(client, cost)
    local semaphore = client:semaphore("c", 2)
    cost(function() clients.keep(assert(client:read_lock "a")) end)
    cost(function() clients.keep(assert(client:write_lock "b")) end)
    cost(function() clients.keep(assert(semaphore:lock())) end)
  end,
  ["`multi_lock` of three names, free"] = function(client, cost)
    cost(function() clients.keep(assert(client:multi_lock { "a", "b", "c" })) end)
  end,
  ["`downgrade`"] = held(function(lock) assert(lock:downgrade()) end, "write_lock"),
  ["`check`"] = held(function(lock) assert(lock:check()) end),
  ["`put`, `delete`, `txn` of any number of operations"] = function(client, cost)
    local lock = clients.keep(assert(client:lock "a"))
    cost(function() assert(lock:put(prefix .. "x", "1")) end)
    cost(function()
      assert(lock:txn { { "put", prefix .. "y", "1" }, { "delete", prefix .. "x" } })
    end)
    cost(function() assert(lock:delete(prefix .. "y")) end)
  end,
  ["`get`, `status` (to each member), `ping`"] = function(client, cost)
    local lock = clients.keep(assert(client:lock "a"))
    cost(function() assert(select("#", lock:get(prefix .. "x")) > 0) end)
    cost(function() assert(client:status()) end)
    cost(function() assert(client:ping()) end)
  end,
  ["`queue`, of up to 16 entries"] = held(function(_, client)
    assert.equal(1, #assert(client:queue "a"))
  end),
  ["`queues`, of up to 16 entries"] = held(function(_, client)
    assert.equal(1, #assert(client:queues()))
  end),
  ["`once`, if the function runs"] = function(client, cost)
    etcd:del(RECORD)
    cost(function() assert(client:once("a", "ever", nothing)) end)
  end,
  ["`once`, if there is nothing to do"] = function(client, cost, other)
    assert(other:once("a", "ever", nothing) ~= nil)
    cost(function() assert.is_false((client:once("a", "ever", nothing))) end)
  end,
  ["`runs`, of up to 16 jobs"] = function(client, cost, other)
    assert(other:once("a", "ever", nothing) ~= nil)
    cost(function() assert.equal(1, #assert(client:runs())) end)
  end,
  ["`break_lock`"] = function(client, cost, other)
    local lock = clients.keep(assert(other:lock "a"))
    cost(function() assert(client:break_lock("a", lock:token())) end)
  end,
}

-- Returns the requests between the stats |before| and |after|, in the words of the table.
local function requests(before, after)
  local list = {}
  for kind, field in pairs(KINDS) do
    local count = after[field] - before[field]
    if count > 0 then
      list[#list + 1] = ("%d %s%s"):format(count, kind, count > 1 and "s" or "")
    end
  end
  table.sort(list)
  return list[1] and table.concat(list, ", ") or "none"
end

after_each(function() etcd:del(RECORD) end)

describe("doc/performance.md states the requests and writes of", function()
  local page, found = assert(read_file "doc/performance.md"), {}
  for call, asked, writes in page:gmatch "\n| (`[^|]+) | ([^|]+) | (%d+) |" do
    found[call] = true
    it(call, function()
      rounds.undisturbed(function(timed)
        local client, other, count = connect(), connect { elsewhere = true }, 0
        assert(client:lock "warm"):unlock() -- requests the lease
        assert(other:lock "warm"):unlock()
        assert(ROWS[call], "nobody runs this row")(client, function(run, measured)
          measured, count = measured or client, count + 1
          local before, revision = measured:stats(), etcd:revision()
          timed(run)
          assert.equal(asked, requests(before, measured:stats()))
          assert.equal(tonumber(writes), etcd:revision() - revision)
        end, other)
        assert.is_true(count > 0)
      end, clients.close_all)
    end)
  end

  it("every call that this file can measure", function()
    for call in pairs(ROWS) do assert.is_true(found[call], call) end
  end)
end)
