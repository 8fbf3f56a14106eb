-- Checks the flash sale example.

local assert = require "luassert"
local uv = require "luv"

local M = {}

-- Fails unless all lines of the table in |out| end in the same column.
function M.assert_columns(out)
  local heading = assert(out:match "\n( +without lock[^\n]*)\n", out)
  for line in out:match("without lock  with lock[^\n]*\n(.-)\n\n"):gmatch "[^\n]+" do
    assert.equal(#heading, #line, out)
  end
end

-- Fails unless |out| is the output of a flash sale of |items| items to |customers| customers, with
-- a TTL of |ttl|, that oversold without the lock and did not oversell with it.
function M.assert_sold(out, customers, items, ttl)
  local function assert_row(name, unlocked, locked)
    assert.matches(("\n  %s +%d +%d +%d\n"):format(name, unlocked, locked, locked), out)
  end
  local sold = tonumber(out:match '\n  told "sold" +(%d+)')
  assert.is_true(sold > items, out)
  assert_row('told "sold"', sold, items)
  assert_row('told "sold out"', customers - sold, customers - items)
  assert_row("oversold", sold - items, 0)
  assert_row("errors", 0, 0)
  assert_row("left in stock", out:match "\n  left in stock +(%d+)", 0)
  M.assert_columns(out)
  assert.matches("Two customers bought item %d+, one from worker %d+, one from worker %d+", out)
  assert.matches("Worker %d+, which held the lock, was killed", out)
  -- The lock is free when the lease of the killed worker ends. A part of the TTL was over before
  -- the worker was killed.
  local seconds = out:match "next worker got the lock (%S+) s later"
  assert.is_true(tonumber(seconds) >= ttl / 2, out)
  assert.matches('\n  %- [^\n]* sell%(%)\n  %+ [^\n]* client:with_lock%("[^\n]*, sell%)\n$', out)
  assert.is_nil(out:find "[\r\27]")
end

-- Returns the number of processes that write their standard error to a file below |directory|: all
-- processes that an example starts by flash_sale/stage.lua. (The command lines and environments of
-- nginx workers do not contain |directory|.)
function M.count_processes(directory)
  local count, scan = 0, assert(uv.fs_scandir "/proc")
  for pid in function() return uv.fs_scandir_next(scan) end do
    local file = pid:find "^%d+$" and uv.fs_readlink("/proc/" .. pid .. "/fd/2")
    if file and file:find(directory, 1, true) then count = count + 1 end
  end
  return count
end

-- Fails if a process or a file of an example is left whose TMPDIR was |directory|.
function M.assert_nothing_left(directory)
  assert.equal(0, M.count_processes(directory))
  assert.is_nil(uv.fs_scandir_next(uv.fs_scandir(directory)), "it left files")
end

return M
