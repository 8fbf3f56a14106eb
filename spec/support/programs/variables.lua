-- Runs Lua programs with etcdctl's variables in their environment.

local assert = require "luassert"
local matrix = require "spec.support.harness.matrix"
local json = require "dkjson"
local proc = require "spec.support.programs.proc"

local M = {}

-- Runs |source| with the arguments |...| and |variables|; etcdctl's other variables are unset.
-- Returns standard output and standard error.
function M.outputs(variables, source, ...)
  local env = matrix.no_variables()
  for name, value in pairs(variables) do env[name] = value end
  local child = "spec/support/programs/child.lua"
  local out, code, err = proc.run_lua(child, { source, ... }, { env = env })
  assert.equal(0, code, err)
  return out, err
end

-- The same, but returns standard output only.
function M.run(...)
  return (M.outputs(...))
end

local LOCK = [[
  local client, message, code = require("etcdlock").connect(require("dkjson").decode((...)))
  if not client then return print(code .. ": " .. message) end
  local lock
  lock, message, code = client:lock "a"
  print(lock and "locked" or code .. ": " .. message)
  if lock then lock:unlock() end
  client:close()
]]

-- Connects with |opts| and |variables|, and takes a lock. Returns "locked\n" or "CODE: MESSAGE\n",
-- and standard error.
function M.lock(variables, opts)
  return M.outputs(variables, LOCK, json.encode(opts))
end

return M
