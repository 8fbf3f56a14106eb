-- Tests a release: it has one version, an archive that can be built and installed, and an
-- installation that can be removed.
-- Needs: one plain member, no sanitizer.

local VERSION = require "etcdlock"._VERSION
local ABI = _VERSION:sub(5)

-- Directories below DESTDIR that every system has, and that an uninstallation leaves.
local NOT_OURS = { usr = true, ["usr/bin"] = true, ["usr/lib"] = true, ["usr/share"] = true,
  ["usr/share/man"] = true }

-- Returns a sorted list of the paths below |directory| that have the type |kind| (as in find(1)).
local function found(directory, kind)
  local list = {}
  local out = proc.run { "find", directory, "-mindepth", "1", "-type", kind }
  for path in out:gmatch "[^\n]+" do list[#list + 1] = path:sub(#directory + 2) end
  table.sort(list)
  return list
end

-- Copies the checkout, with uncommitted changes and without built files. Returns the directory.
local function checkout()
  local directory = temporary.directory()
  proc.run { "sh", "-c", [[
    tar -c --exclude=./build --exclude=./bench/out --exclude='*.rock' --exclude=./.git . |
      tar -x -C "$0"
  ]], directory }
  return directory
end

describe("the version", function()
  it("is the same in etcdlock, resty.etcdlock, CHANGELOG.md and .ci/debian/changelog", function()
    assert.equal(VERSION, assert(read_file "CHANGELOG.md"):match "\n## (%d%S+)")
    assert.equal(VERSION, assert(read_file ".ci/debian/changelog"):match "^etcdlock %(([^-]+)%-1%)")
    assert.equal(VERSION, require "resty.etcdlock"._VERSION)
    assert.matches("^%d+%.%d+%.%d+$", VERSION)
  end)
end)

describe("make dist", function()
  local source

  before_each(function()
    source = checkout()
    local out = make(source, "dist")
    assert.matches("etcdlock-" .. VERSION .. ".tar.gz", out, 1, true)
  end)

  local function unpacked()
    local directory = temporary.directory()
    local archive = ("%s/build/dist/etcdlock-%s.tar.gz"):format(source, VERSION)
    local _, code, err = proc.run { "tar", "-xzf", archive, "-C", directory }
    assert.same({ 0, "" }, { code, err })
    return directory .. "/etcdlock-" .. VERSION
  end

  it("packs all files of the checkout", function()
    assert.same(found(checkout(), "f"), found(unpacked(), "f"))
  end)

  it("creates an archive with the same bytes when it runs again", function()
    local name = ("/build/dist/etcdlock-%s.tar.gz"):format(VERSION)
    local first = assert(read_file(source .. name))
    make(source, "dist")
    assert.is_true(first == read_file(source .. name))
  end)

  it("packs the commit of a git checkout, and lists the files that are not committed", function()
    if select(2, proc.run { "sh", "-c", "command -v git" }) ~= 0 then
      return pending "there is no git here"
    end
    local function git(...)
      local _, code, err = proc.run({ "git", "-c", "user.name=etcdlock",
        "-c", "user.email=etcdlock@localhost", ... }, { cwd = source })
      assert.equal(0, code, err)
    end
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "all of it")
    write_file(source .. "/src/late.c", "")
    local _, err = make(source, "dist")
    assert.matches("not packed:\n%?%? src/late.c\n$", err)
    assert.same(found(checkout(), "f"), found(unpacked(), "f"))
  end)

  it("creates a rockspec with the version and the URL of the archive", function()
    local text = assert(read_file(("%s/build/dist/etcdlock-%s-1.rockspec"):format(source, VERSION)))
    assert.matches(('\nversion = "%s-1"'):format(VERSION), text, 1, true)
    assert.matches('url = "https://[^"]+/etcdlock%-' .. VERSION:gsub("%.", "%%.")
      .. '%.tar%.gz"', text)
  end)

  it("packs files that can be installed below a path with a blank, and uninstalled", function()
    local directory, away = unpacked(), temporary.directory() .. "/a b"
    local prefix = away .. "/usr"
    proc.run { "mkdir", "-p", prefix .. "/lib/lua/" .. ABI }
    write_file(prefix .. "/lib/lua/" .. ABI .. "/theirs.so", "")
    assert.is_nil((make(directory, "install", "DESTDIR=" .. away, "PREFIX=/usr",
      "CPPFLAGS=-U_FORTIFY_SOURCE", "CFLAGS=-O0")):find("To use it", 1, true))
    local env = suite.variables()
    env.LUA_PATH = ("%s/share/lua/%s/?.lua;%s/share/lua/%s/?/init.lua;;"):format(
      prefix, ABI, prefix, ABI)
    env.LUA_CPATH = ("%s/lib/lua/%s/?.so;;"):format(prefix, ABI)
    write_file(away .. "/use.lua", [[
      print(require "etcdlock".with_lock("release_spec", function() return "held" end))
    ]])
    local out, code, err = proc.run_lua(away .. "/use.lua", {}, { env = env, cwd = away })
    assert.same({ "true\theld\n", 0, "" }, { out, code, err })
    out, code, err = proc.run({ prefix .. "/bin/etcdlock", "--version" }, { env = env })
    assert.same({ "etcdlock " .. VERSION .. "\n", 0, "" }, { out, code, err })
    make(directory, "uninstall", "DESTDIR=" .. away, "PREFIX=/usr")
    assert.same({ "use.lua", "usr/lib/lua/" .. ABI .. "/theirs.so" }, found(away, "f"))
    for _, path in ipairs(found(away, "d")) do
      assert.is_true(NOT_OURS[path] or path == "usr/lib/lua" or path == "usr/lib/lua/" .. ABI, path)
    end
    make(directory, "uninstall", "DESTDIR=" .. away, "PREFIX=/usr")
  end)
end)

-- Returns the calls of the compiler and of the linker that `make all` prints with the arguments.
local function calls(...)
  local compiled, linked = {}, {}
  for line in make(checkout(), "--dry-run", "V=1", "all", ...):gsub("\\\n", " "):gmatch "[^\n]+" do
    local list = line:find " %-c " and compiled or line:find " %-shared " and linked or {}
    list[#list + 1] = line
  end
  assert.is_true(#compiled > 0)
  assert.equal(1, #linked)
  return compiled, linked
end

describe("make", function()
  it("passes CPPFLAGS, CFLAGS and LDFLAGS to each call, and sets no second level", function()
    local compiled, linked = calls("CPPFLAGS=-D_FORTIFY_SOURCE=2", "CFLAGS=-Og",
      "LDFLAGS=-Wl,--theirs")
    for _, line in ipairs(compiled) do
      assert.matches(" -D_FORTIFY_SOURCE=2 -Og ", line, 1, true)
      assert.equal(1, select(2, line:gsub("_FORTIFY_SOURCE=", "")), line)
    end
    assert.matches("-Wl,--theirs", linked[1], 1, true)
  end)

  it("compiles with the Lua headers of LUA_CFLAGS only, and with _FORTIFY_SOURCE=3", function()
    for _, line in ipairs(calls "LUA_CFLAGS=-I/opt/theirs/include") do
      assert.matches(" -I/opt/theirs/include ", line, 1, true)
      assert.is_nil(line:find("/usr/include/lua", 1, true))
      assert.matches(" -D_FORTIFY_SOURCE=3 ", line, 1, true)
    end
  end)
end)
