-- What status.conf serves: metrics of all workers, and who has which lock in the cluster.
local etcdlock = require "etcdlock"

local M = {}
local ESCAPES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }
local ROW = '<tr class="%s"><td>%s<td>%s<td><b>%s</b> %s<td>%.0f s ago<td>%s</tr>\n'
local PAGE = [[<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Locks</title>
<meta http-equiv="refresh" content="2"><style>body { font: 15px sans-serif; margin: 2em }
table { border-collapse: collapse } th { text-align: left } tr { border-top: 1px solid #bbb }
td, th { padding: .4em 1em; max-width: 24em; overflow-wrap: anywhere; vertical-align: top }
td+td+td { min-width: 5em } .holds b { color: #060 } .waits b { color: #a40 }</style>
<table><tr><th>name<th>owner, host, process<th>lock<th>asked<th>says%s</table><p>%s</html>]]

local function publish(is_premature) -- what a worker has not told for 10 s counts no more
  if is_premature then return end
  local worker = tostring(ngx.worker.id())
  ngx.shared.etcdlock:set(worker, M.client:metrics { labels = { worker = worker } }, 10)
end

function M.start(opts) -- in init_worker_by_lua; take locks with require("status").client
  M.client = assert(etcdlock.connect(opts))
  assert(ngx.timer.every(1, publish))
end

function M.metrics()
  local texts = {}
  for _, worker in ipairs(ngx.shared.etcdlock:get_keys()) do
    texts[#texts + 1] = ngx.shared.etcdlock:get(worker) -- nil: its time was over just now
  end
  ngx.header.content_type = "text/plain; version=0.0.4"
  ngx.print(etcdlock.join_metrics(texts))
end

local function shown(text) -- others' words: without tags, each with a direction of its own
  return "<bdi>" .. tostring(text or ""):gsub('[&<>"]', ESCAPES) .. "</bdi>"
end

function M.locks()
  local rows, now, queues, message = {}, ngx.time(), M.client:queues()
  for _, queue in ipairs(queues or {}) do
    for i, place in ipairs(queue.entries) do
      local who = table.concat({ place.owner or "-", place.host or place.lease, place.pid }, " ")
      local is = place.held and "holds" or "waits"
      rows[#rows + 1] = ROW:format(is, shown(i == 1 and queue.name), shown(who), is, place.mode,
        math.max(now - (place.since or now), 0), shown(place.value))
    end
  end
  ngx.header.content_type, ngx.status = "text/html", queues and 200 or 503
  ngx.header.content_security_policy = "default-src 'none'; style-src 'unsafe-inline'"
  ngx.say(PAGE:format(table.concat(rows), shown(message or #queues .. " names")))
end
return M
