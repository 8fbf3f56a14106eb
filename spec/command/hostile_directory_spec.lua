-- Tests the installed command in a directory that another user can write.
-- Needs: the Lua script.

-- Regression 052. Lua searches the current directory for modules: on Lua 5.1 and LuaJIT first, on
-- 5.2 to 5.4 last, but before any C module. So the installed command loaded ./luv.lua instead of
-- the installed luv.so. If root ran etcdlock in a directory that another user could write, that
-- user's code ran as root.

-- LUA_INIT code: appends the name of each required module to a file.
local RECORD = [[
  table.insert(package.searchers or package.loaders, 1, function(name)
    local names = assert(io.open(os.getenv "NAMES", "a"))
    names:write(name, "\n")
    names:close()
  end)
]]

-- A module that reports that it was loaded.
local PLANTED = 'io.stderr:write("loaded: ", ...) os.exit(1)'

-- Command lines that use all subcommands. All of them succeed, except the first one: nobody holds
-- the lock that it names.
local COMMANDS = {
  { "break", prefix .. "lock", "1" },
  { "--version" },
  { "completion", "bash" },
  { "doctor", "--prefix", prefix },
  { "elect", prefix .. "election", "here", "--", "true" },
  { "ls", prefix },
  { "run", prefix .. "lock", "--", "true" },
  { "run", prefix .. "semaphore", "--permits", "2", "--", "true" },
}

-- The environment variables of Lua, of which the suite has set some; false: not set.
local LUA_DEFAULTS = {}
for _, version in ipairs { "", "_5_2", "_5_3", "_5_4", "_5_5" } do
  for _, name in ipairs { "LUA_INIT", "LUA_PATH", "LUA_CPATH" } do
    LUA_DEFAULTS[name .. version] = false
  end
end

local installed

-- Runs the installed command with |args| in |directory|.
local function run(args, directory, variables)
  local env = suite.variables()
  for name, value in pairs(LUA_DEFAULTS) do env[name] = value end
  for name, value in pairs(variables or {}) do env[name] = value end
  return proc.run({ installed, (table.unpack or unpack)(args) }, { cwd = directory, env = env })
end

-- Runs each of COMMANDS in |directory|. Returns their exit statuses and messages.
local function outcomes(directory, variables)
  local list = {}
  for i, args in ipairs(COMMANDS) do
    local _, code, err = run(args, directory, variables)
    list[i] = ("%s: %d %s"):format(table.concat(args, " "), code, err)
  end
  return list
end

-- Creates a directory. It contains a file with the text |text| for each module in |names| with each
-- of |suffixes|. Returns the path of the directory.
local function plant(names, suffixes, text)
  local directory, paths, mkdir = temporary.directory(), {}, { "mkdir", "-p" }
  for _, name in ipairs(names) do
    for _, suffix in ipairs(suffixes) do
      local path = directory .. "/" .. name:gsub("%.", "/") .. suffix
      paths[#paths + 1], mkdir[#mkdir + 1] = path, path:match "^(.*)/"
    end
  end
  proc.run(mkdir)
  for _, path in ipairs(paths) do write_file(path, text) end
  return directory
end

-- Returns the names of the modules that the commands require, and what outcomes() returns in an
-- empty directory.
local function observe()
  local directory, names, seen = temporary.directory(), {}, {}
  local expected = outcomes(directory, { LUA_INIT = RECORD, NAMES = directory .. "/names" })
  for name in assert(read_file(directory .. "/names")):gmatch "[^\n]+" do
    if not seen[name] then
      seen[name], names[#names + 1] = true, name
    end
  end
  for _, name in ipairs { "argparse", "dkjson", "etcdlock", "etcdlock.core", "luv" } do
    assert.is_true(seen[name], name)
  end
  return names, expected
end

describe("the installed command", function()
  local root, names, expected

  setup(function()
    root = temporary.directory()
    make(uv.cwd(), "install", "TESTING=1", "SANITIZE=", "PREFIX=" .. root)
    installed = root .. "/bin/etcdlock"
    names, expected = observe()
    assert.matches(": 1 etcdlock: ", expected[1], 1, true)
    for i = 2, #COMMANDS do
      assert.equal(table.concat(COMMANDS[i], " ") .. ": 0 ", expected[i])
    end
  end)

  it("loads no Lua file from the current directory", function()
    local directory = plant(names, { ".lua", "/init.lua" }, PLANTED)
    assert.same(expected, outcomes(directory))
  end)

  it("loads no C module from the current directory", function()
    local directory = plant(names, { ".so" }, "not a shared object")
    assert.same(expected, outcomes(directory))
  end)

  it("reports a missing module if LUA_PATH and LUA_CPATH are all relative", function()
    local directory = plant(names, { ".lua", "/init.lua", ".so" }, PLANTED)
    local _, code, err = run({ "ls" }, directory, { LUA_PATH = "./?.lua;./?/init.lua;?.lua",
      LUA_CPATH = "./?.so;?.so" })
    assert.equal(71, code)
    assert.matches("the module argparse is missing for Lua", err, 1, true)
  end)

  it("loads modules from the absolute directories of LUA_PATH", function()
    local directory = plant({ "argparse" }, { ".lua" }, PLANTED)
    local _, code, err = run({ "ls" }, temporary.directory(),
      { LUA_PATH = directory .. "/?.lua;;" })
    assert.equal(1, code)
    assert.matches("^loaded: argparse", err)
  end)

  it("is run by its bash completion instead of ./etcdlock", function()
    local directory = temporary.directory()
    temporary.program(directory .. "/etcdlock", "echo started $0 >&2; exit 1")
    local out, code, err = proc.run({ "bash", "-c", [[
      PATH=":$PATH" && source "$0/share/bash-completion/completions/etcdlock" &&
        complete -p etcdlock
    ]], root }, { cwd = directory, env = LUA_DEFAULTS })
    assert.same({ 0, "" }, { code, err })
    assert.matches("^complete .* etcdlock\n$", out)
  end)

  it("is not installed if LUA is a relative path or does not exist", function()
    for _, interpreter in ipairs { "./lua", "no-such-lua" } do
      assert.error_matches(function()
        make(uv.cwd(), "install", "TESTING=1", "SANITIZE=", "PREFIX=" .. root,
          "LUA=" .. interpreter)
      end, "Name the interpreter of the command")
    end
  end)
end)
