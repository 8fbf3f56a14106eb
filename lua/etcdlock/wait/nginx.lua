--- nginx as what Lua runs in (runtime.lua) and as an event loop. A light thread that waits reads
-- from a cosocket, which is connected to a unix socket of this process: the core's wake server. It
-- sends its wake number, and the server answers with one byte when the number is pushed: a wake-up
-- without data.
--
-- If nginx ends the light thread (the request was aborted, the worker exits), it runs no Lua, but
-- closes the connection. The wake server sees that, and releases the locks that are bound to the
-- connection. So a light thread yields only in `receive`, after the server knows the number, the
-- connection and the lock.
--
-- A connection is in one of these states:
--   pooled   in nginx's pool, without a wake number; every byte that was sent over it was read
--   waiting  a light thread reads from it; ends with end_nginx_wait
--   holding  locks are bound to it, and nothing reads from it. All locks of a request share the
--            connection of the first one. A lock that has it alone waits on it in `unlock`.
local core = require "etcdlock.core"
local collector = require "etcdlock.wait.collector"

local M = {
  hides_environment = true,
  --- See runtime.lua. As lua-resty-lock's: a wait without limit would keep a request, and perhaps
  -- the locks that it holds, until its HTTP client goes away.
  DEFAULT_TIMEOUT = 5,
}

local ngx = rawget(_G, "ngx")
local POOL_SIZE = 128
local IDLE_MS = 10000
local SEND_MS = 2000
local GREETING_MS = 5000
-- Seconds that a cosocket waits longer than the core's alarm, which ends a wait in time: a cosocket
-- that times out writes a line to nginx's log.
local SPARE = 5
local FOREVER_MS = 2147483647
local LIMIT_MAX = 2e6 -- seconds that fit into a cosocket's timeout
local EXIT_CHECK = 1 -- seconds
local NO_CONNECTION = "etcdlock cannot wait here, it has no connection to its own thread: "
local NOT_MADE = NO_CONNECTION .. "nginx has none left; raise worker_connections,"
  .. " to 2 for each request that waits for a lock or holds one, and the rest"
-- The wake server closes a new connection, or does not greet it, if no descriptor is free.
local NOT_ACCEPTED = NO_CONNECTION .. "its worker has no descriptor left; raise"
  .. " worker_rlimit_nofile, to 3 for each request that waits for a lock or holds one,"
  .. " and the rest"

-- ---- where Lua can wait ----

-- The phases in which nothing can wait. nginx has no cosockets there, also not in a coroutine that
-- can yield. It lets Lua yield in ssl_client_hello, but without a patch that not every nginx has, a
-- yield breaks the TLS handshake.
local CANNOT_WAIT = {
  init_worker = true, set = true, header_filter = true, body_filter = true, log = true,
  balancer = true, ssl_client_hello = true, ssl_session_store = true, exit_worker = true,
}

local function can_yield()
  return core.yieldable() and not CANNOT_WAIT[ngx.get_phase()]
end

--- See runtime.lua.
function M.loop(chosen)
  return chosen ~= "none" and can_yield() and M or nil
end

--- See runtime.lua. A gRPC that was started before nginx forks its workers is dead in all of them.
function M.too_early()
  if ngx.get_phase() == "init" then
    return "etcdlock cannot connect in init_by_lua, before nginx forks its workers;"
      .. " require it there, and connect in init_worker_by_lua or later", "context"
  end
end

--- See runtime.lua.
function M.log(message)
  ngx.log(ngx.WARN, message)
end

--- See runtime.lua.
function M.advise(message, is_error)
  ngx.log(is_error and ngx.ERR or ngx.WARN, message)
end

--- See runtime.lua.
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

--- See runtime.lua. Concerns timers only: a worker that exits serves its requests to their end, but
-- a timer's wait without limit would keep the worker alive, and hold the lock afterwards.
function M.leaving()
  if ngx.get_phase() == "timer" and ngx.worker.exiting() then
    return "nginx's worker exits, and its timers take no lock and wait for none any more",
      "premature"
  end
end

-- ---- bindings ----

-- A binding of a lock to its request has these fields:
--   core_lock   of the core
--   scope       ngx.ctx of the request; nil outside a request
--   phase       in which the lock was requested
--   connection  that ends with the request; nil: none, because the lock did not wait there

-- The phases of a request that run one after the other. The other phases run within them.
local ORDER = { server_rewrite = 1, set = 2, rewrite = 3, access = 4, preread = 4, content = 5 }

--- Returns the running request's ngx.ctx, which no other request has; nil outside a request. An
-- internal redirect (ngx.exec, error_page) begins a new ngx.ctx in the same request.
local function find_scope()
  local ok, ctx = pcall(function()
    return ngx.ctx
  end)
  return ok and ctx or nil
end

--- See runtime.lua.
function M.bind(core_lock)
  return { core_lock = core_lock, scope = find_scope(), phase = ngx.get_phase() }
end

--- Returns whether the running request has made this connection, and the connection is open. The
-- socket of another request raises an error; that of a request that has ended is closed.
local function is_usable(connection)
  local socket = connection.socket
  return socket:getreusedtimes() ~= nil and (pcall(socket.receive, socket, 0))
end

--- Returns whether this binding's connection is open and of the running request. The binding may be
-- of another request, with an owner of the same name; and nginx closes the connection if it ends
-- the light thread that waits.
local function is_here(binding)
  return binding ~= nil and binding.connection ~= nil and is_usable(binding.connection)
end

M.is_waiting = is_here

local function has_connection(lock)
  return lock._binding ~= nil and lock._binding.connection ~= nil
end

--- Returns whether the running request has taken the lock.
local function is_own(lock)
  local binding = lock._binding
  if has_connection(lock) then
    return is_usable(binding.connection)
  end
  return binding ~= nil and binding.scope ~= nil and binding.scope == find_scope()
end

--- Returns whether the binding was made in an earlier phase of the running request.
local function is_of_earlier_phase(binding)
  local began, now = ORDER[binding.phase], ORDER[ngx.get_phase()]
  if began and now and began < now then
    return true
  end
  -- An internal redirect also ends the phases before it. It makes a new ngx.ctx; but a program can
  -- do that as well, so the request must be an internal one, too.
  return binding.scope ~= find_scope() and ngx.req.is_internal()
end

--- See runtime.lua. All phases of a request run in one coroutine. So if the owner is a coroutine, a
-- call in a later phase would find the same owner; it is another owner, because nothing of the
-- earlier phase is left to unlock.
function M.is_reentered(lock)
  if type(lock._acquisition.owner) ~= "thread" then
    return is_own(lock)
  end
  return is_here(lock._binding) and not is_of_earlier_phase(lock._binding)
end

--- See runtime.lua.
function M.is_told(lock)
  return not has_connection(lock) or is_usable(lock._binding.connection)
end

--- See runtime.lua.
function M.is_past(lock)
  return is_own(lock) and is_of_earlier_phase(lock._binding)
end

--- See runtime.lua.
function M.run(within)
  return { coroutine = coroutine.running(), within = within }
end

local function is_on_stack(of, fn)
  local level = 0
  repeat
    local info = debug.getinfo(of, level, "f")
    if info and info.func == fn then
      return true
    end
    level = level + 1
  until not info
  return false
end

--- See runtime.lua. ngx.exit, ngx.exec and ngx.thread.kill end a function without an error; its
-- coroutine may run another function afterwards.
function M.is_cut_off(lock)
  local run = lock._run
  return is_own(lock)
    and (coroutine.status(run.coroutine) == "dead" or not is_on_stack(run.coroutine, run.within))
end

--- See runtime.lua. nginx closes a request's connections before it runs log_by_lua: a call there
-- must see the end of the lock at once, and not when the wake server has noticed it.
function M.notice_end(core_lock, binding)
  local connection = binding and binding.connection
  if connection and not connection.socket:getreusedtimes() then
    core_lock:outlive()
  end
end

-- ---- connections ----

-- A connection has these fields:
--   number         its wake number
--   socket         cosocket
--   is_new         the wake server has not greeted it yet
--   is_sent        the number was sent, and no byte was read for it yet
--   is_being_read  a light thread reads from it
--   n_locks        how many locks are bound to it

-- Each client has a pool with a name that is never used again: another client's socket may get the
-- path of a closed client's socket.
local n_pools = 0

--- Connects for the wake number `number`; `path` and `next_fd` are what begin_nginx_wait returned:
-- connection | nil, message, code. Does not yield.
local function connect(wakeups, number, path, next_fd)
  if not wakeups.pool then
    n_pools = n_pools + 1
    wakeups.pool = "etcdlock/" .. n_pools
    wakeups.shared = setmetatable({}, { __mode = "k" }) -- ngx.ctx -> connection of held locks
  end
  local socket = ngx.socket.tcp()
  socket:settimeouts(SEND_MS, SEND_MS, FOREVER_MS)
  local ok, err = socket:connect("unix:" .. path, { pool = wakeups.pool, pool_size = POOL_SIZE })
  if not ok then
    -- nginx's message is reliable for descriptors only: another thread may have taken the last one
    -- since next_fd was found. If nginx has no connection left, it reports an older error.
    local is_full = next_fd < 0 or err:find("too many open files", 1, true)
    return nil, is_full and NOT_ACCEPTED or NOT_MADE, "nomem"
  end
  return {
    number = number, socket = socket, is_new = socket:getreusedtimes() == 0,
    is_sent = false, is_being_read = false, n_locks = 0,
  }
end

--- Sends the wake number and has the wake server read it: false if that fails. Does not yield,
-- because the socket's buffer has room for it.
local function send_number(wakeups, connection, next_fd)
  connection.is_sent = true
  local ok = connection.socket:send(("%016x"):format(connection.number))
  -- Not every nginx makes the descriptor of a new connection close-on-exec. A program that
  -- os.execute starts would keep it open after the request has ended.
  wakeups.core:receive_numbers(connection.is_new and next_fd or nil)
  return ok
end

local function receive(connection, ms)
  connection.socket:settimeout(ms)
  -- Stays true if nginx ends this light thread, and with it the connection.
  connection.is_being_read = true
  local byte, err = connection.socket:receive(1)
  connection.is_being_read = false
  return byte, err
end

--- Reads the byte with which the wake server greets a new connection: false if none comes. The
-- server may have had no descriptor to accept the connection, and then never reads the number.
local function await_greeting(connection)
  if connection.is_new then
    connection.is_new = not receive(connection, GREETING_MS)
  end
  return not connection.is_new
end

--- Reads the byte that answers the number, for `seconds` at most: false if the connection is
-- broken.
local function read_answer(connection, seconds)
  local ms = seconds and (seconds + SPARE) * 1000 or FOREVER_MS
  local byte, err = receive(connection, ms)
  connection.is_sent = not byte
  return byte or err == "timeout"
end

--- Ends the use of a connection by its wake number. If all its bytes were read, the connection goes
-- into nginx's pool, where the next number finds it. Otherwise it is closed, because a late byte
-- would wake that next number. `is_unanswered`: the wake server has sent no byte for the number,
-- and will send none.
local function release(connection, is_unanswered)
  if connection.is_new or connection.is_sent and not is_unanswered then
    connection.socket:close()
  else
    connection.socket:setkeepalive(IDLE_MS)
  end
end

--- See runtime.lua. All locks of a request share the connection of the first one: a request that
-- holds many would use up the worker's connections.
function M.share(wakeups, binding)
  local own, request = binding.connection, binding.scope
  if not own or not request then
    return
  end
  local shared = wakeups.shared[request]
  if not shared or shared.n_locks == 0 or shared.is_being_read or not is_usable(shared) then
    wakeups.shared[request] = own
  elseif shared ~= own then
    local is_unanswered = wakeups.core:merge_connections(own.number, shared.number)
    if is_unanswered ~= nil then
      shared.n_locks, binding.connection = shared.n_locks + 1, shared
      release(own, is_unanswered)
    end
  end
end

--- See runtime.lua.
function M.unbind(wakeups, binding)
  local connection = binding and binding.connection
  if not connection then
    return
  end
  binding.connection = nil
  connection.n_locks = connection.n_locks - 1
  local is_unanswered = wakeups.core:unbind(connection.number, binding.core_lock)
  if connection.n_locks == 0 then
    -- The socket of another request raises an error; it is closed when that request ends.
    pcall(release, connection, is_unanswered)
  end
end

-- ---- waits ----

--- Returns a list of the core locks of this request with on_lost handlers, whose loss ends `wait`
-- early; nil: none.
local function find_listened(wait)
  local list
  for lock in pairs(wait.losses and wait.losses.locks or {}) do
    if is_here(lock._binding) then
      list = list or {}
      list[#list + 1] = lock._core
    end
  end
  return list
end

--- Returns the binding's connection if the running light thread may wait on it; nil if not. It may
-- not if other locks are bound to the connection: nginx closes the connection if it ends the light
-- thread, which releases all locks that are bound to it.
local function find_own(binding)
  local connection = binding and binding.connection
  return connection and connection.n_locks == 1 and is_usable(connection) and connection or nil
end

--- Sends the number of `connection` to the wake server, and waits up to `seconds` for the byte that
-- answers it. Returns false if the connection is broken, or was not accepted.
--   next_fd     as begin_nginx_wait returned it, for a new number. Nil: the connection has its
--               number from an earlier wait, and the server may know it already
--   is_pending  false: the event has occurred, so no byte will come. A new number is sent
--               nevertheless, because the server must know the connection of a lock
local function exchange(wakeups, connection, next_fd, is_pending, seconds)
  if not connection.is_sent and (next_fd or is_pending)
    and not send_number(wakeups, connection, next_fd) then
    return false
  end
  return await_greeting(connection) and (not is_pending or read_answer(connection, seconds))
end

--- Waits once, up to `seconds` (nil: no limit), and may return before the event has occurred.
-- Returns nil and the results of end_nginx_wait; or message, code if the wait is impossible.
local function wait_once(wait, seconds)
  local wakeups, binding = wait.wakeups, wait.binding
  local object, event, core_client = wait.object, wait.event, wakeups.core
  local listened, connection = find_listened(wait), find_own(binding)
  local is_bound = connection ~= nil or event == "decided"
  seconds = seconds and math.min(seconds, LIMIT_MAX)
  local number, is_pending, path, next_fd = core_client:begin_nginx_wait(object, event, seconds,
    listened, connection and connection.number, wakeups.socket_dir)
  if not number then
    return is_pending, path -- message, code
  end
  local message, code
  if not connection and (is_pending or is_bound) then
    connection, message, code = connect(wakeups, number, path, next_fd)
    if connection and is_bound then
      connection.n_locks, binding.connection = 1, connection
    end
  end
  if connection and not exchange(wakeups, connection, next_fd, is_pending, seconds) then
    message, code = NOT_ACCEPTED, "nomem"
  end
  local is_unanswered, a, b, c, d = core_client:end_nginx_wait(number, object, event,
    is_pending and seconds ~= nil, listened, is_bound and not message)
  if is_unanswered ~= nil and is_bound then -- the number is given up
    binding.connection = nil
  end
  if is_unanswered ~= nil and connection then
    connection.n_locks = 0
    release(connection, is_unanswered and not message)
  end
  if message then
    return message, code
  end
  return nil, a, b, c, d
end

--- As `wait` of loop.lua. nginx does not tell a running timer that its worker exits, so a timer
-- checks that every EXIT_CHECK seconds.
function M.wait(wait, seconds)
  if not wait.ends_early or ngx.get_phase() ~= "timer" then
    return wait_once(wait, seconds)
  end
  local message, a, b, c, d = wait_once(wait, math.min(seconds or EXIT_CHECK, EXIT_CHECK))
  local reason, code = M.leaving()
  if message or not reason then
    return message, a, b, c, d
  end
  return reason, code
end

-- ---- clients ----

local CLOSE_CHECK, CLOSE_CHECK_MAX = 0.001, 0.05 -- seconds; doubles up to CLOSE_CHECK_MAX

--- See runtime.lua. Where nothing can wait, the core closes the client in the background, and the
-- collector frees it.
function M.close(core_client, seconds)
  core_client:begin_close(seconds)
  if can_yield() then
    local pause = CLOSE_CHECK
    while not core_client:has_stopped() do
      ngx.sleep(pause)
      pause = math.min(pause * 2, CLOSE_CHECK_MAX)
    end
    core_client:close(0)
  end
end

--- See runtime.lua.
function M.connected(core_client)
  collector.record(core_client, find_scope())
end

return M
