--- nginx: a waiting light thread reads from a cosocket that is connected to a
-- unix socket of the core, in this process. The core writes a byte when the
-- wait is over: a wake-up, no data. When nginx ends the light thread (the
-- request was aborted, the worker goes), it closes the connection, by which the
-- core learns that nobody waits any more.
local core = require "etcdlock.core"

local M = {}

local ngx = rawget(_G, "ngx")
local POOL_SIZE = 512
local IDLE_MS = 60000
local SEND_MS = 2000
local GREETING_MS = 5000
-- The core ends a wait in time; this is a net below it, because a cosocket that
-- times out writes a line to nginx's log.
local SPARE = 5
local FOREVER_MS = 2147483647
local LONGEST = 2e6 -- seconds that both a cosocket and 8 hex digits can tell
local NO_CONNECTION = "etcdlock can't wait here, it has no connection to its own thread: "

-- A phase in which nginx lets Lua yield, but without a patch that not every nginx
-- has the handshake ends there.
local HELLO = "ssl_client_hello"

function M.phase()
  return ngx.get_phase()
end

--- Something that is the running request's alone; nil where there is none.
function M.request()
  local ok, ctx = pcall(function()
    return ngx.ctx
  end)
  return ok and ctx or nil
end

function M.is_here()
  return core.yieldable() and ngx.get_phase() ~= HELLO
end

--- Why a client can't be had: message, code; nothing if it can. A gRPC that was
-- started before the workers are forked is dead in all of them.
function M.too_early()
  if ngx.get_phase() == "init" then
    return "etcdlock can't connect in init_by_lua, before nginx forks its workers;"
      .. " require it there, and connect in init_worker_by_lua or later", "context"
  end
end

-- Where nothing can wait, whatever is on the stack.
local CANNOT_WAIT = {
  init_worker = true, set = true, header_filter = true, body_filter = true, log = true,
  balancer = true, ssl_session_store = true, exit_worker = true, [HELLO] = true,
}

--- Why a wait can't be here: message, code; nothing if it can.
function M.refusal()
  if M.is_here() then
    return nil
  end
  local phase = ngx.get_phase()
  local why = "a C function such as table.sort, string.gsub or require is on the stack"
  if CANNOT_WAIT[phase] then
    why = ("this is %s_by_lua"):format(phase)
  end
  return ("waiting here would stop nginx's worker (%s); the phases rewrite, access and content"
    .. " can wait, and ngx.timer.at(0, …)"):format(why), "context"
end

-- ---- connections ----

-- The path of a closed client's socket may be another's later; so a pool has
-- a name that is never used again.
local pools = 0

local function open(hub)
  local path, failure, code = hub.core:serve()
  if not path then
    return nil, failure, code
  end
  if not hub.pool then
    pools = pools + 1
    hub.pool = "etcdlock/" .. pools
  end
  local socket = ngx.socket.tcp()
  socket:settimeouts(SEND_MS, SEND_MS, FOREVER_MS)
  local next_fd = hub.core:next_fd()
  local ok, why = socket:connect("unix:" .. path, { pool = hub.pool, pool_size = POOL_SIZE })
  if not ok then
    return nil, NO_CONNECTION .. why, "nomem"
  end
  if socket:getreusedtimes() == 0 then
    -- Not every nginx does it. A program that os.execute starts would keep the
    -- connection open when the request has ended.
    hub.core:seal(next_fd)
  end
  return socket
end

--- A link is the connection of a wait: its number, the socket, and whether the
-- core has not greeted it yet. For a new wait: link | nil, message, code.
-- Neither this nor `read` yields before the core has been told of both: a light
-- thread may be ended wherever it yields.
local function connect(hub, lock)
  local socket, message, code = open(hub)
  if not socket then
    return nil, message, code
  end
  local link = { id = hub:number(), socket = socket, is_new = socket:getreusedtimes() == 0 }
  local expected
  expected, message, code = hub.core:expect(link.id, lock)
  if not expected then
    socket:close()
    return nil, message, code
  end
  return link
end

local function say(link, seconds)
  local ms = seconds and math.ceil(seconds * 1000) or 0
  return link.socket:send(("%016x%08x"):format(link.id, ms))
end

local function receive(link, ms)
  link.socket:settimeout(ms)
  return link.socket:receive(1)
end

--- The core greets a new connection with a byte. Without it, it might never
-- learn of this wait: it may have no descriptor left to accept with.
local function await_greeting(link)
  local byte, why
  if link.is_new then
    byte, why = receive(link, GREETING_MS)
    link.is_new = not byte
  end
  return not link.is_new, why
end

--- Reads the byte that says that the wait is over, or that `seconds` are: was it
-- the only one? false, and what is wrong with the connection, if it is.
local function read(link, seconds)
  local ends = seconds and core.now() + seconds
  local ok, why = say(link, seconds)
  if ok then
    ok, why = await_greeting(link)
  end
  if not ok then
    return false, NO_CONNECTION .. why, "nomem"
  end
  local byte
  byte, why = receive(link, seconds and (seconds + SPARE) * 1000 or FOREVER_MS)
  if not byte and why ~= "timeout" then
    return false, NO_CONNECTION .. why, "nomem"
  end
  return byte ~= nil and not (ends and core.now() >= ends)
end

--- Has the wait of this link interrupted, too, if a lock of this request with
-- on_lost is lost. Returns how many those are, and what ends it.
local function hear_losses(wait, link)
  local heard = {}
  for lock in pairs(wait.is_deaf and {} or wait.hub.watched) do
    local leash = lock._leash
    if leash and leash.link and M.is_in_hand(leash) and lock._core:arm("ended", link.id, true) then
      heard[#heard + 1] = lock
    end
  end
  return #heard, function()
    for _, lock in ipairs(heard) do
      lock._core:disarm("ended", link.id)
    end
  end
end

--- Reads as above, and returns early if a lock is lost; by which there may be one
-- byte more.
local function read_or_lose(wait, link, seconds)
  local count, stop = hear_losses(wait, link)
  local clean, message, code = read(link, seconds)
  stop()
  return clean and count == 0, message, code
end

--- Gives the connection of a wait that is over to the next one. Only one whose
-- every byte was read: the next one must not be woken by ours.
local function keep(hub, link, clean)
  hub.core:taken(link.id)
  if clean and not link.is_new then
    link.socket:setkeepalive(IDLE_MS)
  else
    link.socket:close()
  end
end

-- ---- waits ----

--- Can the running request use this leash, that is: has it tied it? Another
-- one's socket raises an error, that of a request that has ended is closed.
function M.is_in_hand(leash)
  local socket = leash.link.socket
  return socket:getreusedtimes() ~= nil and (pcall(socket.receive, socket, 0))
end

--- The link of a lock's wait is its leash: it is kept as long as the lock is
-- held, so that the lock ends with the request that waited for it.
local function wait_leashed(wait, seconds, leash)
  if not leash.link then
    local link, message, code = connect(wait.hub, leash.lock)
    if not link then
      return message, code
    end
    leash.link, leash.phase = link, M.phase()
    say(link)
  end
  if wait.arm(leash.link.id, true) then
    local clean, message, code = read_or_lose(wait, leash.link, seconds)
    leash.unclean = leash.unclean or not clean
    return message, code
  end
  -- Over already; but a leash must be tied.
  local ok, why = await_greeting(leash.link)
  if not ok then
    return NO_CONNECTION .. why, "nomem"
  end
end

--- The limit of a wait in seconds must fit the cosocket's clock.
local function bounded(seconds)
  return seconds and seconds < LONGEST and seconds or nil
end

function M.wait(wait, seconds)
  local leash = wait.leash
  seconds = bounded(seconds)
  if leash and not (leash.link and not M.is_in_hand(leash)) then
    return wait_leashed(wait, seconds, leash)
  end
  local link, message, code = connect(wait.hub)
  if not link then
    return message, code
  end
  local clean = true
  if wait.arm(link.id, true) then
    clean, message, code = read_or_lose(wait, link, seconds)
  end
  keep(wait.hub, link, clean)
  return message, code
end

--- The lock of a leash is not held any more.
function M.unleash(hub, leash)
  local link = leash.link
  leash.link = nil
  if link then
    -- Another request's socket can't be touched; it ends with that request.
    pcall(keep, hub, link, not leash.unclean)
  end
end

return M
