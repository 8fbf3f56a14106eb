-- Starts nginx on a free port of this host, with its files in a temporary directory. Its Lua code
-- uses the checkout and the LuaJIT build of the module, whatever Lua runs the suite.

local assert = require "luassert"
local http = require "spec.support.servers.http"
local port = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local uv = require "luv"
local wait = require "spec.support.harness.wait"
local write_file = require "bench.write_file"

local Nginx = {}
Nginx.__index = Nginx

local MODULES = "/usr/lib/nginx/modules/"
local ROOT = uv.cwd()
local BUILD = os.getenv "NGINX_BUILD" or "build/jit-test" -- made by `make suite`

-- Returns true if nginx has its Lua module. On Debian 12 the module cannot be installed together
-- with luajit.
function Nginx.has_lua()
  return uv.fs_stat(MODULES .. "ngx_http_lua_module.so") ~= nil
end

local started, last = {}, 0 -- each nginx with its number, and the number of the last one

-- ---- configuration ------------------------------------------------------------

local CONF = [[
daemon off;
%(user)s
load_module %(modules)sndk_http_module.so;
load_module %(modules)sngx_http_lua_module.so;
worker_processes %(workers)d;
worker_rlimit_nofile %(files)d;
pid %(dir)s/nginx.pid;
error_log %(dir)s/error.log notice;
env TMPDIR=%(dir)s/tmp;
env GCOV_PREFIX;
%(main)s
events { worker_connections %(connections)d; }
http {
  access_log off;
  client_body_temp_path %(dir)s/body;
  proxy_temp_path %(dir)s/proxy;
  fastcgi_temp_path %(dir)s/fastcgi;
  uwsgi_temp_path %(dir)s/uwsgi;
  scgi_temp_path %(dir)s/scgi;
  lua_package_path '%(root)s/lua/?.lua;%(root)s/lua/?/init.lua;/usr/share/lua/5.1/?.lua;;';
  lua_package_cpath '%(build)s/?.so;/usr/lib/x86_64-linux-gnu/lua/5.1/?.so;;';
  lua_shared_dict shared 1m;
  %(http)s
  init_by_lua_block {
    etcdlock = require "etcdlock"
    shared = ngx.shared.shared
    function await(name) while not shared:get(name) do ngx.sleep(0.005) end end
    %(init)s
  }
  init_worker_by_lua_block {
    -- The workers die with their master, however it dies.
    local ffi = require "ffi"
    ffi.cdef "int prctl(int option, unsigned long value);"
    ffi.C.prctl(1, 9)
    %(init_worker)s
  }
  server {
    listen 127.0.0.1:%(port)s backlog=4096;
    lua_check_client_abort on;
    %(server)s
    %(locations)s
  }
}
]]

-- The locations of each nginx, which a test may replace.
local LOCATIONS = {
  ["/ready"] = [[ ngx.say "ready" ]],
  -- Answers how many locks `client` holds, and for how many it waits.
  ["/stats"] = [[ local now = client:stats() ngx.say(now.held, " ", now.waiting) ]],
  -- Answers the value |of| of the shared dictionary. Sets it to |to| before, if that is given.
  ["/value"] = [[
    local of, to = ngx.var.arg_of, ngx.var.arg_to
    if to then shared:set(of, to) end
    ngx.say(tostring(shared:get(of)))
  ]],
}

-- Returns the location blocks for LOCATIONS and |list|: path -> Lua source of the content handler,
-- or { phase = Lua source, …, conf = text }.
local function locations_of(list)
  local all, parts = {}, {}
  for _, each in ipairs { LOCATIONS, list or {} } do
    for path, handlers in pairs(each) do all[path] = handlers end
  end
  for path, handlers in pairs(all) do
    if type(handlers) == "string" then handlers = { content = handlers } end
    local inner = { handlers.conf }
    for phase, source in pairs(handlers) do
      if phase ~= "conf" then
        inner[#inner + 1] = ("%s_by_lua_block {\n%s\n}"):format(phase, source)
      end
    end
    parts[#parts + 1] = ("location = %s {\n%s\n}"):format(path, table.concat(inner, "\n"))
  end
  return table.concat(parts, "\n")
end

-- Returns the Lua source of the fields of the table |options|.
function Nginx.lua_fields(options)
  local fields = {}
  for name, value in pairs(options) do
    local form = type(value) == "string" and "%s = %q" or "%s = %s"
    fields[#fields + 1] = form:format(name, tostring(value))
  end
  return table.concat(fields, ", ")
end

-- Returns Lua source that connects `client` with |options|; "" if |options| is nil or false. If
-- |options| has no timeout, calls of `client` wait without limit, because the default in nginx, 5
-- s, may be too short on a busy machine.
local function connecting(options)
  if not options then return "" end
  local timeout = options.timeout == nil and "timeout = math.huge, " or ""
  return ("client = assert(etcdlock.connect { %s })\n"):format(timeout .. Nginx.lua_fields(options))
end

local function configure(self, opts)
  local values = {
    modules = MODULES,
    root = ROOT,
    build = ROOT .. "/" .. (opts.build or BUILD),
    dir = self.dir,
    port = self.port,
    -- The workers must be able to write to the temporary directory, which this user owns.
    user = uv.getuid() == 0 and "user root;" or "",
    workers = opts.workers or 1,
    connections = opts.connections or 4096,
    files = opts.files or 8192,
    locations = locations_of(opts.locations),
  }
  for _, field in ipairs { "main", "http", "server", "init", "init_worker" } do
    values[field] = opts[field] or ""
  end
  values.init_worker = connecting(opts.client) .. values.init_worker
  local text = CONF:gsub("%%%(([%w_]+)%)[sd]", function(name) return tostring(values[name]) end)
  write_file(self.dir .. "/nginx.conf", text)
end

-- ---- start and stop -------------------------------------------------------------

local function spawn(self)
  local log = assert(uv.fs_open(self.dir .. "/output.log", "a", tonumber("600", 8)))
  self.process = proc.spawn({
    "nginx", "-p", self.dir, "-c", self.dir .. "/nginx.conf", "-e", self.dir .. "/error.log",
  }, { nil, log, log })
  uv.fs_close(log)
end

local function await_ready(self)
  wait.eventually(function()
    if self.process.code then error("nginx has ended:\n" .. self:log(), 0) end
    local answer = http.get(self.port, "/ready", { seconds = 2 })
    return answer.status == 200, answer.failure
  end, 15, "nginx answers")
  local failure = self:errors()[1]
  if failure then error(failure, 0) end
end

-- Starts nginx and returns it when it answers requests. Its Lua code has the globals `etcdlock`,
-- `shared` (a shared dictionary), `await` (waits for a value of it) and `client`. |opts|:
--   build               directory of the module (BUILD)
--   workers             number of workers (1)
--   connections         connections per worker (4096)
--   files               limit on open files per worker (8192)
--   main, http, server  configuration text for these contexts
--   init, init_worker   Lua source for these phases
--   client              options of connect: each worker connects `client` before init_worker
--   logs_errors         true: the test makes nginx log errors
--   locations           path -> Lua source of the content handler, or
--                       { phase = Lua source, …, conf = configuration text }
function Nginx.start(opts)
  local self = setmetatable({ port = port.free(), logs_errors = opts.logs_errors }, Nginx)
  local temporary = os.getenv "TMPDIR" or "/tmp"
  self.dir = assert(uv.fs_mkdtemp(temporary .. "/etcdlock-XXXXXX"))
  assert(uv.fs_mkdir(self.dir .. "/tmp", tonumber("777", 8)))
  last = last + 1
  started[self] = last
  local ok, failure = pcall(function()
    configure(self, opts)
    spawn(self)
    await_ready(self)
  end)
  if not ok then
    self:stop()
    error(failure, 2)
  end
  return self
end

function Nginx:signal(name)
  assert(uv.kill(self.process.pid, name))
end

-- Sends |signal| ("sigterm" or "sigquit") to nginx and waits at most |seconds| (5) for its end.
-- Returns the seconds that it took.
function Nginx:finish(signal, seconds)
  local from = wait.now()
  self:signal(signal)
  proc.wait(self.process, seconds or 5)
  return wait.now() - from
end

-- Ends nginx and removes its files; may be repeated. First sends SIGTERM, so that the workers
-- revoke their leases, and kills all processes if nginx has not ended after 10 s.
function Nginx:stop()
  if self.process and not self.process.code then
    local workers = self:workers()
    if not pcall(self.finish, self, "sigterm", 10) then
      proc.destroy(self.process)
      for _, pid in ipairs(workers) do uv.kill(pid, "sigkill") end
    end
  end
  proc.run { "rm", "-rf", self.dir }
  started[self] = nil
end

-- Returns the number of the last nginx, for stop_all.
function Nginx.open()
  return last
end

-- Stops all running nginx, except those up to number |from| (0). Raises if one of the others,
-- without the option logs_errors, has logged errors.
function Nginx.stop_all(from)
  local errors = {}
  for nginx, number in pairs(started) do
    if number > (from or 0) then
      for _, line in ipairs(nginx.logs_errors and {} or nginx:errors()) do
        errors[#errors + 1] = line
      end
      nginx:stop()
    end
  end
  if errors[1] then error(#errors .. " errors in nginx's log: " .. errors[1], 0) end
end

-- ---- requests -------------------------------------------------------------------

-- Sends a request for |path| and waits for the answer; see http.get.
function Nginx:get(path, opts)
  return http.get(self.port, path, opts)
end

-- Sends a request for |path| and returns without waiting; see http.start.
function Nginx:begin(path, opts)
  return http.start(self.port, path, opts)
end

-- Waits until the answer to |path| is the line |text|; fails after |seconds| (5).
function Nginx:await(path, text, seconds)
  wait.eventually(function()
    local body = self:get(path).body
    return body == text .. "\n", body
  end, seconds, path .. ": " .. text)
end

-- Returns the value |name| of the shared dictionary as a string.
function Nginx:value(name)
  return (self:get("/value?of=" .. name).body:gsub("\n$", ""))
end

function Nginx:set_value(name, value)
  self:get(("/value?of=%s&to=%s"):format(name, value))
end

function Nginx:await_value(name, text, seconds)
  self:await("/value?of=" .. name, text, seconds)
end

-- ---- state ------------------------------------------------------------------------

-- Returns the process ids of the workers, including workers that are shutting down.
function Nginx:workers()
  return proc.children_of(self.process.pid)
end

-- Reloads nginx, and waits at most |seconds| (5) until all old workers have ended, as many new ones
-- run, and is_enough() (nil: no condition) is true.
function Nginx:reload(is_enough, seconds)
  local old, count = {}, 0
  for _, pid in ipairs(self:workers()) do old[pid], count = true, count + 1 end
  self:signal "sighup"
  wait.eventually(function()
    local done, left, new = not is_enough or is_enough(), 0, 0
    for _, pid in ipairs(self:workers()) do
      if old[pid] then left = left + 1 else new = new + 1 end
    end
    return done and left == 0 and new == count, ("%d old workers, %d new ones"):format(left, new)
  end, seconds, "only new workers")
end

-- Returns the output and the error log of nginx.
function Nginx:log()
  return (read_file(self.dir .. "/output.log") or "") .. (read_file(self.dir .. "/error.log") or "")
end

-- Returns the lines of the log with the level error or higher, except those that are usual.
function Nginx:errors()
  local lines = {}
  for line in self:log():gmatch "[^\n]+" do
    local is_error = line:find "%[error%]" or line:find "%[crit%]" or line:find "%[alert%]"
      or line:find "%[emerg%]"
    -- Debian 12's nginx uses the original LuaJIT, not OpenResty's, and logs an error about it.
    local is_usual = line:find "lua_code_cache is off" or line:find "not OpenResty's"
    if is_error and not is_usual then lines[#lines + 1] = line end
  end
  return lines
end

function Nginx:assert_no_errors()
  local errors = self:errors()
  assert.equal(nil, errors[1], #errors .. " errors")
end

-- Waits until no file is in the TMPDIR of nginx. Each client of a worker creates its socket there,
-- and unlinks it at once.
function Nginx:await_no_files()
  wait.eventually(function()
    local names, scan = {}, assert(uv.fs_scandir(self.dir .. "/tmp"))
    for name in function() return uv.fs_scandir_next(scan) end do names[#names + 1] = name end
    return #names == 0, table.concat(names, " ")
  end, 5, "no files")
end

local function count(directory, is_counted)
  local n, scan = 0, uv.fs_scandir(directory)
  if not scan then return 0 end
  for entry in function() return uv.fs_scandir_next(scan) end do
    if not is_counted or is_counted(directory .. "/" .. entry) then n = n + 1 end
  end
  return n
end

-- Returns a table with each wake-up socket that worker |i| (1) has created: the path of its
-- descriptor -> the directory that contains the socket's own directory.
function Nginx:wake_sockets(i)
  local found, fds = {}, ("/proc/%d/fd/"):format(self:workers()[i or 1])
  local scan = assert(uv.fs_scandir(fds))
  for fd in function() return uv.fs_scandir_next(scan) end do
    found[fds .. fd] = (uv.fs_readlink(fds .. fd) or ""):match "^(.*)/etcdlock%-%w+/wake"
  end
  return found
end

-- Returns the resources of the process |pid|: number of descriptors, of sockets among them, and of
-- threads; cpu: seconds of CPU time used.
function Nginx.usage(pid)
  local proc_dir = "/proc/" .. pid
  local fields = {}
  for field in assert(read_file(proc_dir .. "/stat")):gsub("^.*%) ", ""):gmatch "%S+" do
    fields[#fields + 1] = field
  end
  return {
    descriptors = count(proc_dir .. "/fd"),
    sockets = count(proc_dir .. "/fd", function(path)
      return (uv.fs_readlink(path) or ""):find "^socket:"
    end),
    threads = count(proc_dir .. "/task"),
    cpu = ((tonumber(fields[12]) or 0) + (tonumber(fields[13]) or 0)) / 100,
  }
end

return Nginx
