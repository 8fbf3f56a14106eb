--- The options of a call that takes a lock.
-- @submodule etcdlock
local check = require "etcdlock.check"

local M = {}

local LINGER_MAX = 86400 -- seconds
local VALUE_MAX = 4096 -- bytes

--- The options of a call that takes a lock.
-- @table lock_options
-- @tfield[opt="that of `connect`"] seconds timeout time to wait, 0 or more; 0: try once, which
--   takes up to 2 s if etcd does not answer; `math.huge`: no limit. With a limit, the call waits
--   that long even if etcd is unreachable. Without a limit, it fails with `unavailable` after 5 s
--   if etcd has never answered this client
-- @tfield[opt="no limit"] seconds max_hold time after the grant, more than 0, at which the hold
--   ends by itself. The next waiter then gets the lock, even if the holder still works
-- @tfield[opt=none] seconds linger time to keep the lock for this client after each last `unlock`,
--   up to 86400. Until then, the client takes the lock again with the same token and without a
--   request. If another client wants the lock, or this client wants it in another mode, the client
--   deletes the key as soon as it is not held: normally at once, at the latest after a third of the
--   TTL. A lingering lock costs a read every third of the TTL. Not for a client with a
--   `lock_delay`
-- @tfield[opt="the running coroutine"] any owner value that identifies the owner of the hold within
--   this client. Calls with the same owner get the same hold, but each call for a permit of a
--   semaphore gets another permit
-- @tfield[opt=none] string value text of up to 4096 bytes that `client:queue` shows to all clients
M.OPTIONS = {
  timeout = {
    type = "number", is_valid = check.within(0, math.huge), wanted = "0 or more seconds",
    aliases = { "wait_timeout", "lock_timeout", "timeout_seconds", "wait" },
  },
  max_hold = {
    type = "number",
    aliases = { "exptime", "expire", "expires", "ex", "px", "ttl_seconds", "ttl_s" },
    hint = "the client renews its locks; max_hold limits the time of a hold",
    is_valid = function(seconds)
      return seconds > 0 and seconds < math.huge
    end,
    wanted = "more than 0 seconds and not inf; leave it out for a hold without end",
  },
  linger = {
    type = "number",
    is_valid = function(seconds)
      return seconds > 0 and seconds <= LINGER_MAX
    end,
    wanted = "more than 0 seconds, up to " .. LINGER_MAX,
  },
  owner = {},
  value = {
    type = "string",
    is_valid = function(value)
      return #value <= VALUE_MAX
    end,
    wanted = "at most " .. VALUE_MAX .. " bytes",
  },
}

local NAMES = check.sorted_keys(M.OPTIONS)

-- Options that lock calls do not take, each with the call to use instead, for messages.
local ELSEWHERE = {
  ttl = "etcdlock.connect, because all locks of a client share a lease, which the client renews",
  on_lost = "lock:on_lost; write lock:on_lost(fn)",
  permits = "client:semaphore; call client:semaphore(name, n):lock()",
  shared = "etcdlock run; call client:read_lock(name)",
}
for field in pairs(require("etcdlock.connect_options").OPTIONS) do
  ELSEWHERE[field] = ELSEWHERE[field] or "etcdlock.connect"
end

-- Checks the value that a leader publishes. Returns true; or nil, message, "invalid" if the value
-- is too long. Raises if the value is not a string.
function M.check_value(where, value)
  check.string(where, "value", value)
  return check.value(where, "value", value, M.OPTIONS.value)
end

-- Checks the options `opts` of a lock call. Returns the table of options, and the timeout in
-- seconds (nil: no limit), which is `default` if the options contain none. If a value is not
-- allowed, returns nil, message, "invalid". Raises for an unknown option or a wrong type.
function M.read(where, default, opts)
  opts = check.options(where, opts, M.OPTIONS, ELSEWHERE)
  for i = 1, #NAMES do
    local field = NAMES[i]
    if opts[field] ~= nil then
      local ok, message, code = check.value(where, field, opts[field], M.OPTIONS[field])
      if not ok then
        return nil, message, code
      end
    end
  end
  local timeout = opts.timeout or default
  return opts, timeout ~= math.huge and timeout or nil
end

return M
