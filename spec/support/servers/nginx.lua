-- A private nginx on a free port of this host, with its files in a temporary
-- directory; its Lua code uses the checkout and the LuaJIT build of the module,
-- whatever Lua runs the suite.

local assert = require "luassert"
local http = require "spec.support.servers.http"
local port = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local read_file = require "spec.support.harness.read_file"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local Nginx = {}
Nginx.__index = Nginx

local MODULES = "/usr/lib/nginx/modules/"
local ROOT = uv.cwd()
local BUILD = "build/jit-test" -- `make suite` sees to it

-- Can it run Lua? Debian 12's can't where luajit is installed.
function Nginx.has_lua()
  return uv.fs_stat(MODULES .. "ngx_http_lua_module.so") ~= nil
end

local started = {}

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
    location = /ready { content_by_lua_block { ngx.say "ready" } }
    %(locations)s
  }
}
]]

-- location path -> its content handler, or { phase = handler, … , conf = text }
local function locations_of(list)
  local parts = {}
  for path, handlers in pairs(list or {}) do
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

-- Lua code that connects `client` with |options|, if there are any.
local function connecting(options)
  if not options then return "" end
  local fields = {}
  for name, value in pairs(options) do
    local form = type(value) == "string" and "%s = %q" or "%s = %s"
    fields[#fields + 1] = form:format(name, tostring(value))
  end
  return ("client = assert(etcdlock.connect { %s })\n"):format(table.concat(fields, ", "))
end

local function configure(self, opts)
  local values = {
    modules = MODULES,
    root = ROOT,
    build = ROOT .. "/" .. (opts.build or BUILD),
    dir = self.dir,
    port = self.port,
    -- The temporary directory is this user's.
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
  local file = assert(io.open(self.dir .. "/nginx.conf", "w"))
  file:write(text)
  file:close()
end

-- ---- life -----------------------------------------------------------------------

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

-- Starts nginx and returns it answering. |opts|: build ("build/jit-test"), workers (1),
-- connections of each (4096), files (8192); texts for main, http and server; Lua code for
-- init and init_worker; client: options of connect, with which each worker connects
-- `client` before that; locations: path -> Lua code for its content, or
-- { phase = Lua code, …, conf = text }. Requests find `etcdlock` and the
-- dictionary `shared`.
function Nginx.start(opts)
  local self = setmetatable({ port = port.free() }, Nginx)
  local temporary = os.getenv "TMPDIR" or "/tmp"
  self.dir = assert(uv.fs_mkdtemp(temporary .. "/etcdlock-XXXXXX"))
  assert(uv.fs_mkdir(self.dir .. "/tmp", tonumber("777", 8)))
  started[self] = true
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

-- Ends nginx by |signal| ("sigterm" or "sigquit"), which must take no longer than
-- |seconds| (5); returns how long it took.
function Nginx:finish(signal, seconds)
  local from = wait.now()
  self:signal(signal)
  proc.wait(self.process, seconds or 5)
  return wait.now() - from
end

-- Kills what is left of it and removes its files; may be repeated. Ends it in
-- good order if that is possible, so that no lease is left.
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

-- Stops all that run. Returns the lines of their logs that tell of an error until then.
function Nginx.stop_all()
  local errors = {}
  for nginx in pairs(started) do
    for _, line in ipairs(nginx:errors()) do errors[#errors + 1] = line end
    nginx:stop()
  end
  return errors
end

-- ---- requests -------------------------------------------------------------------

-- Asks for |path| and waits for the answer; see http.get.
function Nginx:get(path, opts)
  return http.get(self.port, path, opts)
end

-- The same without waiting; see http.start.
function Nginx:begin(path, opts)
  return http.start(self.port, path, opts)
end

-- ---- looking ----------------------------------------------------------------------

-- The process ids of its workers, those included that are on their way out.
function Nginx:workers()
  local pids, master = {}, self.process.pid
  for pid in (read_file(("/proc/%d/task/%d/children"):format(master, master)) or ""):gmatch "%d+" do
    pids[#pids + 1] = tonumber(pid)
  end
  return pids
end

-- What it has written.
function Nginx:log()
  return (read_file(self.dir .. "/output.log") or "") .. (read_file(self.dir .. "/error.log") or "")
end

-- The lines of its log that tell of an error or worse.
function Nginx:errors()
  local lines = {}
  for line in self:log():gmatch "[^\n]+" do
    local is_error = line:find "%[error%]" or line:find "%[crit%]" or line:find "%[alert%]"
      or line:find "%[emerg%]"
    -- Debian 12 has nginx work with LuaJIT's own edition, too.
    local is_usual = line:find "lua_code_cache is off" or line:find "not OpenResty's"
    if is_error and not is_usual then lines[#lines + 1] = line end
  end
  return lines
end

function Nginx:assert_no_errors()
  local errors = self:errors()
  assert.equal(nil, errors[1], #errors .. " errors")
end

-- What it has left in its TMPDIR.
function Nginx:leftovers()
  local names, scan = {}, assert(uv.fs_scandir(self.dir .. "/tmp"))
  for name in function() return uv.fs_scandir_next(scan) end do names[#names + 1] = name end
  return names
end

local function count(directory, is_counted)
  local n, scan = 0, uv.fs_scandir(directory)
  if not scan then return 0 end
  for entry in function() return uv.fs_scandir_next(scan) end do
    if not is_counted or is_counted(directory .. "/" .. entry) then n = n + 1 end
  end
  return n
end

-- What process |pid| has: descriptors, sockets (among them), threads, and the
-- seconds of CPU that it has used.
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
