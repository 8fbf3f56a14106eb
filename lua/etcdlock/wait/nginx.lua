--- nginx, as a host (host.lua) and as a loop. A waiting light thread reads from
-- a cosocket that is connected to a unix socket of the core, in this process. The
-- core writes a byte when the wait is over: a wake-up, no data. When nginx ends
-- the light thread (the request was aborted, the worker goes), it closes the
-- connection, by which the core learns that nobody waits any more.
local core = require "etcdlock.core"
local collector = require "etcdlock.wait.collector"
local ties = require "etcdlock.wait.tie"

local M = {}

local ngx = rawget(_G, "ngx")
local POOL_SIZE = 128
local IDLE_MS = 10000
local SEND_MS = 2000
local GREETING_MS = 5000
-- The core ends a wait in time; this is a net below it, because a cosocket that
-- times out writes a line to nginx's log.
local SPARE = 5
local FOREVER_MS = 2147483647
local LONGEST = 2e6 -- seconds that a cosocket can tell
local LOOK_EVERY = 1 -- second
local NO_CONNECTION = "etcdlock can't wait here, it has no connection to its own thread: "
local NOT_MADE = NO_CONNECTION .. "nginx has none left; raise worker_connections,"
  .. " to 2 for each request that waits for a lock or holds one, and the rest"
-- The core ends those that it has no descriptor for, or never comes to greet them.
local NOT_ACCEPTED = NO_CONNECTION .. "its worker has no descriptor left; raise"
  .. " worker_rlimit_nofile, to 3 for each request that waits for a lock or holds one,"
  .. " and the rest"

-- A phase in which nginx lets Lua yield, but without a patch that not every nginx
-- has the handshake ends there.
local HELLO = "ssl_client_hello"

local function can_yield()
  return core.yieldable() and ngx.get_phase() ~= HELLO
end

function M.loop(chosen)
  return chosen ~= "none" and can_yield() and M or nil
end

--- Why a client can't be had: message, code; nothing if it can. A gRPC that was
-- started before the workers are forked is dead in all of them.
function M.too_early()
  if ngx.get_phase() == "init" then
    return "etcdlock can't connect in init_by_lua, before nginx forks its workers;"
      .. " require it there, and connect in init_worker_by_lua or later", "context"
  end
end

function M.log(message)
  ngx.log(ngx.WARN, message)
end

-- Where nothing can wait, whatever is on the stack.
local CANNOT_WAIT = {
  init_worker = true, set = true, header_filter = true, body_filter = true, log = true,
  balancer = true, ssl_session_store = true, exit_worker = true, [HELLO] = true,
}

--- Why a wait can't be here: message, code; nothing if it can.
function M.refusal(chosen)
  if chosen == "none" or can_yield() then
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

--- Timers only: the requests of a worker that exits are served in good order, but a
-- timer's wait, which may be for ever, would keep it alive, and what it took would be
-- held by a worker that is to go.
function M.leaving()
  if ngx.get_phase() == "timer" and ngx.worker.exiting() then
    return "nginx's worker exits, and its timers take no lock and wait for none any more",
      "premature"
  end
end

-- ---- the end of clients ----

local CLOSE_LOOK = 0.001 -- seconds, at first
local CLOSE_LOOK_MOST = 0.05

--- Where nothing can wait here, the core closes the client alone, and the collector frees it.
function M.close(core_client, seconds)
  core_client:begin_close(seconds)
  if can_yield() then
    local look = CLOSE_LOOK
    while not core_client:has_stopped() do
      ngx.sleep(look)
      look = math.min(look * 2, CLOSE_LOOK_MOST)
    end
    core_client:close(0)
  end
end

M.connected = collector.notice

-- ---- connections ----

-- The path of a closed client's socket may be another's later; so a pool has
-- a name that is never used again.
local pools = 0

local function open(wakeups)
  local path, failure, code = wakeups.core:serve(wakeups.socket_dir)
  if not path then
    return nil, failure, code
  end
  if not wakeups.pool then
    pools = pools + 1
    wakeups.pool = "etcdlock/" .. pools
    wakeups.shared = setmetatable({}, { __mode = "k" })
  end
  local socket = ngx.socket.tcp()
  socket:settimeouts(SEND_MS, SEND_MS, FOREVER_MS)
  local next_fd = wakeups.core:next_fd()
  local ok, why = socket:connect("unix:" .. path, { pool = wakeups.pool, pool_size = POOL_SIZE })
  if not ok then
    -- What nginx says is true of descriptors only, of which another thread may have taken
    -- the last one a moment ago: where it has no connection to give, it tells an error of
    -- some time before.
    local is_full = next_fd < 0 or why:find("too many open files", 1, true)
    return nil, is_full and NOT_ACCEPTED or NOT_MADE, "nomem"
  end
  if socket:getreusedtimes() == 0 then
    -- Not every nginx does it. A program that os.execute starts would keep the
    -- connection open when the request has ended.
    wakeups.core:seal(next_fd)
  end
  return socket
end

--- A link is the connection of a wait: its number, the socket, whether the core
-- has still to greet it (is_new), whether the number was said to the core,
-- whose answer, a byte, was not read yet (is_said), whether a light thread reads from it
-- (is_read), and how many locks are tied to it (n_tied), which end with it. For a new wait:
-- link | nil, message, code. Neither this nor `read` yields before the core knows the lock and
-- the connection: a light thread may be ended wherever it yields.
local function connect(wakeups)
  local socket, message, code = open(wakeups)
  if not socket then
    return nil, message, code
  end
  local number
  number, message, code = wakeups.core:expect()
  if not number then
    socket:close()
    return nil, message, code
  end
  return { number = number, socket = socket, is_new = socket:getreusedtimes() == 0, n_tied = 0 }
end

local function say(wakeups, link)
  if link.is_said then
    return true
  end
  link.is_said = true
  local ok = link.socket:send(("%016x"):format(link.number))
  wakeups.core:hear()
  return ok
end

local function receive(link, ms)
  link.socket:settimeout(ms)
  link.is_read = true -- stays true if nginx ends this light thread, which ends the connection, too
  local byte, why = link.socket:receive(1)
  link.is_read = false
  return byte, why
end

--- The core greets a new connection with a byte. Without it, it might never
-- learn of this wait: it may have no descriptor left to accept with.
local function await_greeting(link)
  if link.is_new then
    link.is_new = not receive(link, GREETING_MS)
  end
  return not link.is_new
end

--- Reads the byte that says that the wait is over, or that `seconds` are; what is
-- wrong with the connection, if it is: message, code.
local function read(wakeups, link, seconds)
  local has_alarm = seconds and wakeups.core:alarm(link.number, seconds)
  local ok = say(wakeups, link) and await_greeting(link)
  if ok then
    local byte, why = receive(link, seconds and (seconds + SPARE) * 1000 or FOREVER_MS)
    link.is_said = not byte
    ok = byte or why == "timeout"
  end
  if has_alarm then
    wakeups.core:alarm(link.number, nil)
  end
  if not ok then
    return NOT_ACCEPTED, "nomem"
  end
end

--- Reads as above, but returns early if a lock of this request with on_lost is
-- lost.
local function read_or_lose(wait, link, seconds)
  local client, heard = wait.wakeups.core, {}
  for lock in pairs(wait.losses and wait.losses.locks or {}) do
    if ties.is_here(lock._tie) and client:arm(lock._core, "ended", link.number) then
      heard[#heard + 1] = lock._core
    end
  end
  local message, code = read(wait.wakeups, link, seconds)
  for _, core_lock in ipairs(heard) do
    client:disarm(core_lock, "ended", link.number)
  end
  return message, code
end

--- Gives the connection of a wait that is over to the next one. Only one whose
-- every byte was read: the next one must not be woken by ours.
local function keep(wakeups, link)
  local is_unanswered = wakeups.core:taken(link.number)
  if link.is_new or link.is_said and not is_unanswered then
    link.socket:close()
  else
    link.socket:setkeepalive(IDLE_MS)
  end
end

-- ---- ties ----

--- Ties the lock of `tie` to that connection; false if it has ended.
local function bind(wakeups, tie, link)
  local is_tied = wakeups.core:tie(link.number, tie.core_lock)
  if is_tied then
    link.n_tied, tie.link = link.n_tied + 1, link
  end
  return is_tied
end

local function unbind(wakeups, tie, link)
  wakeups.core:untie(link.number, tie.core_lock)
  link.n_tied = link.n_tied - 1
  if link.n_tied == 0 then
    keep(wakeups, link)
  end
end

--- The lock of this tie is held from now on. All locks of a request share the connection of
-- the first one: a request that holds many would use up the worker's.
function M.share(wakeups, tie)
  local own, request = tie.link, tie.scope
  if not own or not request then
    return
  end
  local shared = wakeups.shared[request]
  if not shared or shared.n_tied == 0 or shared.is_read or not ties.is_usable(shared) then
    wakeups.shared[request] = own
  elseif shared ~= own and bind(wakeups, tie, shared) then
    unbind(wakeups, tie, own)
  end
end

function M.untie(wakeups, tie)
  local link = tie and tie.link
  if link then
    tie.link = nil
    -- Another request's socket can't be touched; it ends with that request.
    pcall(unbind, wakeups, tie, link)
  end
end

-- ---- waits ----

--- A lock is tied to the connection of its wait, and ends with the request that waited
-- for it.
local function wait_tied(wait, seconds, tie)
  if not tie.link then
    local link, message, code = connect(wait.wakeups)
    if not link then
      return message, code
    end
    bind(wait.wakeups, tie, link)
    say(wait.wakeups, link)
  end
  if wait:arm(tie.link.number) then
    return read_or_lose(wait, tie.link, seconds)
  end
  -- Over already; but it must be tied.
  if not await_greeting(tie.link) then
    return NOT_ACCEPTED, "nomem"
  end
end

--- The limit of a wait in seconds must fit the cosocket's clock.
local function bounded(seconds)
  return seconds and seconds < LONGEST and seconds or nil
end

--- May the running light thread wait on that connection? If it is ended while it does so,
-- nginx closes the connection, and with it all locks that are tied to it end.
local function can_wait_on(link)
  return link.n_tied == 1 and ties.is_usable(link)
end

local function wait_once(wait, seconds)
  local tie = wait.tie
  seconds = bounded(seconds)
  if tie and (not tie.link or can_wait_on(tie.link)) then
    return wait_tied(wait, seconds, tie)
  end
  local link, message, code = connect(wait.wakeups)
  if not link then
    return message, code
  end
  if wait:arm(link.number) then
    message, code = read_or_lose(wait, link, seconds)
  end
  keep(wait.wakeups, link)
  return message, code
end

--- nginx doesn't tell a timer that runs already that its worker exits, so that one
-- looks now and then.
function M.wait(wait, seconds)
  if not wait.ends_early or ngx.get_phase() ~= "timer" then
    return wait_once(wait, seconds)
  end
  local message, code = wait_once(wait, math.min(seconds or LOOK_EVERY, LOOK_EVERY))
  if code then
    return message, code
  end
  return M.leaving()
end

-- ---- locks and requests ----

M.tie = ties.new
M.notice_end = ties.notice_end
M.is_reentered = ties.is_reentered
M.is_told = ties.is_told
M.is_waiting = ties.is_here
M.is_past = ties.is_past
M.run = ties.run
M.is_cut_off = ties.is_cut_off

return M
