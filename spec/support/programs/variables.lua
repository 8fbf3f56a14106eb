-- Programs that find etcdctl's variables in their environment.

local assert = require "luassert"
local cell = require "spec.support.harness.cell"
local cjson = require "cjson"
local proc = require "spec.support.programs.proc"

local M = {}

-- Runs the program text |source| with these variables, none of etcdctl's
-- otherwise; returns its standard output and error.
local function run(variables, source, ...)
  local env = cell.no_variables()
  for name, value in pairs(variables) do env[name] = value end
  local child = "spec/support/programs/child.lua"
  local out, code, err = proc.run_lua(child, { source, ... }, { env = env })
  assert.equal(0, code, err)
  return out, err
end

-- The same for its standard output only.
function M.run(...)
  return (run(...))
end

local LOCK = [[
  local client, message, code = require("etcdlock").connect(require("cjson").decode((...)))
  if not client then return print(code .. ": " .. message) end
  local lock
  lock, message, code = client:lock "a"
  print(lock and "locked" or code .. ": " .. message)
  if lock then lock:unlock() end
  client:close()
]]

-- Connects with |opts| and takes a lock: "locked\n", or "code: message\n"; and
-- what went to standard error.
function M.lock(variables, opts)
  return run(variables, LOCK, cjson.encode(opts))
end

return M
