--- What our key in a queue says about us: a small JSON object, read by
-- client:queue and by whoever looks into etcd; other clients ignore it.
local core = require "etcdlock.core"
local json = require "etcdlock.json"
local names = require "etcdlock.names"
local numbers = require "etcdlock.numbers"

local M = {}

-- Most say nothing else than who and when: the label of this second, and the process
-- that it is of.
local plain, plain_since, plain_pid

local function write_plain(pid, since)
  if since ~= plain_since or pid ~= plain_pid then
    plain = json.encode { host = core.host(), pid = pid, since = since }
    plain_since, plain_pid = since, pid
  end
  return plain
end

--- The label of a request: who (host, pid, owner if it has a name), since when
-- (unix seconds), for how long nobody follows a crash, and the caller's own value. Of
-- several names, which are given with their prefix, the key of the first tells all, and
-- the others which is the first: the labels of both, with a NUL in between.
function M.write(request)
  local owner, fulls = request.said, request.fulls
  local named = type(owner) == "string" or type(owner) == "number"
  local pid, since = core.pid(), os.time()
  if #fulls == 1 and not (named or request.value) and request.lock_delay == 0 then
    return write_plain(pid, since)
  end
  local label = {
    host = core.host(),
    pid = pid,
    since = since,
    owner = named and numbers.text(owner) or nil,
    value = request.value,
    lock_delay = request.lock_delay > 0 and request.lock_delay or nil,
  }
  if #fulls == 1 then
    return json.encode(label)
  end
  label.first = fulls[1]
  local others = json.encode(label)
  label.first, label.names = nil, fulls
  return json.encode(label) .. "\0" .. others
end

-- Other clients write what they like: a field counts only if a client of ours could have
-- written it.

-- Above that a float is no exact integer; and 1e999 is infinite.
local INTEGER_MAX = 2 ^ 53
-- Bytes of a host name; Linux allows 64.
local HOST_MAX = 255

--- JSON's numbers are floats on some Luas.
local function integer(value)
  return type(value) == "number" and math.abs(value) <= INTEGER_MAX and math.floor(value) or nil
end

local function seconds(value)
  return type(value) == "number" and value >= 0 and value <= INTEGER_MAX and value or nil
end

local function text(value)
  return type(value) == "string" and value or nil
end

local function host(value)
  return type(value) == "string" and #value <= HOST_MAX and value or nil
end

local function full_name(value)
  return type(value) == "string" and names.is_full(value) and value or nil
end

-- The different names of a multi-lock.
local function full_names(value)
  local found, seen = {}, {}
  for i, name in ipairs(type(value) == "table" and value or {}) do
    if i > core.MULTI_MAX or not full_name(name) or seen[name] then
      return nil
    end
    found[i], seen[name] = name, true
  end
  return found[1] and found
end

--- The fields of a label; none if it isn't one of ours.
function M.read(said)
  local label = json.decode(said)
  if type(label) ~= "table" then
    return {}
  end
  local machine, pid, since = host(label.host), integer(label.pid), integer(label.since)
  if not (machine and pid and since) then
    return {}
  end
  return {
    host = machine,
    pid = pid,
    since = since,
    owner = text(label.owner),
    value = text(label.value),
    lock_delay = seconds(label.lock_delay),
    names = full_names(label.names),
    first = full_name(label.first),
  }
end

return M
