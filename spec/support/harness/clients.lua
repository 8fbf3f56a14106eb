-- The clients of a test, and what their calls answer.

local assert = require "luassert"
local etcdlock = require "etcdlock"

local M = {}

local open, kept = {}, {}

-- |defaults| with |changes| (false: none) to them.
function M.with(defaults, changes)
  local opts = {}
  for name, value in pairs(defaults) do opts[name] = value end
  for name, value in pairs(changes or {}) do opts[name] = value or nil end
  return opts
end

-- connect(changes), for clients with these options (a table, or a function that
-- returns one). close_all ends them.
function M.connector(defaults)
  return function(changes)
    local opts = type(defaults) == "function" and defaults() or defaults
    local client = assert(etcdlock.connect(M.with(opts, changes)))
    open[#open + 1] = client
    return client
  end
end

-- |lock|, which a test holds but doesn't name: dropped, it would be released.
function M.keep(lock)
  kept[#kept + 1] = lock
  return lock
end

-- For after_each.
function M.close_all()
  kept = {}
  for i = #open, 1, -1 do
    open[i]:close()
    open[i] = nil
  end
end

-- What a call answered is a failure with |code|; returns its message.
function M.assert_fails(code, ok, message, got, ...)
  assert.is_nil(ok)
  assert.equal(code, got, message)
  assert.is_string(message)
  assert.equal(0, select("#", ...))
  return message
end

return M
