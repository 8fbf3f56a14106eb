--- The forms in which one asks for a lock of any kind: to wait for it, to try, to run a
-- function under it, and to begin without waiting. What is asked for is a `wish`; see
-- acquire.lua.
local acquire = require "etcdlock.acquire"
local check = require "etcdlock.check"
local finally = require "etcdlock.finally"
local host = require "etcdlock.wait.host"

local M = {}

M.wait = acquire.wait
M.start = acquire.start

--- Without waiting for others.
function M.try(self, where, wish, opts)
  local tried = { timeout = 0 }
  if type(opts) == "table" then
    for field, value in pairs(opts) do
      if field ~= "timeout" then
        tried[field] = value
      end
    end
  elseif opts ~= nil then
    tried = opts -- which acquire refuses
  end
  return acquire.wait(self, where, wish, tried)
end

--- What with answers after the function has returned `results`. That it has run is
-- told in any case: whoever tries again would do its work twice.
local function conclude(results, unlocked, message, code)
  local list = table.unpack or unpack -- luacheck: ignore unpack
  -- Held until unlock began, but etcd hasn't confirmed the release: what ran
  -- under the lock ran under it.
  if unlocked or code == "unavailable" then
    return true, list(results, 1, results.n)
  end
  return nil, message, code, true, list(results, 1, results.n)
end

local function pack(...)
  return { n = select("#", ...), ... }
end

--- Runs fn(lock) while the lock is held, and releases it however fn ends. An error in
-- fn is raised again, the same object.
-- @return true, fn's results | nil, message, code: as for lock, and then fn was not
--   run | nil, message, code, true, fn's results: it ran, but the lock was lost
--   before it was done ("lost"), or can't be released ("denied", "closed", ...)
function M.with(self, where, wish, opts, fn)
  if fn == nil then
    opts, fn = nil, opts
  end
  check.callable(where, "fn", fn)
  local lock, message, code = acquire.wait(self, where, wish, opts)
  if not lock then
    return nil, message, code
  end
  -- On the stack for as long as fn runs, whatever that is.
  local function within()
    local results = pack(fn(lock))
    return results
  end
  local is_outermost = lock:count() == 1
  if is_outermost then
    lock._run = host.run(within)
  end
  local unlocked, why, why_code
  local results = finally.run(function()
    if is_outermost then
      lock._run = nil
    end
    unlocked, why, why_code = lock:unlock()
  end, within)
  return conclude(results, unlocked, why, why_code)
end

--- Gives `class`, whose objects are called `noun`, the four forms of the method `name`:
-- name, try_name, with_name (or what `with_name` is) and name_async. What they are called
-- with goes to prepare, which returns the client, the wish, and the rest: opts, fn.
function M.add(class, noun, name, prepare, with_name)
  local function add(method, form)
    local where = noun .. ":" .. method
    local function ask(client, ...)
      return form(client, where, ...)
    end
    class[method] = function(...)
      return ask(prepare(...))
    end
  end
  add(name, M.wait)
  add("try_" .. name, M.try)
  add(with_name or "with_" .. name, M.with)
  add(name .. "_async", M.start)
end

return M
