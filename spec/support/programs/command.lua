-- Runs the command etcdlock as its users do.

local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

local M = {}

local SCRIPT = "bin/etcdlock"

-- Returns the variables with which the command reaches the suite's etcd, plus |env|.
local function environment(env)
  local all = suite.variables()
  for name, value in pairs(env or {}) do all[name] = value end
  return all
end

-- Runs the command with |args| until it exits. Returns standard output, exit status and standard
-- error.
function M.run(args, env)
  return proc.run_lua(SCRIPT, args, { env = environment(env) })
end

-- Starts the command with |args| and returns the child, for expect and send of proc.lua.
function M.start(args, env)
  return proc.talk_lua(SCRIPT, args, environment(env))
end

-- Returns the argument list with which another program runs the command, and the environment
-- variables that this program must set.
function M.words()
  return { require "luv".exepath(), SCRIPT }, proc.lua_environment(environment())
end

return M
