-- Runs the command etcdlock as its users do: the Lua script of the checkout, or the executable that
-- `make suite COMMAND=...` names.

local matrix = require "spec.support.harness.matrix"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"

local M = {}

-- The two words with which a command line begins.
local WORDS = { uv.exepath(), "bin/etcdlock" }
if matrix.command then WORDS = { "/usr/bin/env", matrix.command } end

-- Returns the variables with which the command reaches the suite's etcd, plus |env|.
local function environment(env)
  local all = suite.variables()
  for name, value in pairs(env or {}) do all[name] = value end
  return proc.lua_environment(all)
end

-- Appends |args| to |argv|, and the elements of a list in |args| in place of the list.
local function append(argv, args)
  for _, value in ipairs(args) do
    if type(value) == "table" then append(argv, value) else argv[#argv + 1] = tostring(value) end
  end
  return argv
end

local function command_line(args) return append({ WORDS[1], WORDS[2] }, args) end

-- Returns the end of |args| that makes the command run the shell code |script|, with |...| as its
-- $0, $1, …
function M.sh(script, ...) return { "--", "sh", "-c", script, ... } end

-- Runs the command with |args| until it exits. Returns standard output, exit status and standard
-- error.
function M.run(args, env)
  return proc.run(command_line(args), { env = environment(env) })
end

function M.status(args, env) return (select(2, M.run(args, env))) end

-- Starts the command with |args| and returns the child, for expect and send of proc.lua.
function M.start(args, env)
  return proc.talk(command_line(args), environment(env))
end

-- Starts the program |argv|, whose last arguments become a command line with |args|.
function M.start_under(argv, args, env)
  return proc.talk(append(argv, command_line(args)), environment(env))
end

-- Starts the command with |args| as the leader of a process group. Returns the child and the
-- command's pid, which a shell prints, because setsid may fork and then has another pid.
function M.start_leader(args)
  local child = M.start_under(
    { "setsid", "--wait", "sh", "-c", 'echo pid $$; exec "$@"', "sh" }, args)
  return child, tonumber((child:expect "^pid (%d+)"))
end

-- Writes the program `etcdlock`, which runs the command, to |directory|.
function M.install(directory)
  temporary.program(directory .. "/etcdlock",
    ('cd "%s" && exec "%s" "%s" "$@"'):format(uv.cwd(), WORDS[1], WORDS[2]))
end

-- Returns the two words with which another program runs the command, and the environment variables
-- that this program must set.
function M.words()
  return { WORDS[1], WORDS[2] }, environment()
end

return M
