-- The administrator, a client without a proxy, breaks locks, revokes leases and deletes keys.

local etcdlock = require "etcdlock"
local faults = require "spec.stress.faults"
local history = require "spec.stress.history"
local holds = require "spec.stress.holds"
local loop = require "spec.stress.loop"
local plan = require "spec.stress.plan"
local snapshots = require "spec.stress.snapshots"

local M = {}

local NAMES = { plan.ELECTION }
for _, name in ipairs(plan.LOCKS) do NAMES[#NAMES + 1] = name end

local random, client

-- Returns the marks with which faults.take records that an administrator takes |entry|.
local function marks_of(entry)
  local marks = { "token " .. entry.token }
  if not entry.client then return marks end
  -- If the entry belongs to a multi-lock, its client loses all names of that lock.
  for _, name in ipairs(NAMES) do marks[#marks + 1] = entry.client .. "/" .. name end
  for name in pairs(plan.PERMITS) do marks[#marks + 1] = entry.client .. "/" .. name end
  return marks
end

local function break_lock()
  local name = random:pick(NAMES)
  local entries, message, code = client:queue(name)
  if not entries then
    if code ~= "unavailable" then
      history.violation(name, "queue answers %s (%s)", tostring(code), tostring(message))
    end
    return
  end
  local entry = entries[1]
  if not entry then return end
  if random:chance(0.3) then entry = random:pick(entries) end
  local marks = marks_of { token = entry.token, client = (entry.value or ""):match "@(c[%d.]+)@" }
  faults.take(marks)
  history.note(name, "the administrator breaks the lock of token %.0f", entry.token)
  local ok, why
  ok, why, code = client:break_lock(name, entry.token)
  history.count(ok and "breaks" or "break " .. tostring(code))
  if ok then faults.take(marks) end
  if not ok and code ~= "not_held" and code ~= "unavailable" then
    history.violation(name, "break_lock answers %s (%s)", tostring(code), tostring(why))
  end
end

local function revoke_lease()
  local all = holds.all()
  if not all[1] then return end
  local hold = random:pick(all)
  local marks = { "lease " .. hold.lease, "client " .. hold.client.id }
  history.note("*", "the administrator revokes lease %s of %s", hold.lease, hold.client.id)
  faults.take(marks)
  if snapshots.revoke(hold.lease) then history.count "revocations" end
  faults.take(marks)
end

local function delete_key()
  local snapshot = snapshots.read()
  if not snapshot or not snapshot.entries[1] then return end
  local entry = random:pick(snapshot.entries)
  local marks = marks_of(entry)
  history.note(entry.name, "the administrator deletes %s, token %.0f", entry.key, entry.token)
  faults.take(marks)
  if snapshots.delete(entry.key) then history.count "deletions" end
  faults.take(marks)
end

-- Starts the administrator of |etcd|, which draws from |source| and acts until is_ending() is true.
function M.start(etcd, source, is_ending)
  random = source
  client = assert(etcdlock.connect {
    endpoints = etcd:endpoints(), ttl = plan.TTL, prefix = plan.PREFIX, loop = "luv", env = false,
  })
  loop.spawn(function()
    while not is_ending() do
      loop.sleep(random:real(0.5, 3))
      local action = random:weighted {
        { 50, break_lock }, { 20, revoke_lease }, { 30, delete_key },
      }
      local ok, failure = xpcall(action, debug.traceback)
      if not ok then history.violation("*", "the administrator: error %s", failure) end
    end
    client:close()
  end)
end

return M
