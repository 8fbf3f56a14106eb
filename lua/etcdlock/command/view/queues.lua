--- Who holds and who waits, as people read it, and as programs do.
local json = require "etcdlock.json"
local table_of = require "etcdlock.command.view.table"
local texts = require "etcdlock.command.texts"

local M = {}

local HEAD = { "NAME", "MODE", "STATE", "TOKEN", "HOST", "PID", "ASKED", "FOR", "SAYS" }
local IS_NUMBER = { [4] = true, [6] = true, [8] = true }

local NOTHING = "-"

--- Seconds, as 5s, 3m07s, 2h05m or 3d04h.
local function duration(seconds)
  seconds = math.max(0, seconds)
  local minutes, hours = math.floor(seconds / 60), math.floor(seconds / 3600)
  if seconds < 60 then
    return ("%ds"):format(seconds)
  elseif hours < 1 then
    return ("%dm%02ds"):format(minutes, seconds % 60)
  elseif hours < 48 then
    return ("%dh%02dm"):format(hours, minutes % 60)
  end
  return ("%dd%02dh"):format(math.floor(hours / 24), hours % 24)
end

-- Bytes of what an owner says that are shown: as many as the option `value` may have.
local SAYS_MAX = 4096

--- What its owner has said about himself.
local function says(place)
  local words = {}
  if place.owner then
    words[1] = place.owner .. ":"
  end
  words[#words + 1] = place.value
  local text = words[1] and table.concat(words, " ") or NOTHING
  return #text > SAYS_MAX and text:sub(1, SAYS_MAX) .. "..." or text
end

local function state_of(place)
  if place.held == nil then
    return "unknown"
  end
  return place.held and "holds" or "waits"
end

local function row_of(name, place, now)
  return {
    name,
    place.mode,
    state_of(place),
    ("%.0f"):format(place.token),
    place.host or NOTHING,
    place.pid and ("%.0f"):format(place.pid) or NOTHING,
    place.since and os.date("%Y-%m-%d %H:%M:%S", place.since) or NOTHING,
    place.since and duration(now - place.since) or NOTHING,
    says(place),
  }
end

--- A table, line by line, of what client:queues answered; a line that says so if nobody
-- holds or waits.
function M.lines(found)
  local rows, now = {}, os.time()
  for _, queue in ipairs(found) do
    for i, place in ipairs(queue.places) do
      rows[#rows + 1] = row_of(i == 1 and queue.name or "", place, now)
    end
  end
  if not rows[1] then
    return { "Nobody holds a lock, or waits for one." }
  end
  return table_of(HEAD, rows, IS_NUMBER)
end

--- The same as one line of JSON: a list of { name, places, other_keys }, by name.
function M.json(found)
  local queues = {}
  for i, queue in ipairs(found) do
    local places = {}
    for k, place in ipairs(queue.places) do
      places[k] = json.encode(place)
    end
    queues[i] = ('{"name":%s,"other_keys":%d,"places":[%s]}'):format(json.encode(queue.name),
      queue.other_keys, table.concat(places, ","))
  end
  return texts.clean_json("[" .. table.concat(queues, ",") .. "]")
end

return M
