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

-- For each row, by the text of its first cell, a function(client, other, cost). |other| counts as a
-- client of another process. The function makes its preparations and then calls cost(run,
-- measured): |run| makes the calls of the row, and |measured| is the client that sends the requests
-- (nil: |client|).
local ROWS = {}

ROWS["`lock`, free"] = function(client, _, cost)
  cost(function() clients.keep(assert(client:lock "a")) end)
end

ROWS["`lock`, free, the client's first"] = function(_, _, cost)
  local fresh = connect()
  cost(function() clients.keep(assert(fresh:lock "a")) end, fresh)
end

ROWS["`try_lock`, free"] = function(client, _, cost)
  cost(function() clients.keep(assert(client:try_lock "a")) end)
end

ROWS["`try_lock`, taken"] = function(client, other, cost)
  clients.keep(assert(other:lock "a"))
  cost(function() assert.is_nil((client:try_lock "a")) end)
end

ROWS["`unlock`"] = function(client, _, cost)
  local lock = assert(client:lock "a")
  cost(function() assert(lock:unlock()) end)
end

ROWS["`lock` and `unlock` of a lock that the owner holds, `held`, `remaining`, `token`"] =
  function(client, _, cost)
    local lock = clients.keep(assert(client:lock "a"))
    cost(function()
      assert(client:lock "a")
      assert(lock:unlock())
      assert(lock:held() and lock:remaining() and lock:token())
    end)
  end

ROWS["`unlock` with `linger`, and `lock` after it"] = function(client, _, cost)
  local lock = assert(client:lock("a", { linger = 60 }))
  cost(function()
    assert(lock:unlock())
    clients.keep(assert(client:lock "a"))
  end)
end

ROWS["`lock`, handed off by another owner of the client"] = function(_, _, cost)
  local client = connect { handoff_time = 60 } -- long enough for a handoff on a slow machine
  assert(client:lock "warm"):unlock()
  local lock = assert(client:lock("a", { owner = "first" }))
  local pending = assert(client:lock_async("a", { owner = "second" }))
  cost(function()
    assert(lock:unlock())
    wait.eventually(function() return pending:step() end)
  end, client)
  clients.keep(pending:step())
end

ROWS["`read_lock` beside a reader of the client"] = function(client, _, cost)
  clients.keep(assert(client:read_lock("a", { owner = "first" })))
  cost(function() clients.keep(assert(client:read_lock("a", { owner = "second" }))) end)
end

ROWS["`read_lock`, `write_lock`, `semaphore:lock`, free"] = function(client, _, cost)
  local semaphore = client:semaphore("c", 2)
  cost(function() clients.keep(assert(client:read_lock "a")) end)
  cost(function() clients.keep(assert(client:write_lock "b")) end)
  cost(function() clients.keep(assert(semaphore:lock())) end)
end

ROWS["`multi_lock` of three names, free"] = function(client, _, cost)
  cost(function() clients.keep(assert(client:multi_lock { "a", "b", "c" })) end)
end

ROWS["`downgrade`"] = function(client, _, cost)
  local lock = clients.keep(assert(client:write_lock "a"))
  cost(function() assert(lock:downgrade()) end)
end

ROWS["`check`"] = function(client, _, cost)
  local lock = clients.keep(assert(client:lock "a"))
  cost(function() assert(lock:check()) end)
end

ROWS["`put`, `delete`, `txn` of any number of operations"] = function(client, _, cost)
  local lock = clients.keep(assert(client:lock "a"))
  cost(function() assert(lock:put(prefix .. "x", "1")) end)
  cost(function()
    assert(lock:txn { { "put", prefix .. "y", "1" }, { "delete", prefix .. "x" } })
  end)
  cost(function() assert(lock:delete(prefix .. "y")) end)
end

ROWS["`get`, `status` (to each member), `ping`"] = function(client, _, cost)
  local lock = clients.keep(assert(client:lock "a"))
  cost(function() assert(select("#", lock:get(prefix .. "x")) > 0) end)
  cost(function() assert(client:status()) end)
  cost(function() assert(client:ping()) end)
end

ROWS["`queue`, of up to 16 entries"] = function(client, _, cost)
  clients.keep(assert(client:lock "a"))
  cost(function() assert.equal(1, #assert(client:queue "a")) end)
end

ROWS["`queues`, of up to 16 entries"] = function(client, _, cost)
  clients.keep(assert(client:lock "a"))
  cost(function() assert.equal(1, #assert(client:queues())) end)
end

local RECORD = prefix .. "a.last-run"

ROWS["`once`, if the function runs"] = function(client, _, cost)
  etcd:del(RECORD)
  cost(function() assert(client:once("a", "ever", function() end)) end)
end

ROWS["`once`, if there is nothing to do"] = function(client, other, cost)
  assert(other:once("a", "ever", function() end) ~= nil)
  cost(function() assert.is_false((client:once("a", "ever", function() end))) end)
end

ROWS["`runs`, of up to 16 jobs"] = function(client, other, cost)
  assert(other:once("a", "ever", function() end) ~= nil)
  cost(function() assert.equal(1, #assert(client:runs())) end)
end

ROWS["`break_lock`"] = function(client, other, cost)
  local lock = clients.keep(assert(other:lock "a"))
  cost(function() assert(client:break_lock("a", lock:token())) end)
end

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
        assert(ROWS[call], "nobody runs this row")(client, other, function(run, measured)
          measured, count = measured or client, count + 1
          local before, revision = measured:stats(), etcd:revision()
          timed(run)
          assert.equal(asked, requests(before, measured:stats()))
          assert.equal(tonumber(writes), etcd:revision() - revision)
        end)
        assert.is_true(count > 0)
      end, clients.close_all)
    end)
  end

  it("every call that this file can measure", function()
    for call in pairs(ROWS) do assert.is_true(found[call], call) end
  end)
end)
