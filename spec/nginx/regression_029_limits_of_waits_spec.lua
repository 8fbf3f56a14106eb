-- If a lock call in nginx could not set up its wait, its message named an error number, or the
-- wrong cause. The causes are a socket directory that is not writable (a read-only /tmp), and too
-- few nginx connections or descriptors.
-- Needs: no sanitizer.
local Nginx = require "spec.support.servers.nginx"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"

local prefix, etcd = suite.prefix(), suite.etcd()

after_each(temporary.remove_all)

-- Starts an nginx with |opts| and sends a request that waits for |count| locks at once. The client
-- creates its sockets in |socket_dir| if given. Returns the number of waits for each answer
-- ("held", or code and message), and the nginx.
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

it("regression 029: the error for too few connections names worker_connections", function()
  assert_no_room({ connections = 20 }, "nginx has none left; raise worker_connections, to 2")
end)

it("regression 029: the error for too few descriptors names worker_rlimit_nofile", function()
  assert_no_room({ files = 60 },
    "its worker has no descriptor left; raise worker_rlimit_nofile, to 3")
end)

it("regression 029: the error for a missing socket directory names it and socket_dir", function()
  local expected = [[^context cannot create the wake%-up socket below /proc/nowhere: ]]
    .. [[No such file or directory; set socket_dir of connect, or TMPDIR, ]]
    .. [[to a directory that this process can write to$]]
  local told = answers_of(2, {}, "/proc/nowhere")
  local line = next(told)
  assert.matches(expected, line)
  assert.equal(2, told[line])
end)

-- Returns the directories in which process |pid| has created wake-up sockets.
local function directories_of(pid)
  local found, fds = {}, ("/proc/%d/fd"):format(pid)
  local scan = assert(uv.fs_scandir(fds))
  for fd in function() return uv.fs_scandir_next(scan) end do
    local path = uv.fs_readlink(fds .. "/" .. fd) or ""
    found[#found + 1] = path:match "^(.*)/etcdlock%-%w+/wake"
  end
  return found
end

it("regression 029: the wake-up socket is created in socket_dir instead of TMPDIR", function()
  local directory = temporary.directory()
  local told, nginx = answers_of(2, {}, directory)
  assert.same({ held = 2 }, told)
  assert.same({ directory }, directories_of(nginx:workers()[1]))
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

it("regression 029: the error for a read-only /tmp names /tmp and the cause", function()
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
