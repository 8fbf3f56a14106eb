-- Serves the pages of status.conf: /metrics, the metrics of all workers, and /locks, the holders
-- and waiters of all locks whose names begin with the client's prefix. Both show this prefix.
local etcdlock = require "etcdlock"

local M = {}
local ENTRIES = 200 -- on a page of /locks; thousands would stop the worker for a moment
local ESCAPES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }
local NAME = '<tbody><tr><th scope="rowgroup" rowspan="%d">%s'
local NUMBER = '<td class="number">'
local ROW = '%s<td class="%s">%s<td>%s' .. NUMBER .. "%d<td>%s<td>%s" .. NUMBER .. "%s<td>%s\n"
local MORE = '<tr><td class="unknown" colspan="7">%d more\n'
local PAGE = [[<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Locks</title>
<meta http-equiv="refresh" content="2">
<style>body { font: 15px sans-serif; margin: 2em; color: #222 }
h1 { font-size: 1.4em; margin: 0 } p { color: #666 } table { border-collapse: collapse }
th { text-align: left } tbody, thead { border-bottom: 1px solid #ccc }
.number { text-align: right; white-space: nowrap }
td, th { padding: .4em 1em .4em 0; max-width: 24em; overflow-wrap: break-word; vertical-align: top }
.holds, .leads { color: #070; font-weight: bold } .waits { color: #a50 } .unknown { color: #888 }
</style><h1>Locks</h1><p>%s%s<table><thead><tr><th>Name<th>State<th>Mode<th>Token<th>Owner
<th>Host, process<th>Queued<th>Value%s</table></html>]]

-- Stores the metrics of this worker for all workers. They expire 10 s after the last call.
local function publish(is_premature)
  if is_premature then return end
  local worker = tostring(ngx.worker.id())
  ngx.shared.etcdlock:set(worker, M.client:metrics { labels = { worker = worker } }, 10)
end

-- Call this in init_worker_by_lua. Then require("status").client is the client of the worker.
function M.start(opts)
  M.client, M.prefix = assert(etcdlock.connect(opts)), opts.prefix or ""
  assert(ngx.timer.every(1, publish))
end

function M.metrics()
  local texts = {}
  for _, worker in ipairs(ngx.shared.etcdlock:get_keys()) do
    texts[#texts + 1] = ngx.shared.etcdlock:get(worker) -- nil if it has just expired
  end
  ngx.header.content_type = "text/plain; version=0.0.4"
  ngx.print(etcdlock.join_metrics(texts))
end

local function hex(bytes)
  return (bytes:gsub(".", function(byte) return ("\\x%02x"):format(byte:byte()) end))
end

-- Returns `text` escaped for HTML. Control characters are shown as \x1b and the like, because curl
-- writes the page to a terminal. The writing direction of `text` does not affect the rest of the
-- page.
local function shown(text)
  text = tostring(text or ""):gsub("[%z\1-\31\127]", hex):gsub("\194[\128-\159]", hex)
  return "<bdi>" .. text:gsub('[&<>"]', ESCAPES) .. "</bdi>"
end

local function state(entry)
  if entry.held == nil then return "unknown" end
  return not entry.held and "waits" or entry.mode == "leader" and "leads" or "holds"
end

local function mode(entry)
  return entry.mode == "leader" and "election"
    or entry.permits and ("permit of %d"):format(entry.permits) or entry.mode
end

-- Returns the full name of `queue`, in quotes if it begins or ends with a blank.
local function name_of(queue)
  local name = M.prefix .. queue.name
  return (name:find "^%s" or name:find "%s$") and ("%q"):format(name) or name
end

local function add_rows(rows, queue, now)
  local count = #queue.entries + (queue.more and 1 or 0)
  for i, entry in ipairs(queue.entries) do
    local is = state(entry)
    local first = i == 1 and NAME:format(count, shown(name_of(queue))) or "<tr>"
    rows[#rows + 1] = ROW:format(first, is, is, mode(entry), entry.token, shown(entry.owner),
      shown(entry.host and entry.host .. ", " .. entry.pid or "lease " .. entry.lease),
      entry.since and ("%d s ago"):format(math.max(now - entry.since, 0)) or "", shown(entry.value))
  end
  if queue.more then rows[#rows] = rows[#rows] .. MORE:format(queue.more) end
end

-- Returns the links to the first page, and to the page after the name `last` (nil: none).
local function links(after, last)
  return (after and ' <a href="?">First page</a>' or "")
    .. (last and (' <a href="?after=%s">Next page</a>'):format(ngx.escape_uri(last)) or "")
end

-- Shows a page of at most ENTRIES entries, those after the name in the argument `after`.
function M.locks()
  local rows, after = {}, ngx.var.arg_after and ngx.unescape_uri(ngx.var.arg_after)
  local queues, last = M.client:queues("", { limit = ENTRIES, after = after })
  for _, queue in ipairs(queues or {}) do add_rows(rows, queue, ngx.time()) end
  ngx.header.content_type, ngx.status = "text/html", queues and 200 or 503
  ngx.header.content_security_policy = "default-src 'none'; style-src 'unsafe-inline'"
  local summary = not queues and last or ("%d names below %q%s, %d entries, %s"):format(#queues,
    M.prefix, after and (" after %q"):format(after) or "", #rows, ngx.localtime())
  ngx.say(PAGE:format(shown(summary), links(after, queues and last), table.concat(rows)))
end
return M
