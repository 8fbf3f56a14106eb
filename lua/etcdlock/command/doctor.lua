--- etcdlock doctor: is all well with etcd, and if not, what is to be done?
local uv = require "luv"
local connect_options = require "etcdlock.connect_options"
local core = require "etcdlock.core"
local etcdlock = require "etcdlock"
local exit = require "etcdlock.command.exit"
local numbers = require "etcdlock.numbers"
local quote = require("etcdlock.characters").quote
local remedies = require "etcdlock.command.remedies"
local settings = require "etcdlock.command.settings"
local texts = require "etcdlock.command.texts"
local view = require "etcdlock.command.view.doctor"

-- The lock that is taken to see whether locks can be taken.
local NAME = "etcdlock-doctor"
local LOCK_WAIT = 5 -- seconds
-- Seconds: for how long the second client waits before the release, and then for the lock. Behind
-- an etcd grpc-proxy it gets the lock 6 to 10 s after the release.
local WAIT_FIRST, WAKE_WAIT = 0.3, 3
-- From so many other keys below a lock's name on they are reported, for so many names at most.
local MANY_KEYS, NAMES_SHOWN = 1000, 5

-- ---- the settings ----

--- Of each setting its value, and where it came from; true if they make sense.
local function look_at_settings(args)
  view.head "Settings"
  local opts = settings.options(args)
  local known, message = connect_options.read(opts)
  if not known then
    view.wrong(texts.of_module(message), remedies.of_message(message))
    return nil
  end
  view.settings(known, args)
  return known
end

-- ---- the members ----

--- Asks all twice, so that the first connection is in no round trip.
local function ask(client)
  local members, message, code = client:status()
  if not members then
    return nil, message, code
  end
  return client:status()
end

--- How a member that has answered was asked.
local function look_at_transport(member, known)
  if member.transport == "tls" then
    view.good(("%s: TLS, verified with %s%s"):format(member.endpoint,
      known.cacert or "this system's CAs", known.cert and "; we show " .. known.cert or ""))
  elseif member.transport == "local" then
    view.good(member.endpoint .. ": plain text, which doesn't leave this machine")
  else
    view.note(member.endpoint .. ": plain text, which all on the way can read and change")
  end
end

--- What is wrong with one that has answered.
local function look_at_one(member)
  if not member.problems[1] then
    view.good(member.endpoint .. ": no alarm")
  end
  for _, problem in ipairs(member.problems) do
    view.wrong(member.endpoint .. ": " .. problem, remedies.of_message(problem))
  end
  if member.is_learner then
    view.wrong(member.endpoint .. ": it is a learner, which serves no clients",
      "promote it (etcdctl member promote), or leave it out of --endpoints")
  end
  local known_bug = remedies.of_version(member.version)
  if known_bug then
    view.note(member.endpoint .. ": etcd " .. member.version .. " " .. known_bug)
  end
end

--- Do all of them say the same? Two clusters would be two locks.
local function compare(members)
  local leader, version
  local seen = {}
  for _, member in ipairs(members) do
    if member.version then
      if seen[member.id] then
        view.note(("%s is the same member as %s"):format(member.endpoint, seen[member.id]))
      end
      seen[member.id] = member.endpoint
      if leader and member.leader_id and leader ~= member.leader_id then
        view.wrong("the members have different leaders: " .. leader .. ", " .. member.leader_id,
          "are all of them members of one cluster? etcdctl member list")
      end
      if version and version ~= member.version then
        view.note(("the members are of different versions: %s, %s"):format(version, member.version))
      end
      leader, version = leader or member.leader_id, version or member.version
    end
  end
end

--- Does any of them answer?
local function look_at_members(client, known)
  view.head "Members"
  local members, message = ask(client)
  if not members then
    view.wrong(message)
    return false
  end
  local is_there = false
  view.members(members)
  for _, member in ipairs(members) do
    is_there = is_there or member.version ~= nil
    if member.version then
      look_at_transport(member, known)
      look_at_one(member)
    else
      view.wrong(texts.of_module(member.message), remedies.of_message(member.message))
    end
  end
  compare(members)
  return is_there
end

-- ---- what can be done there ----

local function look_at_majority(client)
  local seconds, message = client:ping()
  if seconds then
    view.good("a majority answers: " .. numbers.format("%.1f ms", seconds * 1000))
  else
    view.wrong(texts.of_module(message), remedies.of_message(message))
  end
  return seconds
end

local function look_at_lock(client, known)
  local name = known.prefix .. NAME
  local ok, message, code = client:with_lock(NAME, { timeout = LOCK_WAIT }, function(lock)
    assert(lock:check())
  end)
  if ok then
    view.good(("a lock can be taken and given back: %s"):format(quote(name)))
  elseif code == "timeout" then
    view.note(("no lock was taken to see: somebody has had %s for %d s, another doctor perhaps")
      :format(quote(name), LOCK_WAIT))
  else
    view.wrong(("no lock can be taken: %s"):format(message),
      remedies.of_message(message, known.prefix))
  end
  return ok
end

-- Returns the answer of the pending lock `asked`; false: there is none within `seconds`.
local function await(asked, seconds)
  local over = core.now() + seconds
  repeat
    local lock = asked:step()
    if lock ~= false then
      return lock
    end
    uv.sleep(1) -- ms
  until core.now() >= over
  return false
end

-- Has a second client wait for the lock: is it woken when the lock is released?
local function look_at_wake(client, args)
  local other = etcdlock.connect(settings.options(args))
  local first = other and client:lock(NAME, { timeout = LOCK_WAIT })
  local asked = first and other:lock_async(NAME, { timeout = LOCK_WAIT })
  if asked then
    await(asked, WAIT_FIRST)
    first:unlock()
    local from = core.now()
    local lock = await(asked, WAKE_WAIT)
    if lock then
      view.good("a waiter gets the lock after its release: "
        .. numbers.format("%.1f ms", (core.now() - from) * 1000))
      lock:unlock()
    elseif lock == false then
      view.wrong(("a waiter doesn't get the lock within %d s after its release"):format(WAKE_WAIT),
        "give the members themselves as --endpoints, not an etcd grpc-proxy (doc/cluster.md)")
      asked:cancel()
    end
  end
  if other then
    other:close()
  end
end

--- Names that many keys of user data slow, the worst first: only of the locks that are held or
-- waited for now it is known that they are locks.
local function look_at_other_keys(found, known)
  local slow = {}
  for _, queue in ipairs(found) do
    if queue.other_keys >= MANY_KEYS then
      slow[#slow + 1] = queue
    end
  end
  table.sort(slow, function(a, b) return a.other_keys > b.other_keys end)
  for i = 1, math.min(#slow, NAMES_SHOWN) do
    view.note(("lock %s: %d other keys below its name slow each lock and unlock; "
      .. "give locks a prefix of their own"):format(quote(known.prefix .. slow[i].name),
      slow[i].other_keys))
  end
  if #slow > NAMES_SHOWN then
    view.note(("%d more locks have %d or more other keys below their names")
      :format(#slow - NAMES_SHOWN, MANY_KEYS))
  end
end

local function look_at_list(client, known)
  local found, message, code = client:queues()
  if found then
    view.good(("etcdlock ls may list what is below %s: %d lock%s"):format(quote(known.prefix),
      #found, #found == 1 and "" or "s"))
    look_at_other_keys(found, known)
  elseif code == "denied" then
    view.note(("etcdlock ls may not list what is below %s: %s"):format(quote(known.prefix),
      known.prefix == "" and "name a PREFIX" or "this user may not read all of that"))
  else
    view.wrong(texts.of_module(message), remedies.of_message(message))
  end
end

local function look_at_use(client, known, args)
  view.head "Use"
  if look_at_majority(client) then
    if look_at_lock(client, known) then
      look_at_wake(client, args)
    end
    look_at_list(client, known)
  end
end

--- Looks at all of it: the exit status.
return function(args)
  local known = look_at_settings(args)
  if known then
    local client, message = etcdlock.connect(settings.options(args))
    if client then
      if look_at_members(client, known) then
        look_at_use(client, known, args)
      end
      client:close()
    else
      view.wrong(texts.of_module(message), remedies.of_message(message))
    end
  end
  return view.conclude() and exit.OK or exit.FAILED
end
