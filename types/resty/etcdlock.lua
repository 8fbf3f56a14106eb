---@meta resty.etcdlock
-- Made by `make doc` from the docstrings in lua/: change those.

---The options of `new`.
---@class (exact) resty.etcdlock.Options
---@field exptime? etcdlock.seconds a lock ends by itself after so many (default: 30)
---@field timeout? etcdlock.seconds the longest wait; 0 doesn't wait (default: 5)
---@field client? etcdlock.Client an etcdlock client (default: that of `connect`)
---@field step? any not needed, as nobody polls
---@field ratio? any likewise
---@field max_step? any likewise

---@class resty.etcdlock.Lock
local resty_lock = {}

---Makes a lock object: it holds one lock at a time.
---Fails with text `bad name` and its like.
---@param name string what resty.lock takes for its shared dictionary: here the beginning of the lock's name in etcd, NAME/KEY
---@param opts? resty.etcdlock.Options
---@return resty.etcdlock.Lock|nil
---@return string|nil message
function resty_lock:new(name, opts) end

---Takes the lock of `key`, and waits for it if need be.
---Fails with text `timeout` (and why, if etcd is out of reach), `locked` (this object holds a lock
---already), or a message.
---@param key string
---@return etcdlock.seconds|nil
---@return string|nil message
function resty_lock:lock(key) end

---Releases it.
---Fails with text `unlocked` (nothing is held, or not any more), or a message.
---@return integer|nil
---@return string|nil message
function resty_lock:unlock() end

---Lets it expire later, or sooner.
---Fails with text `unlocked`, or a message.
---@param time? etcdlock.seconds from now, above 0
---@return true|nil
---@return string|nil message
function resty_lock:expire(time) end

---@class resty.etcdlock : resty.etcdlock.Lock
local M = { _VERSION = "" }

---Makes a module like this one with a client of its own, which connects with its first lock. The
---locks of this module use the client of `etcdlock.with_lock`.
---Raises for an unknown option, a wrong type.
---@param opts? etcdlock.ConnectOptions
---@return resty.etcdlock
function M.connect(opts) end

return M
