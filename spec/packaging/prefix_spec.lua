-- Tests make install with odd directories.
-- Needs: one plain member, no sanitizer.

-- Regression 077. If PREFIX had a character that is special for sed or for Lua's package.path,
-- `make install` wrote another directory into the command. If PREFIX had a quote, the shell ran the
-- text behind it.
local LUA_VERSION = jit and "jit" or _VERSION:sub(5)

-- Runs make with |goal| and the variables |...| in this checkout.
local function make(goal, ...)
  return proc.run({ "make", "LUA_VERSION=" .. LUA_VERSION, "TESTING=1", goal, ... }, {
    seconds = 300, env = { MAKEFLAGS = false, MAKELEVEL = false, MFLAGS = false },
  })
end

describe("make refuses", function()
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

it("the command of a PREFIX with other odd characters runs", function()
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

-- Regression 129. With a relative PREFIX or DESTDIR, `make install` copied the Lua files to a
-- directory below lua/ of the checkout, and everything else to a directory below the checkout
-- itself. The lines that it printed for the user's shell replaced LUA_PATH and LUA_CPATH, even if
-- they were set.
describe("make install", function()
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

  it("copies the same files with an absolute and a relative PREFIX and DESTDIR", function()
    local directory = temporary.directory() -- ../../tmp/… from here
    local relative = uv.cwd():gsub("/[^/]+", "../"):gsub("/$", "") .. directory
    run([[ install "PREFIX=$A/1"; install "PREFIX=$R/2"; install "DESTDIR=$R/3" PREFIX=/usr ]],
      { A = directory, R = relative })
    local count = count_files(directory .. "/1")
    assert.is_true(count > 30)
    local types = assert(read_file(directory .. "/1/share/etcdlock/types/etcdlock.lua"))
    assert.matches("^%-%-%-@meta etcdlock\n", types)
    assert.equal(count, count_files(directory .. "/2"))
    assert.equal(count, count_files(directory .. "/3"))
    run([[ uninstall "PREFIX=$R/2"; uninstall "DESTDIR=$R/3" PREFIX=/usr ]], { R = relative })
    assert.equal(0, count_files(directory .. "/2"))
    assert.equal(0, count_files(directory .. "/3"))
  end)

  it("prints what to set if Lua and the shell do not search PREFIX, and nothing then", function()
    for _, mine in ipairs { false, "/mine/?" } do
      local prefix = temporary.directory() .. "/a b"
      local out = run([[
        install "PREFIX=$P" >"$P.log"
        eval "$(sed -n 's/^  export/export/p' "$P.log")"
        "$LUA" -e 'print(require "etcdlock"._VERSION)'
        etcdlock --version
        printf '%s\n' "$LUA_PATH" "$LUA_CPATH"
        install "PREFIX=$P"
      ]], proc.lua_environment {
        P = prefix, LUA_PATH = mine and mine .. ".lua;;", LUA_CPATH = mine and mine .. ".so;;",
      })
      local kept = mine and "/mine/%?%.%a+;" or ""
      assert.matches(("^(%d+%.%d+%.%d+)\netcdlock %1\n.*/init%.lua;" .. kept .. ";\n.*/%?%.so;"
        .. kept .. ";\n.*Installed in [^\n]*\n$"), out)
      assert.is_nil(out:find "To use it")
    end
  end)
end)
