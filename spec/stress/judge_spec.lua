-- Tests that porcupine accepts a good history of the random walk (make stress), and finds a fault
-- that was planted in it. record.lua describes the history.
-- Needs: one plain member.

local write_file = require "bench.write_file"

local function hold(mode, client, token, from, ends, n)
  return {
    kind = "hold", name = "a", mode = mode, client = client, token = tostring(token), n = n,
    from = tostring(from), to = tostring(from + 2), ends = tostring(ends),
    ended = tostring(ends + 2),
  }
end

local function access(kind, client, token, value, from, more)
  local entry = {
    kind = kind, name = "a", client = client, token = tostring(token), value = value,
    from = tostring(from), to = tostring(from + 2),
  }
  for field, it in pairs(more or {}) do entry[field] = it end
  return entry
end

-- Returns a good history, in which |change|(list), if given, has changed something.
local function history(change)
  local list = {
    hold("lock", "c1", 10, 0, 20), access("read", "c1", 10, 0, 5),
    access("write", "c1", 10, 1, 10, { found = 0 }),
    hold("lock", "c1", 10, 22, 30), -- a handoff
    hold("read", "c2", 12, 31, 60), hold("read", "c3", 11, 40, 50), access("read", "c3", 11, 1, 45),
    hold("write", "c4", 13, 61, 80), access("write", "c4", 13, 2, 70, { unknown = true }),
    hold("lock", "c1", 14, 90, 110), access("read", "c1", 14, 1, 95),
    access("write", "c1", 14, 5, 100),
  }
  if change then change(list) end
  return list
end

local function judge(list)
  local lines = {}
  for i, entry in ipairs(list) do lines[i] = json.encode(entry) .. "\n" end
  local path = temporary.directory() .. "/history.jsonl"
  write_file(path, table.concat(lines))
  local out, status, err = proc.run({ "sh", "spec/stress/judge.sh", path }, { seconds = 600 })
  assert(status <= 1, err)
  return status == 0, out, err
end

local _, told, why = judge(history())
local is_missing = told:find "not judged"

local function test(text, run)
  it(text, is_missing and function() pending((why:gsub("\n$", ""))) end or run)
end

local function it_finds(text, verdict, change)
  test(text, function()
    local is_good, out = judge(history(change))
    assert.equal(verdict == nil, is_good, out)
    assert.is_truthy(out:find(verdict or "locks of a: 12 operations, linearizable", 1, true), out)
  end)
end

local LOCKS, COUNTER = "locks of a: 12 operations, NOT LINEARIZABLE", "NOT LINEARIZABLE"

describe("porcupine", function()
  it_finds("accepts a good history", nil)
  it_finds("finds two holders at once", LOCKS, function(list)
    list[4] = hold("lock", "c1", 10, 22, 39)
  end)
  it_finds("finds a writer beside a reader", LOCKS, function(list)
    list[8] = hold("write", "c4", 13, 55, 80)
  end)
  it_finds("finds a token that is not above those before", LOCKS, function(list)
    list[10] = hold("lock", "c1", 12, 90, 110)
  end)
  it_finds("finds a permit too many", "12 operations, NOT", function(list)
    for i = #list, 1, -1 do list[i] = nil end
    for i = 1, 6 do list[i] = hold("permit", "c" .. i, i, 10 * i, 10 * i + 25, 2) end
  end)
  it_finds("finds a stale read", COUNTER, function(list)
    list[7] = access("read", "c3", 11, 0, 45)
  end)
  it_finds("finds a lost write", COUNTER, function(list)
    table.insert(list, access("read", "c1", 14, 2, 105))
  end)
  it_finds("finds a late write of an earlier holder", COUNTER, function(list)
    list[9].unknown = nil
    list[11] = access("read", "c1", 14, 1, 95)
    table.insert(list, access("read", "c1", 14, 5, 105))
  end)
  test("refuses an empty history, and one that it cannot read", function()
    for reason, list in pairs {
      ["the history is empty"] = {}, ["token too long"] = { { name = ("a"):rep(100000) } },
    } do
      local is_good, _, err = judge(list)
      assert.is_false(is_good)
      assert.matches(reason, err, 1, true)
    end
  end)
  it_finds("ignores what a fault excuses", nil, function(list)
    table.insert(list, access("read", "c1", 14, 0, 105, { excused = true }))
  end)
  it_finds("accepts an unknown write that took effect", nil, function(list)
    list[11] = access("read", "c1", 14, 2, 95)
  end)
end)
