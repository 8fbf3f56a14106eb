--- An observer of an election: it tells who leads, and what he says, each once, in their
-- order, from whoever leads when its watch begins.
--
-- It has all candidates in mind, as they stood at one revision. The watch says from which
-- revision on it tells everything; they are listed as they stood then, and what is told of
-- later ones is applied, in order: so nobody is missed who leads after that, nobody is told
-- twice, and nobody after one who came later. Who leads is looked at only between two
-- revisions: those who go at once, with one lease, must not be taken for each other's
-- successors.
--
-- The first piece of news stays with the watcher until it was dealt with: whoever is ended
-- while he asks etcd leaves it to the others who ask this observer.
-- @classmod observer
-- @alias Observer
local candidates = require "etcdlock.candidates"
local check = require "etcdlock.check"
local core = require "etcdlock.core"
local coroutines = require "etcdlock.coroutines"
local host = require "etcdlock.wait.host"
local numbers = require "etcdlock.numbers"
local of_news = require "etcdlock.wait.of_news"
local quote = require("etcdlock.characters").quote

local Observer = {}
Observer.__index = Observer
Observer.__name = "etcdlock.observer"

-- All in seconds. So often one looks, whatever is heard: etcd 3.4 can swallow a deletion.
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

-- From here on these are the candidates.
local function know(self, found, revision)
  self._candidates, self._revision = found, revision
  self._has_more, self._look = false, nil
  self._look_at = core.now() + LOOK_AFTER
end

-- candidates, revision | nil, message, code. As they stood at `revision`, or now.
local function list(self, left, revision)
  local seconds = left < math.huge and math.max(left, ASK_MIN) or nil
  local found, at, code = candidates.list(self._client, self._full, seconds, revision)
  self._failure = code == "unavailable" and { at, code } or nil
  return found, at, code
end

-- As they stood at `revision`, or as near to it as etcd still knows.
local function list_from(self, left, revision)
  local found, at, code = list(self, left, revision)
  if code == "invalid" then -- compacted
    found, at, code = list(self, left)
  end
  if found and at < revision then -- by a member that is behind
    local text = "observer of election %s: etcd doesn't know yet what it has told of"
    self._failure = { text:format(quote(self._name)), "unavailable" }
    return nil, self._failure[1], self._failure[2]
  end
  return found, at, code
end

-- The watch tells what is later than `revision`. True | nil, message, code.
local function begin(self, left, revision)
  local watcher = self._watcher
  if revision < self._revision then -- that member is behind, or it is another etcd
    self._look_at = 0
    watcher:pass()
    return true
  end
  local found, at, code = list_from(self, left, revision)
  if not found then
    self._begin_at = core.now() + RETRY_AFTER
    return nil, at, code
  end
  local kind, from = watcher:first()
  if kind == "reset" and from == revision then -- nobody else has dealt with it meanwhile
    know(self, found, at)
    watcher:pass()
  end
  return true
end

-- Looks for what was swallowed. True | nil, message, code.
local function look(self, left)
  self._look_at = core.now() + RETRY_AFTER -- for others, who ask this observer meanwhile
  local found, revision, code = list(self, left)
  if not found then
    return nil, revision, code
  elseif revision >= self._revision then
    self._look = { found = found, revision = revision, ends = core.now() + NEWS_LATE }
    self._look_at = core.now() + LOOK_AFTER
  end
  return true
end

-- What the last look has found counts: what differs was swallowed, as later news have
-- come, or none at all for so long.
local function believe(self)
  know(self, self._look.found, self._look.revision)
  return true
end

-- Takes in a change, unless it is known: a list has shown it, or etcd tells it again.
local function hear(self, kind, revision, key, value, since, has_more)
  if revision > self._revision or revision == self._revision and self._has_more then
    if candidates.counts(self._full, key) then
      self._candidates[key] = kind == "put" and { key = key, value = value, since = since } or nil
    end
    self._revision, self._has_more = revision, has_more
  end
  if self._look then
    self._look.ends = core.now() + NEWS_LATE
  end
end

-- Who leads, if nobody was told so far.
local function news(self)
  local told, first = self._told, not self._has_more and candidates.first(self._candidates)
  if not first or told and told.key == first.key and told.since == first.since
    and told.value == first.value then
    return nil
  end
  self._told = first
  return first
end

-- ---- waiting ----

-- The wait for what a watcher hears: "news", or its "end".
local Heard = of_news("arm_watcher", "disarm_watcher", function(wait, seconds)
  return wait.subject:wait(wait.news, seconds)
end)

-- Waits for `what`, until `at`: true | false: time is over | nil, message, code: it can't.
local function await(self, what, at, left)
  if left <= 0 then
    return false
  end
  local client = self._client
  local message, code = client:_refusal()
  if message then
    return nil, message, code
  end
  local wait = {
    subject = self._watcher, news = what, limit = math.min(left, at - core.now()),
  }
  local heard
  heard, message, code = client:_await(Heard, wait)
  wait:disarm()
  if heard == false then
    return nil, message, code
  end
  return true
end

-- Without news.
local function idle(self, left)
  local now = core.now()
  if now >= self._look_at then
    return look(self, left)
  elseif not self._look then
    return await(self, "news", self._look_at, left)
  elseif now >= self._look.ends then
    return believe(self)
  end
  return await(self, "news", math.min(self._look_at, self._look.ends), left)
end

-- One step nearer to the next: true | false: time is over | nil, message, code.
local function step(self, left)
  local kind, revision, key, value, since, has_more = self._watcher:first()
  if kind == false then
    return nil, string.format("observer of election %s: %s", quote(self._name), revision), key
  elseif kind == nil then
    return idle(self, left)
  elseif core.now() >= self._look_at and self._revision > 0 then
    return look(self, left)
  elseif kind == "reset" and core.now() < self._begin_at then
    return await(self, "end", self._begin_at, left)
  elseif kind == "reset" then
    return begin(self, left, revision)
  elseif self._look and revision > self._look.revision then
    return believe(self)
  end
  if kind ~= "away" then -- of that, who waits hears at once
    hear(self, kind, revision, key, value, since, has_more)
  end
  self._watcher:pass()
  return true
end

-- Does it go on where a step has failed? An outage is waited out, but not an etcd that was
-- never there: an address may be wrong.
local function is_waited_out(self, code, timeout, left)
  return code == "unavailable" and not self._client._fail_fast
    and left > 0 and (timeout or self._revision > 0)
end

-- The answer when time is over.
local function timed_out(self, timeout)
  local away = self._client._core:outage()
  if away then
    return nil, string.format("observer of election %s: %s", quote(self._name), away), "unavailable"
  elseif self._revision == 0 and timeout > 0 and not self._failure then
    look(self, 0) -- no watch stands: why?
  end
  if self._failure then
    return nil, self._failure[1], self._failure[2]
  end
  local text = "election %s has had no other leader, nor word of him, within %s s"
  return nil, text:format(quote(self._name), numbers.format("%g", timeout)), "timeout"
end

--- Waits for the next who leads, or the next thing that he says. Several coroutines may ask
-- one observer: each gets another leader.
-- @tparam[opt] seconds timeout how long at most; 0: only what is known by then, for which etcd
--   may be asked who stands there, 0.2 s long; nil: as long as it takes, through an outage,
--   but not for an etcd that has never answered
-- @treturn string what he says
-- @treturn string his key
-- @treturn token of his lead
-- @fail timeout, unavailable, closed, denied, conflict, forked, context, premature: after
--   `unavailable` (etcd is out of reach) the next call goes on
-- @raise for a wrong type
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
    elseif ok == false or ok and left < -ASK_MIN then -- there may always be news
      return timed_out(self, timeout)
    elseif not ok and not is_waited_out(self, code, timeout, ends - core.now()) then
      return nil, message, code
    end
  end
end

-- For `for value, key, token in observer do`: the same. The loop ends with the observer
-- (closed), or with the worker (premature); whatever else ends it is raised.
function Observer:__call()
  if not coroutines.crosses and host.loop(self._client._wakeups.chosen) then
    check.raise("observer: a for loop can't wait here in Lua 5.1, wanted observer:next()")
  end
  local value, key, since = self:next()
  if value == nil and since ~= "closed" and since ~= "premature" then
    check.raise(key)
  end
  return value, key, since
end

--- Closes it: it tells nothing but `closed` any more, also to whoever waits for it. May be
-- repeated. Lua 5.4 closes it at the end of `for … in election:observe() do`, also by `break`;
-- else an observer that was dropped is closed when Lua collects it.
-- @treturn true
-- @fail never
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
  return string.format("etcdlock.observer %s", quote(self._name))
end

check.methods(Observer, "observer")

-- For election:observe. Where it can't begin, next tells why.
function Observer.new(client, name, full)
  local watcher, message, code = client._core:watch(full .. "/")
  return setmetatable({
    _client = client,
    _name = name,
    _full = full,
    _watcher = watcher,
    _message = message, -- without a watcher: why
    _code = code,
    _candidates = {}, -- by key,
    _revision = 0, -- as they stood at this one; 0: it isn't known yet who they are
    _has_more = false, -- of that revision, to come
    _told = nil, -- the candidate
    _begin_at = 0, -- not before that a list is asked for that has failed
    _failure = nil, -- of the last list that etcd was asked for: message, code
    _look_at = core.now() + FIRST_AFTER, -- when all are to be looked at
    _look = nil, -- what that has found, and may be on its way still
  }, Observer)
end

return Observer
