-- With a relative PREFIX or DESTDIR, `make install` copied the Lua files to a directory below lua/
-- of the checkout, and everything else to a directory below the checkout itself. The lines that it
-- printed for the user's shell replaced LUA_PATH and LUA_CPATH, even if they were set.
-- Needs: one plain member, no sanitizer.

local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"
local uv = require "luv"

local LUA_VERSION = jit and "jit" or _VERSION:sub(5)

after_each(temporary.remove_all)

-- Runs the shell code |script| in this checkout; `install` and `uninstall` in it run make with
-- their arguments. Returns the output.
local function run(script, env)
  env.LUA, env.MAKEFLAGS, env.MAKELEVEL, env.MFLAGS = uv.exepath(), false, false, false
  env.GOALS = "LUA_VERSION=" .. LUA_VERSION .. " TESTING=1"
  script = [[
    set -e
    install() { make --no-print-directory $GOALS install "$@"; }
    uninstall() { make --no-print-directory $GOALS uninstall "$@"; }
  ]] .. script
  local out, code, err = proc.run({ "sh", "-c", script }, { env = env, seconds = 120 })
  assert.equal(0, code, err)
  return out
end

local function count_files(directory)
  return select(2, proc.run { "find", directory, "-type", "f" }:gsub("\n", ""))
end

describe("regression 129: make install", function()
  it("copies the same files with an absolute and a relative PREFIX and DESTDIR", function()
    local directory = temporary.directory() -- ../../tmp/… from here
    local relative = uv.cwd():gsub("/[^/]+", "../"):gsub("/$", "") .. directory
    run([[ install "PREFIX=$A/1"; install "PREFIX=$R/2"; install "DESTDIR=$R/3" PREFIX=/usr ]],
      { A = directory, R = relative })
    local count = count_files(directory .. "/1")
    assert.is_true(count > 30)
    assert.equal(count, count_files(directory .. "/2"))
    assert.equal(count, count_files(directory .. "/3"))
    run([[ uninstall "PREFIX=$R/2"; uninstall "DESTDIR=$R/3" PREFIX=/usr ]], { R = relative })
    assert.equal(0, count_files(directory .. "/2"))
    assert.equal(0, count_files(directory .. "/3"))
  end)

  it("prints lines that keep LUA_PATH and LUA_CPATH if they are set", function()
    local prefix = temporary.directory() .. "/a b"
    local out = run([[
      install "PREFIX=$P" >"$P.log"
      eval "$(sed -n 's/^  export/export/p' "$P.log")"
      "$LUA" -e 'print(require "etcdlock"._VERSION)'
      printf '%s\n' "$LUA_PATH" "$LUA_CPATH"
    ]], proc.lua_environment { P = prefix, LUA_PATH = "/mine/?.lua;;", LUA_CPATH = "/mine/?.so;;" })
    assert.matches("^%d+%.%d+%.%d+\n.*/init%.lua;/mine/%?%.lua;;\n.*/%?%.so;/mine/%?%.so;;\n$", out)
  end)
end)
