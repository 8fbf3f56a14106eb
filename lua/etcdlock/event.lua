--- What `log` of connect is given: a table with the name of the event in `event` and what
-- belongs to it (doc/observability.md), whose tostring is a line for people.
local characters = require "etcdlock.characters"
local numbers = require "etcdlock.numbers"

local quote = characters.quote

local M = {}

local COLLECTED = "lock %s was released because its handle was collected as garbage;"
  .. " keep the result of client:lock until unlock, or use with_lock"

local BY = {
  unlock = "",
  nginx_request = " with its nginx request",
  close = " with its client",
}

--- Seconds as people read them.
local function span(seconds)
  return numbers.format(seconds < 1 and "%.3g s" or "%.1f s", seconds)
end

-- What each kind of event says, and how grave it is.
local KINDS = {
  waiting = { "info", function(event)
    return string.format("lock %s: still waiting after %s", quote(event.name), span(event.wait))
  end },
  acquired = { "info", function(event)
    local text = "lock %s: acquired after %s, token %.0f"
    return text:format(quote(event.name), span(event.wait), event.token)
  end },
  not_acquired = { "warn", function(event)
    local text = "lock %s: not acquired after %s, %s: %s"
    return text:format(quote(event.name), span(event.wait), event.code, event.message)
  end },
  released = { "info", function(event)
    local text = "lock %s: released%s after %s, token %.0f"
    return text:format(quote(event.name), BY[event.by], span(event.hold), event.token)
  end },
  lost = { "warn", function(event)
    local text = "lock %s: lost after %s, token %.0f, %s: %s"
    return text:format(quote(event.name), span(event.hold), event.token, event.reason,
      event.message)
  end },
  leaked = { "warn", function(event)
    return COLLECTED:format(quote(event.name))
  end },
  failover = { "warn", function(event)
    return string.format("failover from member %s: %s", event.from, event.message)
  end },
  retry = { "warn", function(event)
    return string.format("%d %s to etcd failed and will be retried: %s", event.count,
      event.count > 1 and "requests" or "request", event.message)
  end },
  suppressed = { "warn", function(event)
    return string.format('%d more "%s" events suppressed', event.count, event.of)
  end },
}

--- The names of all of them.
M.KINDS = {}
for kind in pairs(KINDS) do
  M.KINDS[#M.KINDS + 1] = kind
end

local mt = { __name = "etcdlock.event" }

function mt.__tostring(event)
  local late = event.ago >= 1 and string.format(" (%s ago)", span(event.ago)) or ""
  return "etcdlock: " .. characters.clean(KINDS[event.event][2](event)) .. late
end

-- Whoever has logged messages so far may have put something before or behind them.
function mt.__concat(a, b)
  return tostring(a) .. tostring(b)
end

--- Makes an event of a table with its fields; `ago`: it happened so many seconds ago.
function M.new(event)
  event.level = event.level or KINDS[event.event][1]
  event.ago = event.ago or 0
  return setmetatable(event, mt)
end

return M
