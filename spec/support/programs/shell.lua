-- Runs a shell that executes one command block after another, as in a terminal, in a given
-- directory that contains the examples. In this shell `lua5.4` and `lua` are the Lua of the suite
-- and find the checkout's etcdlock, `etcdlock` is the checkout's command, and `etcd` listens at a
-- port of the suite if no argument says where.

local ports = require "spec.support.servers.port"
local proc = require "spec.support.programs.proc"
local session = require "spec.support.programs.session"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"
local wait = require "spec.support.harness.wait"
local write_file = require "bench.write_file"

local Shell = {}
Shell.__index = Shell

local ROOT = uv.cwd()

-- Separates the output of one block of commands from that of the next.
local MARK = "\1"

local ETCD = [[
url=http://127.0.0.1:%s
case "$*" in *--listen-client-urls*) ;; *)
  set -- "$@" --listen-client-urls $url --advertise-client-urls $url \
    --listen-peer-urls http://127.0.0.1:%s
esac
exec setpriv --pdeathsig KILL '%s' "$@"]]

local function program(name)
  return (proc.run { "sh", "-c", "command -v " .. name }):match "%S+"
end

-- Starts a shell in |directory| with the variables |env|; its `etcd` listens at |port|.
function Shell.start(directory, env, port)
  local bin = directory .. "/.bin"
  assert(uv.fs_mkdir(bin, tonumber("700", 8)))
  for _, name in ipairs { "lua5.4", "lua" } do
    assert(uv.fs_symlink(assert(uv.fs_realpath(uv.exepath())), bin .. "/" .. name))
  end
  assert(uv.fs_symlink(ROOT .. "/examples", directory .. "/examples"))
  temporary.program(bin .. "/etcdlock", ([[exec lua5.4 '%s/bin/etcdlock' "$@"]]):format(ROOT))
  temporary.program(bin .. "/etcd", ETCD:format(port, ports.free(), program "etcd"))
  env = proc.lua_environment(env)
  env.LUA_PATH = "./?.lua;" .. env.LUA_PATH -- the modules that a document has the reader write
  env.PATH = bin .. ":" .. os.getenv "PATH"
  local self = setmetatable({ directory = directory }, Shell)
  self.child = proc.talk(session.apart "exec bash", env)
  self.child:send(("exec 2>&1; set -e; cd '%s'"):format(directory))
  return self
end

function Shell:write(name, text)
  write_file(self.directory .. "/" .. name, text)
end

-- Runs the commands |text| and returns their output. Raises if a command fails, or after |seconds|
-- (30).
function Shell:run(text, seconds)
  local out = self.child.out
  local from = #out.text + 1
  self.child:send(("{\n%s} </dev/null\nprintf '\\001\\n'"):format(text))
  wait.eventually(function()
    return self.child.process.code or out.text:find(MARK, from, true)
  end, seconds or 30, "end of the commands " .. text)
  local last = out.text:find(MARK, from, true)
  if not last then
    error(("one of these commands failed:\n%s--- output:\n%s"):format(text, out.text:sub(from)), 2)
  end
  return out.text:sub(from, last - 1)
end

-- Kills the shell and all processes that it has started.
function Shell:stop()
  uv.kill(-self.child.pid, "sigkill")
  self.child:destroy()
end

return Shell
