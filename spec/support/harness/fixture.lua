-- Gives every spec file its globals, and closes what the tests of the file have opened. helper.lua
-- calls it. Only spec files see the globals.
--
--   etcd             the etcd of the run, which the first use starts. The end of a test resumes it
--   prefix           the prefix of the file's keys
--   client, other, third   clients of etcd, which count as clients of three processes. The first
--                    use in a test connects them
--   connect          connects one more client: connect { ttl = 5 }
--   NONE             connect { ttl = NONE } connects it without an option that has a default here
--   client_options   client_options { ttl = 60 } sets options of all these clients: for the file,
--                    or in before_each for the test. Instead of a table, it takes a function that
--                    returns the options at each connect
--   server           a scripted server in front of `etcd`. After a test that has used it, all keys
--                    with the prefix are deleted
--   scripted_client  sets options, too, and makes `client` a client of `server`
--   start_nginx      start_nginx { ... } starts nginx (see Nginx.start). By default its client is
--                    one of etcd with the prefix. Its Lua code has connect, which connects one more
--   with_nginx       with_nginx { ... } runs such an nginx around the tests of a block as `nginx`
--   clear_etcd       for after_each, if the tests leave keys and leases in etcd
--   assert_fails     assert_fails(code, ...) checks the results of a call that failed
--   MODULES          each module under its name, which the first use loads

local Etcd = require "spec.support.servers.etcd"
local Nginx = require "spec.support.servers.nginx"
local busted = require "busted"
local clients = require "spec.support.harness.clients"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local temporary = require "spec.support.harness.temporary"

local M = {}

local MODULES = {
  core = "etcdlock.core", cqueues = "cqueues", etcdlock = "etcdlock", json = "dkjson", uv = "luv",
  write_file = "bench.write_file",
  Stage = "spec.support.harness.error_stage", go_programs = "spec.support.programs.go",
  stories = "spec.support.programs.loop_stories",
  Certs = "spec.support.servers.certs", Etcd = "spec.support.servers.etcd",
  Nginx = "spec.support.servers.nginx", Swallow = "spec.support.servers.swallow",
}
for folder, names in pairs {
  harness = "clients documents error_rows exposition leaks matrix read_file rounds suite temporary "
    .. "wait",
  programs = "command loops make proc releases remote sale session tasks variables wakings",
  servers = "cluster http port protobuf secured tls",
} do
  for name in names:gmatch "%S+" do
    MODULES[name] = ("spec.support.%s.%s"):format(folder, name)
  end
end

-- The options of the clients, and whether `client` is that of a scripted server; of the file, and
-- of the present test.
local of_file, of_test = {}, {}

local function connect(changes)
  return clients.connector(of_test.options)(changes)
end

local env -- the globals that the present file has used

local OF_TEST

-- Sets the options of the clients that are connected from now on.
local function set(options, is_scripted)
  of_test = { options = options, is_scripted = is_scripted }
  for name in pairs(OF_TEST) do env[name] = nil end
end

-- Each function returns the value of a global, which lasts until the end of the test.
OF_TEST = {
  client = function()
    return connect(of_test.is_scripted and { endpoints = env.server:endpoint() } or nil)
  end,
  other = function() return connect { elsewhere = true } end,
  third = function() return connect { elsewhere = true } end,
  server = function() return clients.scripted() end,
}

local CONNECT = [[
  function connect(more)
    local opts = { %s }
    for name, value in pairs(more or {}) do opts[name] = value end
    return etcdlock.connect(opts)
  end
]]

local function start_nginx(opts)
  local options = { endpoints = suite.endpoint(), prefix = suite.prefix(), ttl = 5 }
  if opts.client == nil then opts.client = options end
  opts.init = CONNECT:format(Nginx.lua_fields(options)) .. (opts.init or "")
  return Nginx.start(opts)
end

local function with_nginx(opts)
  busted.setup(function() env.nginx = start_nginx(opts) end)
  busted.teardown(function()
    if not opts.logs_errors then env.nginx:assert_no_errors() end
    env.nginx:stop()
  end)
end

-- Closes the clients, deletes the keys with the prefix, and revokes all leases.
local function clear_etcd()
  clients.close_all()
  suite.etcd():del_all(suite.prefix())
  suite.etcd():revoke_all()
end

-- Each function returns the value of a global.
local OF_FILE = {
  NONE = function() return clients.NONE end,
  assert_fails = function() return clients.assert_fails end,
  clear_etcd = function() return clear_etcd end,
  client_options = function() return function(options) set(options, false) end end,
  connect = function() return connect end,
  etcd = suite.etcd,
  prefix = suite.prefix,
  scripted_client = function() return function(options) set(options, true) end end,
  start_nginx = function() return start_nginx end,
  with_nginx = function() return with_nginx end,
}

-- Gives |file|, an element of busted, the globals.
function M.begin_file(file)
  of_test = {}
  env = setmetatable({}, { __index = function(_, name)
    local make, value = OF_FILE[name] or OF_TEST[name], nil
    if make then value = make() end
    if MODULES[name] then value = require(MODULES[name]) end
    rawset(env, name, value)
    return value
  end })
  file.env = env
end

-- Closes what was opened after |open| was noted (nil: everything), except the run's etcd. In this
-- order, because a client of an nginx worker may need a scripted server, and any client a proxy or
-- an etcd.
local function close(open)
  open = open or {}
  clients.close_clients(open.clients)
  local ok, failure = pcall(Nginx.stop_all, open.nginx)
  clients.stop_servers(open.servers)
  proc.destroy_children(open.children)
  suite.stop_clusters(open.clusters)
  temporary.remove_all(open.directories)
  if not ok then error(failure, 0) end
end

local open -- before the test: this belongs to the file, whose end closes it

local function begin_test()
  of_file = of_test
  open = {
    clients = clients.open_clients(), servers = clients.open_servers(), nginx = Nginx.open(),
    children = proc.open(), clusters = Etcd.open(), directories = temporary.open(),
  }
end

-- After a test that had a scripted server, etcd may have keys that the client could not delete.
local function end_test()
  local scripted = rawget(env, "server")
  of_test = of_file
  for name in pairs(OF_TEST) do env[name] = nil end
  suite.resume()
  if scripted then scripted:pass() end -- so that the clients can revoke their leases
  close(open)
  if scripted then suite.etcd():del_all(suite.prefix()) end
end

-- Makes busted close after each test what the test has opened.
function M.install()
  busted.before_each(begin_test)
  busted.after_each(end_test)
end

-- Closes what a spec file has left open.
function M.end_file()
  close()
end

return M
