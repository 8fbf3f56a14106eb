-- Runs make without the variables that the make of the suite exports (MAKEFLAGS and others).

local assert = require "luassert"
local proc = require "spec.support.programs.proc"

local LUA_VERSION = jit and "jit" or _VERSION:sub(5)

-- Runs make in |directory| with the arguments |...|, for the Lua of the suite. Raises if make
-- fails. Returns standard output and standard error.
return function(directory, ...)
  local out, code, err = proc.run({ "make", "LUA_VERSION=" .. LUA_VERSION, ... }, {
    cwd = directory, seconds = 300,
    env = { MAKEFLAGS = false, MAKELEVEL = false, MFLAGS = false, TESTING = false },
  })
  assert.equal(0, code, err)
  return out, err
end
