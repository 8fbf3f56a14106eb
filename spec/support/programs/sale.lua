-- What both flash sales must print.

local assert = require "luassert"

local M = {}

-- Fails unless |out| is that of a sale of |items| under |requests| that oversold
-- without the lock and not with it; |left| is its name for the stock that is
-- left. Returns row(name): the two figures of that row.
function M.assert_sold(out, requests, items, left)
  local function row(name)
    local unlocked, locked = out:match("\n  " .. name .. " +(%d+) +(%d+)\n")
    return { tonumber(unlocked), tonumber(locked) }
  end
  local sold = row 'told "sold"'
  assert.is_true(sold[1] > items, out)
  assert.equal(items, sold[2])
  assert.same({ requests - sold[1], requests - items }, row 'told "sold out"')
  assert.same({ sold[1] - items, 0 }, row "oversold")
  assert.same({ 0, 0 }, row "errors")
  assert.equal(0, row(left)[2])
  return row
end

return M
