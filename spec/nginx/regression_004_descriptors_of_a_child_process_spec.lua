-- A program that an nginx worker starts inherits the worker's descriptors. epoll reported the
-- inherited copy of a closed connection, so the wake-up server used the connection after it had
-- freed it. Besides, the lock of an aborted request stayed held as long as such a program ran.
-- Needs: no sanitizer.
local Nginx = require "spec.support.servers.nginx"
local etcdlock = require "etcdlock"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local temporary = require "spec.support.harness.temporary"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()

after_each(temporary.remove_all)

it("regression 004: a client works on after it closed a connection a child inherited", function()
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

it("regression 004: the lock of an aborted request is released while a program that it started "
  .. "runs", function()
  local nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 },
    locations = {
      ["/pool"] = [[
        assert(client:lock "hold"):unlock()
        ngx.say "done"
      ]],
      ["/start"] = [[ os.execute "sleep 20 >/dev/null 2>&1 &" ngx.say "started" ]],
      ["/hold"] = [[
        ngx.ctx.kept = assert(client:lock "hold")
        os.execute "sleep 20 >/dev/null 2>&1 &"
        ngx.sleep(3600)
      ]],
    },
  }
  local client = assert(etcdlock.connect { endpoints = etcd:endpoint(), prefix = prefix })
  finally(function() client:close() nginx:stop() end)
  local function assert_abort_releases()
    local request = nginx:begin "/hold"
    wait.eventually(function() return #client:queue "hold" == 1 end, 5, "it holds")
    request:abort()
    wait.eventually(function() return #client:queue "hold" == 0 end, 3, "the release")
  end
  assert_abort_releases()
  assert.equal("done\n", nginx:get("/pool").body)
  -- The program inherits the HTTP connection of this request and keeps it open, so the test does
  -- not wait for the end of the connection.
  local start = nginx:begin "/start"
  wait.eventually(function() return start.text:find "started" end, 5, "the program")
  start:abort()
  assert_abort_releases() -- uses the pooled wake-up connection, which the program inherited
end)
