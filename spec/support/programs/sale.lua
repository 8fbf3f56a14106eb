-- Checks the output of the flash sale examples.

local assert = require "luassert"

local M = {}

-- Fails unless all lines of the table in |out| end in the same column.
function M.assert_columns(out)
  local heading = assert(out:match "\n( +without lock[^\n]*)\n", out)
  for line in out:match("without lock  with lock[^\n]*\n(.-)\n\n"):gmatch "[^\n]+" do
    assert.equal(#heading, #line, out)
  end
end

-- Fails unless |out| is the output of a sale of |items| items to |requests| requests that oversold
-- without the lock and did not oversell with it. If |out| has a third column, for a sale in which a
-- holder is killed, that sale must not oversell either. Returns the function row(name), which
-- returns the list of the row's numbers.
function M.assert_sold(out, requests, items)
  local function row(name)
    local unlocked, locked, killed = out:match("\n  " .. name .. " +(%d+) +(%d+) *(%d*)\n")
    return { tonumber(unlocked), tonumber(locked), tonumber(killed) }
  end
  local sold = row 'told "sold"'
  assert.is_true(sold[1] > items, out)
  local function assert_row(name, unlocked, locked)
    assert.same({ unlocked, locked, sold[3] and locked }, row(name), name)
  end
  assert_row('told "sold"', sold[1], items)
  assert_row('told "sold out"', requests - sold[1], requests - items)
  assert_row("oversold", sold[1] - items, 0)
  assert_row("errors", 0, 0)
  assert_row("left in stock", row "left in stock"[1], 0)
  return row
end

return M
