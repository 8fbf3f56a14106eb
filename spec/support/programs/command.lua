-- Runs the command etcdlock as its users do: the Lua script of the checkout, or the executable that
-- `make suite COMMAND=...` names.

local matrix = require "spec.support.harness.matrix"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"
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

local function command_line(args)
  local argv = { WORDS[1], WORDS[2] }
  for _, value in ipairs(args) do argv[#argv + 1] = tostring(value) end
  return argv
end

-- Runs the command with |args| until it exits. Returns standard output, exit status and standard
-- error.
function M.run(args, env)
  return proc.run(command_line(args), { env = environment(env) })
end

-- Starts the command with |args| and returns the child, for expect and send of proc.lua.
function M.start(args, env)
  return proc.talk(command_line(args), environment(env))
end

-- Returns the two words with which another program runs the command, and the environment variables
-- that this program must set.
function M.words()
  return { WORDS[1], WORDS[2] }, environment()
end

return M
