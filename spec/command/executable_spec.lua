-- Tests what the executable does differently from the Lua script.
-- Needs: the executable.

-- Returns the environment variables with which Lua's interpreter loads the code |init| and modules
-- in |directory|.
local function lua_variables(directory, init)
  local env = suite.variables()
  for _, version in ipairs { "", "_5_4" } do
    env["LUA_INIT" .. version] = init
    env["LUA_PATH" .. version] = directory .. "/?.lua;" .. directory .. "/?/init.lua"
    env["LUA_CPATH" .. version] = directory .. "/?.so"
  end
  return env
end

-- Creates a directory with false modules of the names that the command loads.
local function plant()
  local directory = temporary.directory()
  proc.run { "mkdir", "-p", directory .. "/etcdlock/command" }
  for _, name in ipairs {
    "argparse", "dkjson", "luv", "etcdlock", "etcdlock/core", "etcdlock/command", "etcdlock/client",
    "etcdlock/command/parser", "etcdlock/command/licenses",
  } do
    write_file(directory .. "/" .. name .. ".lua", "io.stderr:write 'loaded' os.exit(1)")
    write_file(directory .. "/" .. name .. ".so", "not a shared object")
  end
  return directory
end

local function run(args, opts)
  return proc.run({ matrix.command, (table.unpack or unpack)(args) }, opts)
end

-- The shared libraries that the executable may need. ld-linux is the loader.
local SHARED = { ssl = true, crypto = true, z = true, m = true, c = true, ["ld-linux"] = true }

describe("the executable", function()
  it("loads no module from the current directory, LUA_PATH or LUA_CPATH, and ignores LUA_INIT",
    function()
      local directory = plant()
      local opts = { cwd = directory, env = lua_variables(directory, "os.exit(9)") }
      for _, args in ipairs {
        { "--version" }, { "--licenses" }, { "completion", "bash" }, { "ls", prefix },
        { "run", prefix .. "lock", "--", "true" }, { "doctor", "--prefix", prefix },
        { "elect", prefix .. "election", "here", "--", "true" },
      } do
        local _, code, err = run(args, opts)
        assert.same({ 0, "" }, { code, err }, table.concat(args, " "))
      end
    end)

  it("needs no shared libraries but those of OpenSSL, zlib and C", function()
    local out, code, err = proc.run { "readelf", "--dynamic", matrix.command }
    assert.equal(0, code, err)
    for library in out:gmatch "%(NEEDED%)[^\n]*%[(.-)%]" do
      local name = library:match "^lib(%a+)%.so%.%d$" or library:match "^ld%-linux"
      assert.is_true(SHARED[name], library)
    end
  end)

  it("prints the licences of all that is in it", function()
    local out, code, err = run { "--licenses" }
    assert.same({ 0, "" }, { code, err })
    for _, text in ipairs {
      assert(read_file "LICENSE"), "Upstream-Name: grpc", "Lua.org, PUC-Rio", "libuv",
      "Apache License", "GNU GENERAL PUBLIC LICENSE", "David Heiko Kolf", "Peter Melnichenko",
      "uthash", "RE2",
    } do
      assert.is_truthy(out:find(text, 1, true), text)
    end
  end)

  it("exits with 1 if the licences cannot be written", function()
    local _, code = proc.run { "sh", "-c", '"$0" --licenses >/dev/full', matrix.command }
    assert.equal(1, code)
  end)

  it("is installed with its manual page and the completions, and uninstalled", function()
    local directory = temporary.directory() .. "/a b"
    local function list_files()
      return (proc.run { "sh", "-c", 'cd "$0" && find . -type f | sort', directory })
    end
    make(uv.cwd(), "install-executable", "PREFIX=" .. directory)
    assert.equal(table.concat({
      "./bin/etcdlock", "./share/bash-completion/completions/etcdlock",
      "./share/fish/vendor_completions.d/etcdlock.fish", "./share/man/man1/etcdlock.1",
      "./share/zsh/site-functions/_etcdlock", "",
    }, "\n"), list_files())
    for _, file in ipairs {
      "bash-completion/completions/etcdlock", "fish/vendor_completions.d/etcdlock.fish",
      "zsh/site-functions/_etcdlock",
    } do
      local text = assert(read_file(directory .. "/share/" .. file))
      assert.equal(directory .. "/bin/etcdlock", text:match "_etcdlock_program[= ]'(.-)'\n")
    end
    assert.matches("^etcdlock %d", (proc.run { directory .. "/bin/etcdlock", "--version" }))
    make(uv.cwd(), "uninstall", "PREFIX=" .. directory)
    assert.equal("", list_files())
  end)
end)
