-- A wait that had no room told an error number, or a wrong one: that its socket can't be
-- made in a /tmp that is read-only, and that nginx has too few connections.
local Nginx = require "spec.support.servers.nginx"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"

local prefix, etcd = suite.prefix(), suite.etcd()

after_each(temporary.remove_all)

-- What `count` waits of one request are answered by a nginx with |opts|, whose client
-- makes its sockets in |socket_dir| if that is given: how many were told what.
local function answers_of(count, opts, socket_dir)
  opts.client = {
    endpoints = etcd:endpoint(), prefix = prefix, ttl = 5, socket_dir = socket_dir,
  }
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
  local nginx = Nginx.start(opts)
  finally(function() nginx:stop() end)
  local told = {}
  for n, line in nginx:get("/waits").body:gmatch "(%d+) ([^\n]+)" do told[line] = tonumber(n) end
  return told, nginx
end

-- Some of 40 waits of a nginx with |opts| have no room, and these are told |why|.
local function assert_no_room(opts, why)
  local told = answers_of(40, opts)
  assert.is_true((told.held or 0) < 40) -- none, where all came before the first had it
  told.held = nil
  local line = next(told)
  assert.equal("nomem etcdlock can't wait here, it has no connection to its own thread: " .. why
    .. " for each request that waits at once, and the rest", line)
  assert.is_nil(next(told, line))
end

it("too few worker_connections are called so", function()
  assert_no_room({ connections = 20 }, "nginx has none left; raise worker_connections, to 2")
end)

it("too few descriptors are called so", function()
  assert_no_room({ files = 60 },
    "its worker has no descriptor left; raise worker_rlimit_nofile, to 3")
end)

it("a directory that can't be written to is named, and the option for another", function()
  local expected = [[^context can't make the socket to wait with below /proc/nowhere: ]]
    .. [[No such file or directory; name a directory that this process may write to: ]]
    .. [[socket_dir of connect, or TMPDIR$]]
  local told = answers_of(2, {}, "/proc/nowhere")
  local line = next(told)
  assert.matches(expected, line)
  assert.equal(2, told[line])
end)

-- The directories in which process |pid| has made such sockets.
local function directories_of(pid)
  local found, fds = {}, ("/proc/%d/fd"):format(pid)
  local scan = assert(uv.fs_scandir(fds))
  for fd in function() return uv.fs_scandir_next(scan) end do
    local path = uv.fs_readlink(fds .. "/" .. fd) or ""
    found[#found + 1] = path:match "^(.*)/etcdlock%-%w+/wake"
  end
  return found
end

it("socket_dir is where it is made, whatever TMPDIR is", function()
  local directory = temporary.directory()
  local told, nginx = answers_of(2, {}, directory)
  assert.same({ held = 2 }, told)
  assert.same({ directory }, directories_of(nginx:workers()[1]))
end)

-- What the program text |source| prints where /tmp is read-only; nil if this user can't
-- have that.
local function print_of(source)
  local mount = 'mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && exec "$@"'
  local child = "spec/support/programs/child.lua"
  local told, code = proc.run({
    "unshare", "-m", "sh", "-c", mount, "sh", uv.exepath(), child, source,
  }, { env = proc.lua_environment { TMPDIR = false } })
  return code == 0 and told or nil
end

it("a /tmp that is read-only is named", function()
  local told = print_of [[
    local client = require("etcdlock").connect()
    print(client._core:serve())
    client:close()
  ]]
  if not told then
    return pending "this user can't make /tmp read-only for a process"
  end
  assert.matches("below /tmp: Read%-only file system; name a directory", told)
  assert.matches("context\n$", told)
end)
