--- The label: the value of a lock's key, a small JSON object that describes the client. It is shown
-- by client:queue and by tools that read etcd. No client needs a label to take a lock.
local core = require "etcdlock.core"
local json = require "etcdlock.json"
local names = require "etcdlock.names"
local escape = require("etcdlock.text").escape
local quote = require("etcdlock.text").quote
local to_string = require("etcdlock.text").to_string

local M = {}

local time = os.time

-- A plain label contains only host, pid and since. Most labels are plain, so the client keeps the
-- last one, with its since (seconds), and returns it again in the same second.
local function write_plain(client, since)
  if since ~= client._plain_since then
    client._plain_label = json.encode { host = core.host(), pid = core.pid(), since = since }
    client._plain_since = since
  end
  return client._plain_label
end

--- Returns the label of `lock`, a JSON object with these fields:
--   host, pid   of this process
--   since       time of the call, in Unix seconds
--   owner       the option `owner`, if it is a string or a number
--   value       the option `value`, if it is given
--   lock_delay  the option `lock_delay` of the client in seconds, if it is above 0
-- For a multi-lock of several names, returns two labels with a NUL between them:
-- 1. the label for the key below the first name, with the field `names`: the list of all full names
-- 2. the label for all other keys, with the field `first`: the first full name
function M.write(lock)
  local client, owner, since = lock._client, lock._given_owner, time()
  local lock_delay, full_names = client._lock_delay, lock._full_names
  local is_multi = full_names and #full_names > 1
  local has_owner = owner ~= nil and (type(owner) == "string" or type(owner) == "number")
  if lock_delay == 0 and not (is_multi or has_owner or lock._value) then
    return write_plain(client, since)
  end
  local label = {
    host = core.host(),
    pid = core.pid(),
    since = since,
    owner = has_owner and to_string(owner) or nil,
    value = lock._value,
    lock_delay = lock_delay > 0 and lock_delay or nil,
  }
  if not is_multi then
    return json.encode(label)
  end
  label.first = full_names[1]
  local other_label = json.encode(label)
  label.first, label.names = nil, full_names
  return json.encode(label) .. "\0" .. other_label
end

-- ---- reading ----
-- Other programs may write any value to a key. So M.read drops each field of a label that this
-- library could not have written.

-- A larger number is refused, because a float represents all integers exactly only up to this
-- limit. JSON may even contain 1e999, which becomes infinite.
local INTEGER_MAX = 2 ^ 53
-- Largest number of bytes of a host name. Linux allows 64.
local HOST_MAX = 255

local function to_integer(value)
  -- math.floor, because from Lua 5.3 on dkjson returns a float for a text such as 5.0.
  return type(value) == "number" and math.abs(value) <= INTEGER_MAX and math.floor(value) or nil
end

local function to_seconds(value)
  return type(value) == "number" and value >= 0 and value <= INTEGER_MAX and value or nil
end

local function to_text(value)
  return type(value) == "string" and value or nil
end

local function to_host(value)
  return type(value) == "string" and #value <= HOST_MAX and value or nil
end

local function to_full_name(value)
  return type(value) == "string" and names.is_full_name(value) and value or nil
end

-- Returns a copy of the list `value` if it contains only full names, each name once, and at most as
-- many names as a multi-lock may have. Otherwise returns nil.
local function to_full_names(value)
  local list, seen = {}, {}
  for i, name in ipairs(type(value) == "table" and value or {}) do
    if i > core.MULTI_MAX or not to_full_name(name) or seen[name] then
      return nil
    end
    list[i], seen[name] = name, true
  end
  return list[1] and list
end

--- Returns the fields of a label; an empty table if `value` is not a label of this library.
function M.read(value)
  local label = json.decode(value)
  if type(label) ~= "table" then
    return {}
  end
  local host, pid, since = to_host(label.host), to_integer(label.pid), to_integer(label.since)
  if not (host and pid and since) then
    return {}
  end
  return {
    host = host,
    pid = pid,
    since = since,
    owner = to_text(label.owner),
    value = to_text(label.value),
    lock_delay = to_seconds(label.lock_delay),
    names = to_full_names(label.names),
    first = to_full_name(label.first),
  }
end

-- ---- holders ----
-- A holder is a table that describes the lock for which a waiter waits, for events and messages:
--   host, pid, since, owner, value  as in the label of this lock. A candidate of an election, and
--             another program's lock, have no label: then `value` is the value of the key
--   ago       seconds since the label was read
--   is_multi  true if this lock is a multi-lock; else nil. A multi-lock may be first in this queue
--             and still wait for another of its names

--- Returns the holder whose key has the value `text`, which was read `ago` seconds ago.
function M.read_holder(text, ago)
  local label = M.read(text)
  if not label.host then
    return { value = text, ago = ago }
  end
  return {
    host = label.host, pid = label.pid, since = label.since, owner = label.owner,
    value = label.value, ago = ago, is_multi = (label.names or label.first) and true or nil,
  }
end

--- Returns the holder for a lock that this process holds.
function M.describe_self()
  return { host = core.host(), pid = core.pid(), ago = 0 }
end

--- Returns the part of a message that compares two numbers of permits of a semaphore: `permits`, of
-- this client, and other.permits. `other` is a holder with the field `permits`.
function M.format_permits(permits, other)
  return string.format("the number of permits is %d in this client, and %d in %s", permits,
    other.permits, other.host and M.describe_process(other) or "another one")
end

-- Largest number of bytes of a value in a message; a longer value is cut.
local VALUE_SHOWN_MAX = 60

local function format_value(value)
  local is_long = #value > VALUE_SHOWN_MAX
  return "value " .. quote(is_long and value:sub(1, VALUE_SHOWN_MAX) .. "..." or value)
end

--- Returns a text that describes a process: its pid, its host and, if known, since when it has
-- queued. `fields` is a table with the fields `pid`, `host` and perhaps `since`: a holder, an entry
-- of client:queue or a run of client:runs.
function M.describe_process(fields)
  return string.format("pid %.0f on %s%s", fields.pid, escape(fields.host),
    fields.since and os.date(", queued since %Y-%m-%d %H:%M:%S", fields.since) or "")
end

--- Returns the part of a message that names the holder, for the end of the message. Returns an
-- empty string if `holder` is nil.
function M.format_holder(holder)
  if not holder then
    return ""
  end
  local is_self = holder.host == core.host() and holder.pid == core.pid()
  local parts = { is_self and "this process" or nil }
  parts[#parts + 1] = holder.host and M.describe_process(holder)
  parts[#parts + 1] = holder.value and format_value(holder.value)
  return string.format("; %s%s: %s%s", holder.is_multi and "first in the queue" or "holder",
    holder.ago >= 1 and string.format(", as read %.0f s ago", holder.ago) or "",
    holder.is_multi and "multi-lock of " or "", table.concat(parts, ", "))
end

return M
