--- The calls and results of lua-resty-lock, for a lock of the whole cluster. In a program that uses
-- resty.lock, change the name in `require`. The environment names the etcd (see etcdlock.connect),
-- or the program names it where it calls `require`:
--
--   local resty_lock = require("resty.etcdlock").connect { endpoints = "10.0.0.1:2379" }
--
-- The differences: waiters get the lock in the order in which they queued, and are woken instead of
-- polling. The options step, ratio and max_step are accepted and ignored. An unlock after the lock
-- has expired does not release the lock of the next holder. If a request ends without unlock, its
-- lock ends with it, if the lock was taken where code can wait.
-- @module resty.etcdlock
local check = require "etcdlock.check"
local connect_options = require "etcdlock.connect_options"
local core = require "etcdlock.core"
local etcdlock = require "etcdlock"
local to_string = require("etcdlock.text").to_string

local M = { _VERSION = etcdlock._VERSION, _get_client = etcdlock._default_client }
local mt = { __index = M }

local EXPTIME, TIMEOUT = 30, 5 -- seconds
local NEVER = 1e9 -- seconds: an exptime of 0 means that the lock does not end by itself
local KEY_MAX = 256 -- bytes

--- Returns a module like this one whose locks use a client of their own. That client connects with
-- its first lock. The locks of this module use the default client, as `etcdlock.with_lock` does.
-- @tparam[opt] connect_options opts
-- @treturn resty_module with `new` for locks of that client
-- @fail never
function M.connect(opts)
  if opts == M then
    check.raise "resty.etcdlock.connect: call it with a dot, connect{…}, not with a colon"
  end
  opts = check.options("resty.etcdlock.connect", opts, connect_options.OPTIONS, {})
  return setmetatable({ _get_client = etcdlock._connect_on_first_use(opts) }, mt)
end

--- The options of `new`.
-- @table resty_options
-- @tfield[opt=30] seconds exptime time after which a lock ends by itself; 0: it does not
-- @tfield[opt=5] seconds timeout time to wait; a given time is cut to `exptime`; 0 or less: do not
--   wait
-- @tfield[opt="that of the module"] client client a client of etcdlock
-- @tfield[opt] any step ignored, because waiters do not poll
-- @tfield[opt] any ratio ignored
-- @tfield[opt] any max_step ignored

local function is_time(seconds)
  return type(seconds) == "number" and seconds >= 0 and seconds < math.huge
end

--- Creates an object that can hold one lock at a time. Sends no request.
-- @function resty_lock:new
-- @tparam string name in resty.lock, the name of a shared dictionary; here, the first part of the
--   lock's name in etcd, NAME/KEY
-- @tparam[opt] resty_options opts
-- @treturn resty_lock
-- @fail text `bad name` and the like
function M.new(self, name, opts)
  if type(name) ~= "string" or name == "" then
    return nil, "bad name: a string was wanted"
  end
  opts = opts or {}
  local exptime = opts.exptime or EXPTIME
  if not is_time(exptime) then
    return nil, "bad exptime: 0 or a finite number of seconds was wanted"
  end
  local timeout = opts.timeout
  if timeout ~= nil and (type(timeout) ~= "number" or timeout ~= timeout) then
    return nil, "bad timeout: a number of seconds was wanted"
  end
  return setmetatable({
    name = name,
    client = opts.client,
    _get_client = (self or M)._get_client,
    exptime = exptime,
    -- as in resty.lock, where an exptime of 0 makes a timeout 0, too
    timeout = timeout and math.max(0, math.min(timeout, exptime)) or TIMEOUT,
    held = nil, -- the lock of the last `lock`, which may have ended
  }, mt)
end

local function get_client(self)
  if self.client then
    return self.client
  end
  return self._get_client()
end

-- Returns the lock that this object holds, or nil.
local function get_held(self)
  return self.held and self.held:held() and self.held or nil
end

-- Returns the name of a lock in etcd. A key that is too long, or not allowed in a name, is replaced
-- by its digest. Two keys with the same digest only wait for each other. Returns nil, message for
-- an empty key, and for a key that needs a digest outside of nginx, where there is none.
local function make_name(self, key)
  key = to_string(key)
  local name = self.name .. "/" .. key
  if key == "" then
    return nil, "empty key"
  elseif #key <= KEY_MAX and not key:find "%z" and not core.reserved_end("/" .. name) then
    return name
  elseif not ngx then
    return nil, "bad key: too long, or not allowed in the name of a lock"
  end
  return self.name .. "/md5/" .. ngx.md5(key)
end

-- Clients that were used before (keys).
local used = setmetatable({}, { __mode = "k" })

-- Takes a lock: lock | nil, message, code.
local function take(self, client, name)
  local opts = { timeout = self.timeout, owner = self }
  opts.max_hold = self.exptime > 0 and self.exptime or nil
  if not used[client] and self.timeout > 0 then
    -- The client may have yet to connect, which may take longer than the timeout. The timeout is
    -- meant for a wait for another holder, so a free lock gets the time of a try.
    local lock, message, code = client:try_lock(name, opts)
    used[client] = true
    if code ~= "locked" then
      return lock, message, code
    end
  end
  local lock, message, code = client:lock(name, opts)
  if code == "context" then
    -- A wait is impossible here. As in resty.lock, a free lock is taken.
    local refusal = message
    lock, message, code = client:try_lock(name, opts)
    if code == "locked" then
      return nil, refusal, "context"
    end
  end
  return lock, message, code
end

--- Takes the lock of `key`, and waits until it is free.
-- @function resty_lock:lock
-- @tparam string key
-- @treturn seconds that the call has waited for another holder; 0 if the lock was free
-- @fail text `timeout` (and the cause as a third result, if etcd is unreachable), `locked` (this
--   object holds a lock already), or another message
function M.lock(self, key)
  if not key then
    return nil, "nil key"
  elseif get_held(self) then
    return nil, "locked"
  end
  self.held = nil
  local name, problem = make_name(self, key)
  if not name then
    return nil, problem
  end
  local client, message = get_client(self)
  if not client then
    return nil, message
  end
  local started_at = core.now()
  local lock, reason, code = take(self, client, name)
  if lock then
    self.held = lock
    return lock._core:waited() and core.now() - started_at or 0
  elseif code == "timeout" or code == "locked" then
    return nil, "timeout"
  elseif code == "unavailable" then
    -- Whether the lock is free is unknown. Callers of resty.lock handle "timeout", for example by
    -- serving stale content.
    return nil, "timeout", reason
  end
  return nil, reason
end

--- Releases the lock that this object holds.
-- @function resty_lock:unlock
-- @treturn count always 1
-- @fail text `unlocked` (this object holds no lock, or the lock has expired or was lost), or
--   another message
function M.unlock(self)
  local lock = self.held
  self.held = nil
  if not lock then
    return nil, "unlocked"
  end
  local ok, message, code = lock:unlock()
  if ok or code == "unavailable" then -- then the release goes on in the background
    return 1
  elseif code == "lost" or code == "not_held" or code == "closed" then
    return nil, "unlocked"
  end
  return nil, message
end

--- Sets the time at which the lock ends by itself.
-- @function resty_lock:expire
-- @tparam[opt=exptime] seconds time time from now, `exptime` if left out; 0: the lock does not end
--   by itself
-- @treturn true
-- @fail text `unlocked`, or another message
function M.expire(self, time)
  local lock = get_held(self)
  if not lock then
    return nil, "unlocked"
  end
  time = time or self.exptime
  if not is_time(time) then
    return nil, "bad time: 0 or a finite number of seconds was wanted"
  end
  if not lock:expire(time > 0 and time or NEVER) then
    return nil, "unlocked"
  end
  return true
end

return M
