--- lua-resty-lock's calls and answers, for a lock of the whole cluster: in a
-- program that uses resty.lock, change the name in `require`. Where etcd is says the
-- environment (see etcdlock.connect), or, in the same place,
--
--   local resty_lock = require("resty.etcdlock").connect { endpoints = "10.0.0.1:2379" }
--
-- What differs: waiting is in turn and woken, not polled for (step, ratio and
-- max_step are accepted and not needed); unlock can't hit a lock that has
-- expired and is somebody else's by now; and a lock ends with the request that
-- holds it, if that hasn't unlocked it.
-- @module resty.etcdlock
local check = require "etcdlock.check"
local connect_options = require "etcdlock.connect_options"
local core = require "etcdlock.core"
local etcdlock = require "etcdlock"
local numbers = require "etcdlock.numbers"
local on_first_use = require "etcdlock.on_first_use"

local M = { _VERSION = etcdlock._VERSION, _client = etcdlock._default }
local mt = { __index = M }

local EXPTIME, TIMEOUT = 30, 5
local KEY_MAX = 256 -- bytes

--- Makes a module like this one with a client of its own, which connects with its first lock.
-- The locks of this module use the client of `etcdlock.with_lock`.
-- @tparam[opt] connect_options opts
-- @treturn resty_module its `new` makes locks of that client
-- @fail never
-- @raise for an unknown option, a wrong type
function M.connect(opts)
  if opts == M then
    check.raise "resty.etcdlock.connect: it is called with a dot, connect{…}, not with a colon"
  end
  opts = check.types("resty.etcdlock.connect", opts, connect_options.OPTIONS, {})
  return setmetatable({ _client = on_first_use(etcdlock.connect, opts) }, mt)
end

--- The options of `new`.
-- @table resty_options
-- @tfield[opt=30] seconds exptime a lock ends by itself after so many
-- @tfield[opt=5] seconds timeout the longest wait; 0 doesn't wait
-- @tfield[opt="that of `connect`"] client client an etcdlock client
-- @tfield[opt] any step not needed, as nobody polls
-- @tfield[opt] any ratio likewise
-- @tfield[opt] any max_step likewise

--- Makes a lock object: it holds one lock at a time.
-- @function resty_lock:new
-- @tparam string name what resty.lock takes for its shared dictionary: here the beginning of
--   the lock's name in etcd, NAME/KEY
-- @tparam[opt] resty_options opts
-- @treturn resty_lock
-- @fail text `bad name` and its like
function M.new(self, name, opts)
  if type(name) ~= "string" or name == "" then
    return nil, "bad name: a string was wanted"
  end
  opts = opts or {}
  local exptime = opts.exptime or EXPTIME
  if type(exptime) ~= "number" or not (exptime > 0 and exptime < math.huge) then
    return nil, "bad exptime: a finite number of seconds above 0 was wanted"
  end
  local timeout = opts.timeout
  local is_limit = type(timeout) == "number" and check.is_within(timeout, 0, math.huge)
  if timeout ~= nil and not is_limit then
    return nil, "bad timeout: 0 or more seconds were wanted"
  end
  return setmetatable({
    name = name,
    client = opts.client,
    _client = (self or M)._client,
    exptime = exptime,
    timeout = timeout and math.min(timeout, exptime) or TIMEOUT, -- as there
    held = nil,
  }, mt)
end

local function client_of(self)
  if self.client then
    return self.client
  end
  return self._client()
end

-- Is there a lock that this object took and that hasn't ended?
local function live(self)
  return self.held and self.held:held() and self.held or nil
end

-- A key that can't be a name as it is, too long or of the wrong form, stands there by
-- its digest. (Two keys of the same digest would wait for each other, no more.)
local function name_of(self, key)
  key = numbers.text(key)
  local name = self.name .. "/" .. key
  if #key > KEY_MAX or key:find "%z" or core.reserved_end("/" .. name) then
    return self.name .. "/md5/" .. ngx.md5(key)
  end
  return name
end

-- Clients that have been asked before.
local asked = setmetatable({}, { __mode = "k" })

-- What a client answers that has yet to connect. A time-out is for those who hold the
-- lock; one that is free is worth a try's time, which needn't fit into that.
local function ask_first(client, name, wanted)
  local lock, message, code = client:try_lock(name, wanted)
  asked[client] = true
  return lock, message, code
end

-- Where nginx can't wait: what is free is taken, as by resty.lock.
local function ask_at_once(client, name, wanted, refusal)
  local lock, message, code = client:try_lock(name, wanted)
  if code == "locked" then
    return nil, refusal, "context"
  end
  return lock, message, code
end

local function ask(self, client, name)
  local wanted = { timeout = self.timeout, max_hold = self.exptime, owner = self }
  if not asked[client] and self.timeout > 0 then
    local lock, message, code = ask_first(client, name, wanted)
    if code ~= "locked" then
      return lock, message, code
    end
  end
  local lock, message, code = client:lock(name, wanted)
  if code == "context" then
    return ask_at_once(client, name, wanted, message)
  end
  return lock, message, code
end

--- Takes the lock of `key`, and waits for it if need be.
-- @function resty_lock:lock
-- @tparam string key
-- @treturn seconds for which somebody else had it, 0 if nobody had
-- @fail text `timeout` (and why, if etcd is out of reach), `locked` (this object holds a lock
--   already), or a message
function M.lock(self, key)
  if not key then
    return nil, "nil key"
  elseif live(self) then
    return nil, "locked"
  end
  self.held = nil
  local client, message = client_of(self)
  if not client then
    return nil, message
  end
  local began = core.now()
  local lock, why, code = ask(self, client, name_of(self, key))
  if lock then
    self.held = lock
    return lock._core:waited() and core.now() - began or 0
  elseif code == "timeout" or code == "locked" then
    return nil, "timeout"
  elseif code == "unavailable" then
    -- Nobody can tell whether it is free. Callers know what to do after a "timeout":
    -- to serve what is stale, say.
    return nil, "timeout", why
  end
  return nil, why
end

--- Releases it.
-- @function resty_lock:unlock
-- @treturn count always 1
-- @fail text `unlocked` (nothing is held, or not any more), or a message
function M.unlock(self)
  local lock = self.held
  self.held = nil
  if not lock then
    return nil, "unlocked"
  end
  local ok, message, code = lock:unlock()
  if ok or code == "unavailable" then -- which goes on by itself
    return 1
  elseif code == "lost" or code == "not_held" or code == "closed" then
    return nil, "unlocked"
  end
  return nil, message
end

--- Lets it expire later, or sooner.
-- @function resty_lock:expire
-- @tparam[opt=exptime] seconds time from now, above 0
-- @treturn true
-- @fail text `unlocked`, or a message
function M.expire(self, time)
  local lock = live(self)
  if not lock then
    return nil, "unlocked"
  end
  time = time or self.exptime
  if type(time) ~= "number" or not (time > 0 and time < math.huge) then
    return nil, "bad time: a finite number of seconds above 0 was wanted"
  end
  if not lock:expire(time) then
    return nil, "unlocked"
  end
  return true
end

return M
