-- Reads the keys of all locks and the counters from etcd, again and again, through the gateway of a
-- running member.

local Gateway = require "spec.support.servers.gateway"
local counters = require "spec.stress.counters"
local faults = require "spec.stress.faults"
local loop = require "spec.stress.loop"
local mime = require "mime"
local plan = require "spec.stress.plan"
local post = require "spec.stress.post"

local M = {}

local PERIOD = 0.25 -- seconds from one read to the next
local ANSWER_MAX = 3 -- seconds for an answer
local SLOW = 1 -- seconds; if an answer takes longer, etcd counts as disturbed

local etcd

-- Makes all functions of this file use |cluster|.
function M.use(cluster)
  etcd = cluster
end

-- Calls the gateway of a running member. Returns the answer, or nil and a message.
function M.ask(path, request)
  for _, member in ipairs(etcd.members) do
    if not member.process.code and not member.paused then
      local answer, message = post(member.port, path, request, ANSWER_MAX)
      if answer then return answer end
      faults.disturbed("no answer from %s: %s", member.name, message)
    end
  end
  return nil, "no member answers"
end

-- Returns the range of all keys that start with |prefix|, for the gateway.
local function range(prefix)
  return {
    key = mime.b64(prefix),
    range_end = mime.b64(prefix:sub(1, -2) .. string.char(prefix:byte(-1) + 1)),
  }
end

-- Returns a key below a lock's name as { key, name, mode, lease, token, client }. Returns nil if
-- the key is no entry of a queue. |client| is the ID of the client in the key's value, which the
-- option `value` sets.
local function entry_of(kv)
  local key = mime.unb64(kv.key)
  local name, rest = key:match("^" .. plan.PREFIX .. "(%w+)/(.*)$")
  local mode, lease = (rest or ""):match "^(%l+)/(%x+)[-.]?%x*$"
  if not mode then mode, lease = "lock", (rest or ""):match "^(%x+)-?%x*$" end
  if not lease or not kv.lease then return nil end
  local client = (kv.value and mime.unb64(kv.value) or ""):match "@(c[%d.]+)@"
  return {
    key = key, name = name, lease = lease, client = client,
    mode = mode,
    token = tonumber(kv.create_revision),
  }
end

-- Returns the present contents of etcd: entries (a list), counters (by name), term (of raft), and
-- before (the largest values of the counters before the request was sent). Returns nil if etcd does
-- not answer.
function M.read()
  local from, stalled, before = loop.now(), loop.stalled(), counters.largest()
  local answer = M.ask("/v3/kv/txn", {
    success = {
      { requestRange = range(plan.PREFIX) },
      { requestRange = range(plan.COUNTERS) },
    },
  })
  if not answer then return nil end
  if loop.now() - from - (loop.stalled() - stalled) > SLOW then
    faults.disturbed("etcd took %.1f s for an answer", loop.now() - from)
  end
  local snapshot = { before = before, entries = {}, counters = {} }
  snapshot.term = answer.header.raft_term
  for _, kv in ipairs(answer.responses[1].response_range.kvs or {}) do
    table.insert(snapshot.entries, entry_of(kv))
  end
  for _, kv in ipairs(answer.responses[2].response_range.kvs or {}) do
    local name = mime.unb64(kv.key):sub(#plan.COUNTERS + 1)
    snapshot.counters[name] = tonumber(mime.unb64(kv.value))
  end
  return snapshot
end

-- Deletes |key|.
function M.delete(key)
  return M.ask("/v3/kv/deleterange", { key = mime.b64(key) })
end

-- Revokes the lease with the ID |lease| (hex).
function M.revoke(lease)
  return M.ask("/v3/lease/revoke", { ID = Gateway.to_decimal(lease) })
end

local numbers = {} -- member ID = number of the member

-- Finds out which member leads, and sets M.leader to its number. M.leader is nil before the first
-- answer.
local function look_for_leader()
  for i, member in ipairs(etcd.members) do
    local is_known = false
    for _, number in pairs(numbers) do is_known = is_known or number == i end
    if not is_known then
      local answer = post(member.port, "/v3/maintenance/status", {}, ANSWER_MAX)
      if answer then numbers[answer.header.member_id] = i end
    end
  end
  local answer = M.ask("/v3/maintenance/status", {})
  if answer and answer.leader ~= "0" then M.leader = numbers[answer.leader] or M.leader end
end

-- Begins to read snapshots, in a coroutine that ends when is_over() is true. Calls look(snapshot)
-- with each, and look(nil) if etcd did not answer.
function M.follow(look, is_over)
  loop.spawn(function()
    local term
    while not is_over() do
      local snapshot = M.read()
      if snapshot and term and snapshot.term ~= term then
        faults.disturbed("etcd has elected a leader, term %s", snapshot.term)
      end
      term = snapshot and snapshot.term or term
      look(snapshot)
      look_for_leader()
      loop.sleep(PERIOD)
    end
  end)
end

return M
