--- An observer of an election: it tells who leads, and what he says, each once, in their
-- order, from whoever leads when it is asked for the first time.
--
-- It has all candidates in mind. Where etcd may have told something that wasn't heard (a
-- watch that begins, or begins anew), they are listed, and what is told of earlier
-- revisions is passed over. Who leads is looked at only between two revisions: those who
-- go at once, with one lease, must not be taken for each other's successors.
local candidates = require "etcdlock.candidates"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local host = require "etcdlock.wait.host"

local Observer = {}
Observer.__index = Observer
Observer.__name = "etcdlock.observer"

-- All in seconds. When nothing was heard for so long, one looks: etcd 3.4 can swallow a
-- deletion.
local LOOK_AFTER = 10
-- If the look shows what was not heard of, that may be on its way for so long.
local NEWS_LATE = 1
-- A new watch isn't waited for longer before etcd is asked what is wrong.
local FIRST_AFTER = 1
-- etcd is asked again so long after it has failed to answer,
local RETRY_AFTER = 0.5
-- and given at least so long.
local ASK_MIN = 0.2

-- ---- what is known ----

--- May something have happened that wasn't told?
local function is_stale(self)
  return self._listed_for < self._resets
end

local function is_same(a, b)
  return (a and a.key) == (b and b.key) and (a and a.changed) == (b and b.changed)
end

--- Takes over what was found, unless whoever else asks this observer knows more. Where it
-- has only been quiet, and something is found all the same, that may be about to be told.
local function take_over(self, found, revision, was_stale)
  local now = core.now()
  if revision < math.max(self._listed, self._seen) then
    self._ask_at = now + NEWS_LATE
  elseif was_stale or self._is_doubtful
    or is_same(candidates.first(found), candidates.first(self._candidates)) then
    self._candidates, self._listed = found, revision
    self._ask_at, self._is_doubtful = now + LOOK_AFTER, false
  else
    self._ask_at, self._is_doubtful = now + NEWS_LATE, true
  end
end

--- Lists the candidates: true | nil, message, code.
local function ask(self, left)
  local resets, was_stale = self._resets, is_stale(self)
  local seconds = left < math.huge and math.max(left, ASK_MIN) or nil
  local found, revision, code = candidates.list(self._client, self._full, seconds)
  if not found then
    self._ask_at = core.now() + RETRY_AFTER
    return nil, revision, code
  end
  take_over(self, found, revision, was_stale)
  self._listed_for = math.max(self._listed_for, resets)
  return true
end

local function hear_change(self, kind, key, value, since, revision)
  if revision > self._listed and candidates.counts(self._full, key) then
    self._candidates[key] = kind == "put"
      and { key = key, value = value, since = since, changed = revision } or nil
    self._seen = revision
  end
end

--- Takes one piece of news: true | false: there is none | nil, message, code: the end.
local function hear(self)
  local kind, key, value, since, revision, has_more = self._watcher:take()
  if kind == nil then
    return false
  elseif kind == false then
    return nil, string.format("observer of election %q: %s", self._name, key), value
  end
  self._has_more, self._is_doubtful = has_more, false
  if kind == "reset" then
    self._resets = self._resets + 1
  elseif kind ~= "away" then -- of that, who waits hears at once
    hear_change(self, kind, key, value, since, revision)
  end
  self._ask_at = is_stale(self) and 0 or core.now() + LOOK_AFTER
  return true
end

--- Who leads, if nobody was told so far.
local function news(self)
  local told = self._told
  local first = not self._has_more and not is_stale(self) and candidates.first(self._candidates)
  if not first or told and told.key == first.key and told.since == first.since
    and told.value == first.value then
    return nil
  end
  self._told = first
  return first
end

-- ---- waiting ----

--- Why one can't wait here, or needn't: message, code.
local function refusal(client)
  local message, code = host.refusal(client._wakeups.chosen)
  if not message then
    message, code = client:_outage()
  end
  return message, code
end

--- Waits for news, so many seconds at most; why it can't: message, code.
local function await_news(self, seconds)
  local client, watcher, armed = self._client, self._watcher, nil
  local function disarm()
    if armed then
      client._core:disarm_watcher(watcher, armed)
    end
  end
  local heard, message, code = client:_await {
    poll = function(slice)
      return watcher:wait(slice)
    end,
    arm = function(number)
      disarm()
      armed = number
      return client._core:arm_watcher(watcher, number)
    end,
    losses = client._losses,
    limit = seconds,
    ends_early = true,
  }
  disarm()
  if heard == false then
    return message, code
  end
end

--- One step nearer to the next: true | false: time is over | nil, message, code.
local function step(self, left)
  local heard, message, code = hear(self)
  if heard ~= false then
    return heard, message, code
  end
  local now, at = core.now(), self._ask_at
  if now >= at then
    return ask(self, left)
  elseif left <= 0 then
    return false
  end
  message, code = refusal(self._client)
  if not message then
    message, code = await_news(self, math.min(left, at - now))
  end
  if message then
    return nil, message, code
  end
  return true
end

--- Does it go on where a step has failed? An outage is waited out, but not an etcd that was
-- never there: an address may be wrong.
local function is_waited_out(self, code, timeout, left)
  return code == "unavailable" and not self._client._fail_fast
    and left > 0 and (timeout or self._listed > 0)
end

--- The answer when time is over.
local function timed_out(self, timeout)
  local away = self._client._core:outage()
  if away then
    return nil, string.format("observer of election %q: %s", self._name, away), "unavailable"
  end
  local is_there, message, code = true, nil, nil
  if self._resets == 0 then -- nothing was heard at all
    is_there, message, code = ask(self, 0)
  end
  if not is_there then
    return nil, message, code
  end
  local text = "election %q has had no other leader, nor word of him, within %g s"
  return nil, text:format(self._name, timeout), "timeout"
end

--- The next who leads, or the next thing that he says. Several may ask one observer: each
-- gets another one.
-- @param timeout seconds to wait; 0: only what is known; nil: as long as it takes, but not
--   for an etcd that has never answered
-- @return what he says, his key, its create_revision (his token) | nil, message, code:
--   "timeout", "unavailable" (the next call goes on), "closed", "denied", "forked",
--   "conflict" (another cluster answers), "context", "premature" (in a timer of a worker of
--   nginx that exits)
function Observer:next(timeout)
  check.seconds("observer:next", "timeout", timeout)
  local usable, message, code = self._client._core:usable()
  if not self._watcher then
    return nil, self._message, self._code
  elseif not usable and code == "forked" then
    return nil, message, code
  end
  local ends = core.now() + (timeout or math.huge)
  while true do
    local ok
    local left = ends - core.now()
    ok, message, code = step(self, left)
    local first = ok and news(self)
    if first then
      return first.value, first.key, first.since
    elseif ok == false then
      return timed_out(self, timeout)
    elseif not ok and not is_waited_out(self, code, timeout, left) then
      return nil, message, code
    end
  end
end

--- For `for value, key, token in observer do`: the same. Where it can't wait, the loop
-- doesn't end in silence, but raises.
function Observer:__call()
  if not coroutines.crosses and host.loop(self._client._wakeups.chosen) then
    check.raise("observer: a for loop can't wait here in Lua 5.1, wanted observer:next()")
  end
  local value, key, since = self:next()
  if value == nil and since == "context" then
    check.raise("observer: " .. key)
  end
  return value, key, since
end

--- It tells nothing any more: "closed", also to whoever waits for it. Idempotent. One that
-- is dropped is closed when Lua collects it.
function Observer:close()
  if self._watcher and self._client._core:usable() then
    self._watcher:close()
  end
  return true
end

function Observer:__close()
  self:close()
end

function Observer:__tostring()
  return string.format("etcdlock.observer %q", self._name)
end

check.methods(Observer, "observer")

--- For election:observe. Where it can't begin, next tells why.
function Observer.new(client, name, full)
  local watcher, message, code = client._core:watch(full .. "/")
  return setmetatable({
    _client = client,
    _name = name,
    _full = full,
    _watcher = watcher,
    _message = message, -- without a watcher: why
    _code = code,
    _candidates = {},
    _listed = 0, -- the revision of the list that they are based on,
    _seen = 0, -- and of the last change since
    _resets = 0, -- how often something may have been missed,
    _listed_for = 0, -- and for how many of these they were listed
    _has_more = false, -- of the last change's revision
    _told = nil, -- the candidate
    _ask_at = core.now() + FIRST_AFTER, -- when etcd is to be asked
    _is_doubtful = false, -- the last look has shown what was not heard of
  }, Observer)
end

return Observer
