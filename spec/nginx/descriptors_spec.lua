-- Tests nginx workers with few descriptors or connections, or with descriptors that a child process
-- inherits, and the directory of the wake-up socket.
-- Needs: no sanitizer.

-- Regression 004. A program that an nginx worker starts inherits the worker's descriptors. epoll
-- reported the inherited copy of a closed connection, so the wake-up server used the connection
-- after it had freed it. Besides, the lock of an aborted request stayed held as long as such a
-- program ran.
it("a client works on after it closed a connection a child inherited", function()
  -- The forked process inherits both ends of the connection and closes the waiter's end.
  local child = proc.lua([[
    local endpoint, prefix, flag = ...
    local uv, test = require "luv", require("etcdlock.core").test
    local client = assert(require("etcdlock").connect { endpoints = endpoint, prefix = prefix })
    local core = client._core
    local function connect()
      local pipe, bytes = uv.new_pipe(false), 0
      pipe:connect(assert(select(3, core:begin_nginx_wait())), function(failure)
        assert(not failure, failure)
        pipe:read_start(function(_, data) bytes = bytes + #(data or "") end)
      end)
      while bytes == 0 do uv.run "once" end -- the greeting
      return pipe
    end
    local pipe = connect()
    if test.fork() == 0 then
      uv.fs_close(pipe:fileno()) -- not by the loop, which is the parent's, too
      io.open(flag, "w"):close()
      os.execute "sleep 1"
      test.exit_now(0)
    end
    while not io.open(flag) do uv.sleep(1) end
    pipe:close()
    uv.run "nowait"
    uv.sleep(100)
    connect():close()
    uv.run()
    assert(client:with_lock("a", function() end))
    client:close()
    print "alive"
  ]], etcd:endpoints(), prefix, temporary.directory() .. "/closed")
  child:expect("^alive$", 10)
  assert.same({ 0, 0 }, { child:wait() })
end)

it("the lock of an aborted request is released while a program that it started "
  .. "runs", function()
  local nginx = start_nginx {
    locations = {
      ["/pool"] = [[ ngx.say(assert(client:lock "hold"):unlock()) ]],
      ["/start"] = [[ os.execute "sleep 20 >/dev/null 2>&1 &" ngx.say "started" ]],
      ["/hold"] = [[
        ngx.ctx.kept = assert(client:lock "hold")
        os.execute "sleep 20 >/dev/null 2>&1 &"
        ngx.sleep(3600)
      ]],
    },
  }
  local function assert_abort_releases()
    local request = nginx:begin "/hold"
    wait.eventually(function() return #client:queue "hold" == 1 end, 5, "it holds")
    request:abort()
    wait.eventually(function() return #client:queue "hold" == 0 end, 3, "the release")
  end
  assert_abort_releases()
  assert.equal("true\n", nginx:get("/pool").body)
  -- The program inherits the HTTP connection of this request and keeps it open, so the test does
  -- not wait for the end of the connection.
  local start = nginx:begin "/start"
  wait.eventually(function() return start.text:find "started" end, 5, "the program")
  start:abort()
  assert_abort_releases() -- uses the pooled wake-up connection, which the program inherited
end)

-- Regression 005. A wait could lack a descriptor for the worker's end of its wake-up connection. If
-- the worker was busy while the lock was granted, the nginx request still got the lock. But the
-- lock was not tied to the request, so it stayed held after the request had ended.
it('a lock call without a descriptor for its wake-up connection fails with '
  .. '"nomem"', function()
  local nginx = start_nginx {
    logs_errors = true,
    files = 256,
    connections = 200,
    init_worker = [[
      -- The connection to etcd and the wake-up server get their descriptors here.
      local warm
      for _ = 1, 20 do -- etcd has 0.5 s each time, which a busy machine may not keep
        warm = warm or client:try_lock "warm"
      end
      assert(warm):unlock()
      assert(client._core:begin_nginx_wait())
    ]],
    locations = {
      ["/full"] = { conf = "lua_http10_buffering off;", content = [[
        local files = {}
        repeat
          local file = io.open "/dev/null"
          files[#files + 1] = file
        until not file
        table.remove(files):close() -- for the request's end of the connection only
        local thread = ngx.thread.spawn(function()
          return client:lock "full"
        end)
        local ends = ngx.now() + 0.1
        repeat ngx.update_time() until ngx.now() > ends
        local _, lock, message, code = ngx.thread.wait(thread)
        for _, file in ipairs(files) do file:close() end
        ngx.say(tostring(lock), " ", tostring(code), " ", tostring(message))
        ngx.flush()
        ngx.ctx.kept = lock
        ngx.sleep(3600)
      ]] },
    },
  }
  local request = nginx:begin "/full"
  wait.eventually(function() return request.text:find "lock" or request.text:find "nil" end, 5)
  assert.matches("nil nomem .*no connection to its own thread", request.text)
  request:abort()
  nginx:await("/stats", "0 0", 3)
end)

-- Regression 029. If a lock call in nginx could not set up its wait, its message named an error
-- number, or the wrong cause. The causes are a socket directory that is not writable (a read-only
-- /tmp), and too few nginx connections or descriptors.

-- Starts an nginx with |opts| and sends a request that waits for |count| locks at once. The client
-- creates its sockets in |socket_dir| if given. Returns the number of waits for each answer
-- ("held", or code and message), and the nginx.
local function answers_of(count, opts, socket_dir)
  opts.client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5, socket_dir = socket_dir }
  opts.locations = {
    ["/waits"] = ([[
      local threads, told = {}, {}
      local function wait(i)
        local lock, message, code = client:lock("a" .. i, { timeout = 5 })
        local line = code and code .. " " .. message or "held"
        told[line] = (told[line] or 0) + 1
        ngx.sleep(0.3)
        return lock and lock:unlock()
      end
      client:ping() -- the connection to etcd has its descriptors before the waits do
      for i = 1, %d do threads[i] = ngx.thread.spawn(wait, i) end
      for i = 1, #threads do ngx.thread.wait(threads[i]) end
      for line, n in pairs(told) do ngx.say(n, " ", line) end
    ]]):format(count),
  }
  opts.logs_errors = true
  local nginx = Nginx.start(opts)
  local told = {}
  for n, line in nginx:get("/waits").body:gmatch "(%d+) ([^\n]+)" do told[line] = tonumber(n) end
  return told, nginx
end

-- Checks that some of 40 waits in an nginx with |opts| fail, all of them with the reason |why|.
local function assert_no_room(opts, why)
  local told = answers_of(40, opts)
  assert.is_true((told.held or 0) < 40) -- nil if all fail
  told.held = nil
  local line = next(told)
  assert.equal("nomem etcdlock cannot wait here, it has no connection to its own thread: " .. why
    .. " for each request that waits for a lock or holds one, and the rest", line)
  assert.is_nil(next(told, line))
end

it("the error for too few connections names worker_connections", function()
  assert_no_room({ connections = 20 }, "nginx has none left; raise worker_connections, to 2")
end)

it("the error for too few descriptors names worker_rlimit_nofile", function()
  assert_no_room({ files = 60 },
    "its worker has no descriptor left; raise worker_rlimit_nofile, to 3")
end)

it("the error for a missing socket directory names it and socket_dir", function()
  local expected = [[^context cannot create the wake%-up socket below /proc/nowhere: ]]
    .. [[No such file or directory; set socket_dir of connect, or TMPDIR, ]]
    .. [[to a directory that this process can write to$]]
  local told = answers_of(2, {}, "/proc/nowhere")
  local line = next(told)
  assert.matches(expected, line)
  assert.equal(2, told[line])
end)

it("the wake-up socket is created in socket_dir instead of TMPDIR", function()
  local directory = temporary.directory()
  local told, nginx = answers_of(2, {}, directory)
  assert.same({ held = 2 }, told)
  local fd, path = next(nginx:wake_sockets())
  assert.equal(directory, path)
  assert.is_nil(next(nginx:wake_sockets(), fd))
end)

-- Returns what the Lua program |source| prints if /tmp is read-only. Returns nil if this user may
-- not mount /tmp read-only.
local function print_of(source)
  local mount = 'mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && exec "$@"'
  local child = "spec/support/programs/child.lua"
  local told, code = proc.run({
    "unshare", "-m", "sh", "-c", mount, "sh", uv.exepath(), child, source,
  }, { env = proc.lua_environment { TMPDIR = false } })
  return code == 0 and told or nil
end

it("the error for a read-only /tmp names /tmp and the cause", function()
  local told = print_of [[
    local client = require("etcdlock").connect()
    print(client._core:begin_nginx_wait())
    client:close()
  ]]
  if not told then
    return pending "this user can't make /tmp read-only for a process"
  end
  assert.matches("below /tmp: Read%-only file system; set socket_dir", told)
  assert.matches("context\n$", told)
end)
