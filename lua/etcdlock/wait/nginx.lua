--- The runtime (runtime.lua) and the event loop (loop.lua) of nginx.
--
-- The core runs a wake server, which listens on a Unix socket of this process. A light thread that
-- waits connects a cosocket to it, sends a wake number (waits.lua), and reads, after a greeting,
-- one byte. The server sends this byte when the core pushes the number. The byte wakes the light
-- thread; it has no other meaning. The connection keeps its number: for the next wait on it,
-- nothing is sent.
--
-- If nginx ends a light thread (the request was aborted, the worker exits), it closes the cosocket,
-- but runs no Lua code. So the locks of a request are bound to a connection: when the wake server
-- finds a connection closed, it releases the locks that are bound to it. Therefore a light thread
-- yields only in `receive`, after the lock was bound to the number, and the number was sent.
--
-- A connection is in one of these states:
--   idle     in nginx's connection pool: all bytes that the server has sent were read
--   waiting  a light thread reads from it, until end_nginx_wait
--   holding  locks are bound to it, and no light thread reads from it. The locks of a request
--            mostly share one connection (M.share). If only one lock is bound to it, `unlock` of
--            the lock waits on it.
local core = require "etcdlock.core"
local collector = require "etcdlock.wait.collector"

local M = {
  hides_environment = true,
  has_error_log = true,
  --- See runtime.lua. The default of lua-resty-lock. Without a limit a request could wait, and keep
  -- the locks that it holds, until its HTTP client goes away.
  DEFAULT_TIMEOUT = 5,
}

local ngx = rawget(_G, "ngx")
local IDLE_MAX = 128 -- idle connections of one client in a worker
local IDLE_MS = 10000 -- after which nginx closes an idle connection
local SEND_MS = 2000 -- timeout of connect and send
local GREETING_MS = 5000 -- timeout of the wake server's greeting
-- The timeout of the cosocket is the limit of the wait plus SPARE seconds. So the core's alarm ends
-- the wait first: nginx would log an error if the cosocket timed out.
local SPARE = 5
local FOREVER_MS = 2147483647 -- the longest timeout of a cosocket, for a wait without a limit
local LIMIT_MAX = 2e6 -- seconds; the longest limit of one wait, which fits into such a timeout
local EXIT_CHECK = 1 -- seconds between two checks whether the worker exits
local NO_CONNECTION = "etcdlock cannot wait here, it has no connection to its own thread: "
local NOT_MADE = NO_CONNECTION .. "nginx has none left; raise worker_connections,"
  .. " to 2 for each request that waits for a lock or holds one, and the rest"
-- If the process has no free descriptor, the wake server closes a new connection, or cannot accept
-- it and so does not greet it.
local NOT_ACCEPTED = NO_CONNECTION .. "its worker has no descriptor left; raise"
  .. " worker_rlimit_nofile, to 3 for each request that waits for a lock or holds one,"
  .. " and the rest"
local NOT_SENT = NO_CONNECTION .. "nginx cannot send on it: "
local CLOSED_BY_SERVER = { -- nginx's errors
  ["closed"] = true, ["broken pipe"] = true, ["connection reset by peer"] = true,
}

-- ---- where Lua can wait ----

-- The phases in which no call can wait, because nginx has no cosockets there, not even in a
-- coroutine that can yield. The exceptions are ssl_client_hello and ssl_session_fetch: Lua can
-- yield in them, but then nginx breaks the TLS handshake or drops the handler, unless it or OpenSSL
-- was built with a certain patch.
local CANNOT_WAIT = {
  init_worker = true, set = true, header_filter = true, body_filter = true, log = true,
  balancer = true, ssl_client_hello = true, ssl_session_fetch = true, ssl_session_store = true,
  exit_worker = true,
}

-- Returns true if the running light thread can yield, and has cosockets to wait with.
local function can_yield()
  return core.yieldable() and not CANNOT_WAIT[ngx.get_phase()]
end

--- See runtime.lua. nginx forks its workers after init_by_lua. gRPC's threads do not survive a
-- fork, so a client that was made before it would not work in any worker.
function M.too_early()
  if ngx.get_phase() == "init" then
    return "etcdlock cannot connect in init_by_lua, before nginx forks its workers;"
      .. " require it there, and connect in init_worker_by_lua or later", "context"
  end
end

--- See runtime.lua. By default, nginx's error log omits warnings.
function M.log(message, is_warning)
  ngx.log(is_warning and ngx.WARN or ngx.ERR, message)
end

--- See runtime.lua.
function M.loop(chosen)
  if chosen == "none" then
    return nil
  elseif can_yield() then
    return M
  end
  local phase = ngx.get_phase()
  local why = "a C function such as table.sort, string.gsub or require is on the stack"
  if CANNOT_WAIT[phase] then
    why = ("this is %s_by_lua"):format(phase)
  end
  return nil, ("waiting here would stop nginx's worker (%s); the phases rewrite, access and content"
    .. " can wait, and ngx.timer.at(0, …)"):format(why), "context"
end

--- See runtime.lua. In a worker that exits, only timers take no lock: its requests are still served
-- to their end. But a timer that waits without a limit would keep the worker alive, and would take
-- the lock in the end.
function M.leaving()
  if ngx.get_phase() == "timer" and ngx.worker.exiting() then
    return "nginx's worker exits, and its timers take no lock and wait for none any more",
      "premature"
  end
end

-- ---- bindings ----

-- A binding of a lock to its request has these fields:
--   core_lock   the lock in the core
--   scope       ngx.ctx of the request; nil outside a request
--   phase       the phase of the request in which the lock was requested
--   connection  the connection to which the lock is bound, and which ends with the request; nil if
--               the lock is not bound to a connection: it has not waited in nginx, or has ended

-- The order in which a request runs these phases. Other phases do not count as earlier or later.
local ORDER = { server_rewrite = 1, set = 2, rewrite = 3, access = 4, preread = 4, content = 5 }

local function get_ctx()
  return ngx.ctx
end

--- Returns ngx.ctx, a table that identifies the running request; nil outside a request. After an
-- internal redirect (ngx.exec, error_page) the same request has a new ngx.ctx.
local function find_scope()
  local ok, ctx = pcall(get_ctx)
  return ok and ctx or nil
end

--- See runtime.lua.
function M.bind(core_lock)
  return { core_lock = core_lock, scope = find_scope(), phase = ngx.get_phase() }
end

--- Returns true if the connection is open and the running request has made it. (nginx closes the
-- sockets of a request that ends. A call of another request's socket raises an error.)
local function is_usable(connection)
  local socket = connection.socket
  return socket:getreusedtimes() ~= nil and (pcall(socket.receive, socket, 0))
end

--- Returns true if the binding has a connection that is open and that the running request has made.
-- Not every binding has one: another request may have used the same `owner`, and if nginx ends the
-- light thread that waits on the connection, it closes the connection.
local function is_here(binding)
  return binding ~= nil and binding.connection ~= nil and is_usable(binding.connection)
end

M.is_waiting = is_here

local function has_connection(lock)
  return lock._binding ~= nil and lock._binding.connection ~= nil
end

--- Returns true if the running request has taken the lock.
local function is_own(lock)
  local binding = lock._binding
  if has_connection(lock) then
    return is_usable(binding.connection)
  end
  return binding ~= nil and binding.scope ~= nil and binding.scope == find_scope()
end

--- Returns true if the binding was made in an earlier phase of the running request, or before its
-- internal redirect.
local function is_of_earlier_phase(binding)
  local began, now = ORDER[binding.phase], ORDER[ngx.get_phase()]
  if began and now and began < now then
    return true
  end
  -- After an internal redirect the phases begin again, with a new ngx.ctx. A program can assign
  -- ngx.ctx, too, so a new ngx.ctx alone does not prove a redirect: is_internal() must be true.
  return binding.scope ~= find_scope() and ngx.req.is_internal()
end

--- See runtime.lua. The phases of a request may run in one coroutine, and are then one owner by
-- default. But a later phase must not take the lock of an earlier phase again: the code of the
-- earlier phase has ended without an unlock, so the count of the lock would never become 0.
function M.is_reentered(lock)
  if type(lock._owner) ~= "thread" then
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

-- Returns true if the coroutine `of` runs the function `fn`.
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

--- See runtime.lua. After ngx.exit, ngx.exec or ngx.thread.kill the function is no longer on the
-- stack of its coroutine. The coroutine is dead, or runs another function.
function M.is_cut_off(lock)
  local run = lock._call.run
  return run ~= nil and is_own(lock)
    and (coroutine.status(run.coroutine) == "dead" or not is_on_stack(run.coroutine, run.within))
end

--- See runtime.lua. nginx closes the connections of a request before it runs log_by_lua. A call in
-- that phase must find the lock ended at once, although the wake server may notice the closed
-- connection later.
function M.notice_end(core_lock, binding)
  local connection = binding and binding.connection
  if connection and not connection.socket:getreusedtimes() then
    core_lock:outlive()
  end
end

-- ---- connections ----

-- A connection to the wake server has these fields:
--   number         its wake number
--   pool           the options of its connect: they name a pool of nginx for this connection alone
--   socket         its cosocket
--   is_new         true: the wake server has not greeted it yet
--   is_sent        true: the number was sent, or a byte was requested, and the byte that answers
--                  was not read yet
--   is_being_read  true: a light thread reads from it
--   n_locks        number of locks that are bound to it

-- Number of pools so far. The name of a pool is never used again. The path of the socket would be
-- no such name: after a client is closed, the wake server of another client may get the same path.
local n_pools = 0

local function new_connection(number, pool, socket, is_new)
  return {
    number = number, pool = pool, socket = socket, is_new = is_new,
    is_sent = false, is_being_read = false, n_locks = 0,
  }
end

--- Connects to the wake server for the new wake number `number`. `next_fd` is a result of the
-- core's begin_nginx_wait: the lowest free descriptor of this process, which the new connection
-- will get; negative if none is free. Returns the connection; or nil, message, code. Does not
-- yield.
local function connect(wakeups, number, next_fd)
  n_pools = n_pools + 1
  local socket, pool = ngx.socket.tcp(), { pool = "etcdlock/" .. n_pools, pool_size = 1 }
  socket:settimeouts(SEND_MS, SEND_MS, FOREVER_MS)
  local ok, err = socket:connect(wakeups.address, pool)
  if not ok then
    -- Either no descriptor is free or nginx has no worker connection left. In the second case nginx
    -- reports an unrelated older error, so the message can show the first case only. It is needed
    -- besides next_fd, because another thread may have taken the last descriptor meanwhile.
    local is_full = next_fd < 0 or err:find("too many open files", 1, true)
    return nil, is_full and NOT_ACCEPTED or NOT_MADE, "nomem"
  end
  return new_connection(number, pool, socket, true)
end

--- Returns an idle connection; nil if there is none. Does not yield.
local function take_idle(wakeups)
  local idle = wakeups.idle[#wakeups.idle]
  while idle do
    wakeups.idle[#wakeups.idle] = nil
    local socket = ngx.socket.tcp()
    if socket:connect(wakeups.address, idle.pool) then
      if socket:getreusedtimes() > 0 then
        return new_connection(idle.number, idle.pool, socket, false)
      end
      socket:close() -- nginx has closed the idle connection and made another one
    end
    idle = wakeups.idle[#wakeups.idle]
  end
end

--- Sends the number of a new connection to the wake server, and then calls receive_numbers, in
-- which the core reads it at once, if the server has accepted the connection already. Does not
-- yield, because the socket's buffer always has room for one number. Returns a true value; or nil
-- and nginx's error.
local function send_number(wakeups, connection, next_fd)
  connection.is_sent = true
  local ok, err = connection.socket:send(("%016x"):format(connection.number))
  -- The descriptor of the connection is passed to the core, which makes it close-on-exec; not every
  -- nginx does. Otherwise a program that os.execute starts would keep the connection open after the
  -- request, and with it the locks.
  wakeups.core:receive_numbers(next_fd)
  return ok, err
end

-- Reads one byte. Returns the byte; or nil and the socket's error.
local function receive(connection, ms)
  connection.socket:settimeout(ms)
  -- Stays true if nginx ends this light thread, and closes the connection: M.share must not use it.
  connection.is_being_read = true
  local byte, err = connection.socket:receive(1)
  connection.is_being_read = false
  return byte, err
end

--- Reads the byte with which the wake server greets a new connection. Returns false if no byte
-- comes: the server had no descriptor to accept the connection, and will not read the number.
local function await_greeting(connection)
  if connection.is_new then
    connection.is_new = not receive(connection, GREETING_MS)
  end
  return not connection.is_new
end

--- Reads the byte that was sent, or will be sent, on the connection, for at most `seconds` (nil: no
-- limit) and SPARE. Returns a true value if the byte came, or did not come in time; otherwise
-- false, because the connection is broken.
local function read_answer(connection, seconds)
  local ms = seconds and (seconds + SPARE) * 1000 or FOREVER_MS
  local byte, err = receive(connection, ms)
  connection.is_sent = not byte
  return byte or err == "timeout"
end

--- Returns a free connection to nginx's pool, or closes it. It must be closed if the wake server
-- may have sent a byte that was not read: that byte would wake the next wait on the connection.
-- `is_unanswered` is true if the server has sent no byte since the number was sent or a byte was
-- requested, and will send none.
local function release(wakeups, connection, is_unanswered)
  if connection.is_new or connection.is_sent and not is_unanswered
    or #wakeups.idle >= IDLE_MAX then
    connection.socket:close()
  elseif connection.socket:setkeepalive(IDLE_MS) then
    table.insert(wakeups.idle, connection)
  end
end

--- See runtime.lua. A lock shares the connection of an earlier lock of its request, unless a light
-- thread reads from that connection. With one connection for each lock, a request that holds many
-- locks would use up worker_connections.
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
      release(wakeups, own, is_unanswered)
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
    -- Only the request that has created a cosocket can use it; elsewhere its methods raise an
    -- error. The error can be ignored, because nginx closes the cosocket when its own request ends.
    pcall(release, wakeups, connection, is_unanswered)
  end
end

-- ---- waits ----

--- Returns a list of core locks whose loss interrupts `wait`: the locks of the running request that
-- have on_lost functions. Returns nil if there are none, or the wait does not hear losses.
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

--- Returns the binding's connection if the running light thread may wait on it; nil if not. A light
-- thread must not wait on a connection that other locks are bound to: if nginx ends the light
-- thread, nginx closes the connection, and the wake server releases the other locks as well.
local function find_own(binding)
  local connection = binding and binding.connection
  return connection and connection.n_locks == 1 and is_usable(connection) and connection or nil
end

--- Makes the wake server wake the wait on `connection`, and waits for at most `seconds` (nil: no
-- limit) until the server sends a byte. Returns nothing; or message, code if nginx cannot send, the
-- connection is broken, or the server has not accepted it.
--   next_fd     see connect; nil if the connection is not new
--   is_pending  false: the event has occurred, so no byte will come. A new number is sent
--               nevertheless, because the server must know the connection of a lock
local function exchange(wakeups, connection, next_fd, is_pending, seconds)
  if connection.is_new then
    local ok, err = send_number(wakeups, connection, next_fd)
    if not ok and not CLOSED_BY_SERVER[err] then
      return NOT_SENT .. err, "context"
    end
  elseif is_pending and not connection.is_sent then
    connection.is_sent = true
    wakeups.core:request_byte(connection.number)
  end
  if not await_greeting(connection) or is_pending and not read_answer(connection, seconds) then
    return NOT_ACCEPTED, "nomem"
  end
end

--- Waits for at most `seconds` (nil: no limit); may return earlier, before the event has occurred.
-- Returns nil, and then the results of the core's end_nginx_wait. If the wait is impossible,
-- returns message, code.
local function wait_once(wait, seconds)
  local wakeups, binding = wait.wakeups, wait.binding
  local object, event, core_client = wait.object, wait.event, wakeups.core
  local listened, connection = find_listened(wait), find_own(binding)
  local is_bound = connection ~= nil or event == "decided"
  connection = connection or take_idle(wakeups)
  seconds = seconds and math.min(seconds, LIMIT_MAX)
  local number, is_pending, path, next_fd = core_client:begin_nginx_wait(object, event, seconds,
    listened, connection and connection.number, wakeups.socket_dir)
  if not number then
    return is_pending, path -- message, code
  end
  local message, code
  if not connection and (is_pending or is_bound) then
    wakeups.address = "unix:" .. path
    connection, message, code = connect(wakeups, number, next_fd)
  end
  if connection and is_bound and connection.n_locks == 0 then
    connection.n_locks, binding.connection = 1, connection
  end
  if connection then
    message, code = exchange(wakeups, connection, next_fd, is_pending, seconds)
  end
  local is_unanswered, a, b, c, d = core_client:end_nginx_wait(number, object, event,
    is_pending and seconds ~= nil, listened, is_bound and not message)
  if is_unanswered ~= nil and is_bound then -- the core has given up the number
    binding.connection = nil
  end
  if is_unanswered ~= nil and connection then
    connection.n_locks = 0
    release(wakeups, connection, is_unanswered and not message)
  end
  if message then
    return message, code
  end
  return nil, a, b, c, d
end

--- See loop.wait in loop.lua. nginx does not inform a running timer when its worker exits. So a
-- wait in a timer checks for it every EXIT_CHECK seconds.
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

--- See runtime.lua. If the running code cannot yield, this function returns at once: the core
-- closes the client in the background, and Lua's garbage collector frees it later.
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
