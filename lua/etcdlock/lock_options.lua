--- The options of a call that takes a lock.
-- @submodule etcdlock
local check = require "etcdlock.check"

local M = {}

local LINGER_MAX = 86400 -- seconds
local VALUE_MAX = 4096 -- bytes

--- The options of a call that takes a lock.
-- @table lock_options
-- @tfield[opt="that of `connect`"] seconds timeout time to wait, 0 or more. 0: try once, which
--   takes up to 2 s if etcd does not answer. `math.huge`: no limit. With a limit, the call waits
--   that long even if etcd is unreachable. Without one, it waits for ever, unless etcd has never
--   answered this client. Then it fails with `unavailable`: after 5 s or later, when it is known
--   why no endpoint can be reached (connections are refused, for example), at the latest after
--   30 s. With and without a limit, it fails with `unavailable` if etcd's answers
--   [take too long](production.md#how-slow-etcd-may-be) for the TTL, and in an outage if the client
--   has the option `fail_fast`
-- @tfield[opt="no limit"] seconds max_hold time after the grant, more than 0, at which the hold
--   ends by itself. The next waiter then gets the lock, even if the holder still works. If the
--   process is stopped (SIGSTOP) at that time, the next waiter gets the lock when the process goes
--   on (its `held()` then returns false), or when the lease has ended
-- @tfield[opt=none] seconds linger time to keep the lock for this client after each last `unlock`,
--   up to 86400. Until then, the client takes the lock again with the same token and without a
--   request. If another client wants the lock, or this client wants it in another mode, the key
--   does not linger: the client deletes it at once, or after the present hold. If a proxy holds
--   messages back, the client learns of the other client after about a third of the TTL. A
--   lingering lock costs a read every third of the TTL. Not with a [lock delay](#lock-delay)
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

-- Options that lock calls do not take, each with the call to use instead, for messages.
local ELSEWHERE = {
  ttl = "etcdlock.connect, because all locks of a client share a lease, which the client renews",
  on_lost = "lock:on_lost; write lock:on_lost(fn)",
  delay = "etcdlock.connect, which calls it lock_delay",
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

local OPTIONS = M.OPTIONS

-- Field of a lock (lock.lua) for each option.
local FIELDS = {}
for name in pairs(OPTIONS) do
  FIELDS[name] = "_" .. name
end
FIELDS.owner = "_given_owner"

-- Mode that does not allow the option `linger` -> the text that follows "wanted" in the message.
local NO_LINGER = {
  permit = "none: a permit cannot linger",
  multi = "none: a multi-lock cannot linger",
  leader = "none: a leadership cannot linger",
}

-- The text after "wanted" for a call with `linger` by a client with a lock delay. If the client
-- crashed while the key of a released lock lingered, the lock delay would begin, and block other
-- clients although the lock is free.
local NO_LINGER_WITH_DELAY = "none for a client with a lock_delay: a released lock would block"
  .. " others after a crash"

-- Returns true if `lock` allows the options `opts`; otherwise nil, message, "invalid".
local function check_mode(where, lock, opts)
  local wanted = opts.linger and (NO_LINGER[lock._mode]
    or lock._client._lock_delay > 0 and NO_LINGER_WITH_DELAY)
  if wanted then
    return check.invalid(where, "linger", opts.linger, wanted)
  elseif opts.value and lock._mode == "leader" then
    return check.invalid(where, "value", opts.value, "none: a leader's value is an argument")
  end
  return true
end

-- Raises an error that describes what is wrong with the options `opts`.
local function raise(where, opts)
  check.options(where, opts, OPTIONS, ELSEWHERE)
end

-- Copies the options `opts` of a lock call to the fields of `lock`; a try ignores `timeout`.
-- Returns true. If a value is not allowed, returns nil, message, "invalid". Raises for an unknown
-- option or a wrong type.
function M.read(where, lock, opts)
  if type(opts) ~= "table" then
    raise(where, opts)
  end
  local is_try, refused = lock._timeout == 0, nil
  for field, value in pairs(opts) do
    local option = OPTIONS[field]
    if is_try and field == "timeout" then
      value = 0
    elseif not option or option.type and type(value) ~= option.type then
      raise(where, opts)
    elseif option.is_valid and not option.is_valid(value) then
      -- the first one in alphabetical order, so that each run reports the same
      refused = refused and refused < field and refused or field
    end
    lock[FIELDS[field]] = value
  end
  if refused then
    return check.value(where, refused, opts[refused], OPTIONS[refused])
  end
  return check_mode(where, lock, opts)
end

return M
