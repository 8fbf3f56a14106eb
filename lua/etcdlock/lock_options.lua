--- What a caller of lock may ask for besides a name: its options.
-- @submodule etcdlock
local check = require "etcdlock.check"

local M = {}

local LINGER_MAX = 86400

-- Seconds. There is a limit because only break_lock ends a lock delay early.
M.LOCK_DELAY_MAX = 300

--- The options of a call that takes a lock.
-- @table lock_options
-- @tfield[opt="that of `connect`"] seconds timeout how long to wait, in full, whatever
--   stands in the way; 0 tries once. None waits as long as it takes, also through an outage;
--   only where etcd has never answered this client it gives up after 5 s, with
--   `unavailable`: a wrong address is told, not waited for
-- @tfield[opt=none] seconds max_hold the lock ends by itself after so many, whatever its
--   holder does
-- @tfield[opt=none] seconds linger seconds to keep the key after the last `unlock`, up to
--   86400, unless another client queues for the name, or this one asks for it in another mode.
--   Until then any call of this client for the same kind of lock gets it with the same token
--   and without a request, over 50,000 times a second. For a lock that one process takes again
--   and again. Not together with `lock_delay`
-- @tfield[opt=0] seconds lock_delay seconds, up to 300, for which the lock stays taken after the
--   TTL if its holder crashes; after an `unlock` it is free at once
-- @tfield[opt="the running coroutine"] any owner who asks
-- @tfield[opt=none] string value of up to 4096 bytes, which `queue` shows to others
local LOCK = {
  timeout = "number",
  max_hold = "number",
  linger = "number",
  lock_delay = "number",
  owner = "any",
  value = "string",
}

-- Options that are not a lock's, and where they belong.
local ELSEWHERE = {
  ttl = "etcdlock.connect, whose lease all locks of the client share; did you mean max_hold?",
}
for field in pairs(require("etcdlock.connect_options").OPTIONS) do
  ELSEWHERE[field] = ELSEWHERE[field] or "etcdlock.connect"
end

-- What a key may say that callers choose, in bytes.
local VALUE_MAX = 4096

-- Can a key say this? True | nil, message, "invalid". Raises if it is no string.
function M.value(where, value)
  check.string(where, "value", value)
  if #value > VALUE_MAX then
    return check.invalid(where, "value", value, "at most " .. VALUE_MAX .. " bytes")
  end
  return true
end

-- Checks the options of a lock call: a table of them, and the timeout, else the given one,
-- nil for none | nil, message, "invalid".
function M.read(where, default, opts)
  opts = check.types(where, opts, LOCK, ELSEWHERE)
  local timeout = opts.timeout or default
  if timeout and not check.is_within(timeout, 0, math.huge) then
    return check.invalid(where, "timeout", timeout, "0 or more seconds")
  end
  if opts.max_hold and not (opts.max_hold > 0 and opts.max_hold < math.huge) then
    local wanted = "more than 0 seconds and not inf; leave it out for a hold without end"
    return check.invalid(where, "max_hold", opts.max_hold, wanted)
  end
  if opts.linger and not (opts.linger > 0 and opts.linger <= LINGER_MAX) then
    local wanted = "more than 0 seconds, up to " .. LINGER_MAX
    return check.invalid(where, "linger", opts.linger, wanted)
  end
  if opts.lock_delay and not check.is_within(opts.lock_delay, 0, M.LOCK_DELAY_MAX) then
    local wanted = "0 to " .. M.LOCK_DELAY_MAX .. " seconds"
    return check.invalid(where, "lock_delay", opts.lock_delay, wanted)
  end
  if opts.value then
    local ok, message, code = M.value(where, opts.value)
    if not ok then
      return nil, message, code
    end
  end
  return opts, timeout ~= math.huge and timeout or nil
end

return M
