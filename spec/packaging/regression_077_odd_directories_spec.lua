-- If PREFIX had a character that is special for sed or for Lua's package.path, `make install` wrote
-- another directory into the command. If PREFIX had a quote, the shell ran the text behind it.
-- Needs: one plain member, no sanitizer.

local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"

local LUA_VERSION = jit and "jit" or _VERSION:sub(5)

teardown(temporary.remove_all)

-- Runs make with |goal| and the variables |...| in this checkout.
local function make(goal, ...)
  return proc.run({ "make", "LUA_VERSION=" .. LUA_VERSION, "TESTING=1", goal, ... }, {
    seconds = 300, env = { MAKEFLAGS = false, MAKELEVEL = false, MFLAGS = false },
  })
end

describe("regression 077: make refuses", function()
  for _, character in ipairs { "&", ";", "'", '"', "`", "|", "?", "\\" } do
    it("a PREFIX with " .. character, function()
      local prefix = temporary.directory() .. "/a" .. character .. "b"
      for _, goal in ipairs { "install", "uninstall" } do
        local _, code, err = make(goal, "PREFIX=" .. prefix)
        assert.equal(2, code)
        assert.matches(("PREFIX=%s: this has %s in it; choose a directory without that"):format(
          prefix, character), err, 1, true)
        assert.is_nil(uv.fs_stat(prefix))
      end
    end)
  end
end)

it("regression 077: the command of a PREFIX with other odd characters runs", function()
  local prefix = temporary.directory() .. "/a b(1)%#[x]~{y}!*"
  local _, code, err = make("install", "PREFIX=" .. prefix)
  assert.equal(0, code, err)
  local out
  out, code, err = proc.run({ prefix .. "/bin/etcdlock", "--version" }, { cwd = "/" })
  assert.equal(0, code, err)
  assert.matches("^etcdlock %d", out)
  _, code, err = make("uninstall", "PREFIX=" .. prefix)
  assert.equal(0, code, err)
  assert.is_nil(uv.fs_stat(prefix .. "/bin/etcdlock"))
end)
