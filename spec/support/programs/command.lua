-- The command etcdlock, run as its users do.

local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

local M = {}

local SCRIPT = "bin/etcdlock"

-- The etcd of the suite is in the environment of the command, with |env|.
local function environment(env)
  local all = suite.variables()
  for name, value in pairs(env or {}) do all[name] = value end
  return all
end

-- Runs it with |args| to its end; returns standard output, exit status, standard error.
function M.run(args, env)
  return proc.run_lua(SCRIPT, args, { env = environment(env) })
end

-- Starts it as a child that is talked to line by line.
function M.start(args, env)
  return proc.talk_lua(SCRIPT, args, environment(env))
end

-- The words that run it, for a shell or another program, and what that needs in its
-- environment.
function M.words()
  return { require "luv".exepath(), SCRIPT }, proc.lua_environment(environment())
end

return M
