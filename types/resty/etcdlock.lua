---@meta resty.etcdlock
-- Made by `make doc` from the docstrings in lua/: change those.

---The options of `new`.
---@class (exact) resty.etcdlock.Options
---@field exptime? etcdlock.seconds time after which a lock ends by itself; 0: it does not (default: 30)
---@field timeout? etcdlock.seconds time to wait, at most `exptime`; 0 or less: do not wait (default: 5)
---@field client? etcdlock.Client a client of etcdlock (default: that of `connect`)
---@field step? any ignored, because waiters do not poll
---@field ratio? any ignored
---@field max_step? any ignored

---@class resty.etcdlock.Lock
local resty_lock = {}

---Creates an object that can hold one lock at a time. Sends no request.
---Fails with text `bad name` and the like.
---@param name string in resty.lock, the name of a shared dictionary; here, the first part of the lock's name in etcd, NAME/KEY
---@param opts? resty.etcdlock.Options
---@return resty.etcdlock.Lock|nil
---@return string|nil message
---@nodiscard
function resty_lock:new(name, opts) end

---Takes the lock of `key`, and waits until it is free.
---Fails with text `timeout` (and the cause as a third result, if etcd is unreachable), `locked`
---(this object holds a lock already), or another message.
---@param key string
---@return etcdlock.seconds|nil
---@return string|nil message
---@nodiscard
function resty_lock:lock(key) end

---Releases the lock that this object holds.
---Fails with text `unlocked` (this object holds no lock, or the lock has ended), or another
---message.
---@return integer|nil
---@return string|nil message
function resty_lock:unlock() end

---Sets the time at which the lock ends by itself.
---Fails with text `unlocked`, or another message.
---@param time? etcdlock.seconds time from now; 0: the lock does not end by itself
---@return true|nil
---@return string|nil message
---@nodiscard
function resty_lock:expire(time) end

---@class resty.etcdlock : resty.etcdlock.Lock
local M = { _VERSION = "" }

---Returns a module like this one whose locks use a client of their own. That client connects with
---its first lock. The locks of this module use the default client, that of `etcdlock.with_lock`.
---@param opts? etcdlock.ConnectOptions
---@return resty.etcdlock
function M.connect(opts) end

return M
