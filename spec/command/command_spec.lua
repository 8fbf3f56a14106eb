-- Tests the command as a whole: its help, its usage errors, its bash completion, and that the
-- documents describe every option.

suite.etcd()

-- Returns the help text of the subcommand |name|; nil: of the whole command.
local function help(name)
  local out, status, err = command.run(name and { name, "--help" } or { "--help" })
  assert.same({ 0, "" }, { status, err })
  return out
end

local function subcommands()
  local names = {}
  for name in help():match "Commands:\n(.-)\n\n":gmatch "\n? +(%l+) [^\n]+" do
    names[#names + 1] = name
  end
  return names
end

-- Returns a list of the options in the help |text|, with their dashes, without --help and -h.
local function options(text)
  local found = {}
  for line in text:gmatch "[^\n]+" do
    for option in (line:match "^ +(%-[^ ].-)  " or line:match "^ +(%-%S+ ?%S*)$" or "")
      :gmatch "%-%-?[%a-]+" do
      if option ~= "--help" and option ~= "-h" then found[#found + 1] = option end
    end
  end
  return found
end

-- Returns a set of the words that bash offers for the last word of |line|.
local function completions(line)
  local out, code, err = proc.run { "bash", "-c", [==[
    eval "$0"
    COMP_WORDS=($1)
    if [[ "$1" = *" " ]]; then COMP_WORDS+=(""); fi
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _etcdlock_line
    printf '%s\n' "${COMPREPLY[@]}"
  ]==], (command.run { "completion", "bash" }), line }
  assert.same({ 0, "" }, { code, err })
  local found = {}
  for word in out:gmatch "[^\n]+" do found[word] = true end
  return found
end

describe("the etcdlock command", function()
  it("prints its version with --version", function()
    assert.equal("etcdlock " .. require "etcdlock"._VERSION .. "\n", (command.run { "--version" }))
  end)

  it("lists its subcommands with --help, and each has a help text", function()
    local names = subcommands()
    assert.is_true(#names >= 3)
    for _, name in ipairs(names) do
      assert.matches("^Usage: etcdlock " .. name, help(name))
    end
  end)

  it("exits with 64 after a usage error, and prints the error and the help to read", function()
    -- A command line (a list: its words), the message, and the subcommand whose help is named
    -- (false: the command's; nil: the first word of the line).
    for _, case in ipairs {
      { "", "a command is required", false },
      { "rum", "unknown command 'rum'", false },
      { "stock -- true", "unknown command 'stock'; to run a command under the lock stock,"
        .. " write: etcdlock run stock -- cmd\n", false },
      { "lock a true", "unknown command 'lock'; write: etcdlock run NAME -- CMD\n", false },
      { "run a -n true", "unknown option '-n'; for flock's -n write --timeout 0\n" },
      { "doctor -n", "unknown option '-n'" },
      { "run a", "the command to run is missing; write: etcdlock run a -- cmd; cmd may be"
        .. " bash (a shell that has the lock) or 'sleep infinity'" },
      { { "run", "it's a b", "--" }, "write: etcdlock run 'it'\\''s a b' -- cmd;", "run" },
      { "elect a 10.0.0.1:80", "write: etcdlock elect a 10.0.0.1:80 -- cmd;" },
      { "run a --timeout -1 -- true", "--timeout: '-1', wanted 0 to" },
      { "run a -E -1 -- true", "-E: '-1', wanted an exit status" },
      { "run a --timeout -.5 -- true", "--timeout: '-.5', wanted 0 to" },
      { "run a --shared -1 -- true", "unknown option '-1'" },
      { "--discovery-srv=0 ls", "--discovery-srv: discovery by DNS", false },
      { "elect a b --json -- true", "--json needs --listen" },
      { "elect a -- true", "missing argument 'VALUE'" },
      { "elect a", "missing argument 'VALUE'" },
      { "elect a b", "the command to run is missing" },
      { "elect -l a b", "--listen takes no VALUE" },
      { "elect -l a -- true", "no command; leave them out" },
      { "ls -- a", "ls runs no command; leave out --" },
      { "ls a b", "too many arguments\n" },
      { "ls --prefix a/ b", 'ls takes full names, without --prefix; give "a/b" as PREFIX' },
      { "--prefix a/ ls b", 'ls takes full names, without --prefix; give "a/b" as ', "ls" },
      { "break --prefix a/ b 1", 'takes full names, without --prefix; give "a/b" as NAME' },
      { "break a 0", "TOKEN: '0', wanted a whole number from 1 to 9007199254740992\n" },
      { "break a x", "TOKEN: 'x', wanted a whole number" },
      { "break a 1.5", "TOKEN: '1.5', wanted a whole number" },
      { { "break", "a", "" }, "TOKEN: '', wanted a whole number", "break" },
      { "run -- true", "missing argument 'NAME'" },
      { "run a --tll=1 -- true", "unknown option '--tll'" },
      { "run a --tll 1 true", "unknown option '--tll'" },
      { "run a --ttl -- true", "'--ttl' requires an argument" },
      { "run a --ttl", "'--ttl' requires an argument" },
      { "run a --timeout 5x true", "--timeout: '5x', wanted 0 to 1000000000 seconds, in a form"
        .. " like 90, 90s, 15m, 1h or 1d\n" },
      { "run a --ttl 6m true", "--ttl: '6m', wanted 2 to 300 seconds" },
      { "run a --timeout s true", "--timeout: 's', wanted" },
      { "run a --ttl=x -- true", "--ttl: 'x', wanted 2 to 300 seconds" },
      { "run a --grace=301 -- true",
        "--grace: 301 s is longer than the longest lock delay, 300 s" },
      { "run a --once-per=never -- true", "--once-per: 'never', wanted 1 to 1000000000 seconds, in"
        .. " a form like 90, 90s, 15m, 1h or 1d, or ever\n" },
      { "run a --shared --permits=2 -- true", "can not be used together" },
      { "run a --once-per=1d --shared -- true", "can not be used together" },
      { "run a --once-per=1d --permits=2 -- true", "can not be used together" },
      { "ls --interval=0", "--interval: '0', wanted" },
      { "--discovery-srv=x ls", "--discovery-srv: discovery by DNS", false },
      { "ls --insecure-skip-tls-verify", "TLS verification cannot be disabled", false },
      { "--insecure-transport=maybe ls", "'true', 'false'", false },
    } do
      local words, page = case[1], case[3]
      if type(words) == "string" then
        words = {}
        for word in case[1]:gmatch "%S+" do words[#words + 1] = word end
        if page == nil then page = words[1] end
      end
      local out, status, err = command.run(words)
      assert.same({ "", 64 }, { out, status }, err)
      assert.equal(1, (err:find("etcdlock: ", 1, true)))
      assert.is_truthy(err:find(case[2], 1, true), err)
      assert.is_truthy(err:find(("\nTry 'etcdlock %s--help'.\n"):format(page and page .. " " or ""),
        1, true), err)
    end
  end)

  it("exits with 64 and names the option or variable if connect rejects a setting", function()
    for _, case in ipairs {
      { { "--endpoints", "x" }, {}, "--endpoints" },
      { { "--cacert", "/nowhere" }, {}, "--cacert \"/nowhere\" cannot be read" },
      { { "--user", "me" }, {}, "--user = \"me\", wanted a password as well" },
      { { "--prefix", ("x"):rep(600) }, {}, "--prefix = " },
      { {}, { ETCDCTL_CACERT = "/nowhere" }, "ETCDCTL_CACERT" },
      { {}, { ETCDCTL_INSECURE_SKIP_TLS_VERIFY = "true" }, "ETCDCTL_INSECURE_SKIP_TLS_VERIFY" },
      { { "--user", "me:secret", "--endpoints", "http://10.0.0.1:2379" }, {},
        "would be sent in plain text" },
    } do
      local _, status, err = command.run({ case[1], "elect", "--listen", "a" }, case[2])
      assert.equal(64, status, err)
      assert.is_truthy(err:find(case[3], 1, true), err)
      assert.is_nil(err:find "etcdlock%.connect")
      assert.is_nil(err:find "secret")
    end
  end)

  it("accepts the boolean flags of etcdctl with and without a value", function()
    local etcd = Etcd.start { tls = false }
    local env = clients.with(matrix.no_variables(),
      { ETCDCTL_ENDPOINTS = etcd:endpoint():match "//(.*)" })
    for _, case in ipairs {
      { "--insecure-transport", 0 }, { { "--insecure-transport", "true" }, 0 },
      { "--insecure-transport=T", 0 }, { "--insecure-transport=0", 76 },
      { "--insecure-skip-tls-verify=0", 0 },
      { "--insecure-transport=false", 76 }, { { "--insecure-transport", "false" }, 76 },
    } do
      local _, status, err = command.run({ case[1], "ls" }, env)
      assert.equal(case[2], status, err)
    end
  end)

  it("exits with 71 and names the Debian package if a Lua module is missing", function()
    if matrix.command then pending "the executable contains the modules" end
    local lua = require "luv".cwd() .. "/lua"
    local _, status, err = command.run({ "ls" },
      { LUA_PATH = lua .. "/?.lua;" .. lua .. "/?/init.lua" })
    assert.equal(71, status)
    assert.equal("etcdlock: the module argparse is missing for " .. _VERSION
      .. "; on Debian install lua-argparse\n", err)
  end)

  it("is not loaded, nor are argparse and luv, by a program that requires etcdlock", function()
    local child = proc.lua([[
      local client = assert(require("etcdlock").connect { endpoints = ... })
      assert(client:ping())
      client:queues()
      client:close()
      for name in pairs(package.loaded) do
        if name:find "argparse" or name:find "^luv" or name:find "command" then print(name) end
      end
      print "done"
    ]], suite.endpoints())
    child:expect "^done"
    assert.equal("done\n", child.out.text)
    child:wait()
  end)
end)

describe("every option of the command", function()
  local all = { [""] = options(help()) }
  for _, name in ipairs(subcommands()) do all[name] = options(help(name)) end

  it("is listed by --help", function()
    assert.is_true(#all[""] >= 11)
    assert.same({ "--shared", "--permits", "--once-per", "--value", "--at-least", "--timeout",
      "--ttl", "--max-hold", "--grace", "--lock-delay", "-E", "-q", "--quiet" }, all.run)
    assert.same({ "--runs", "-w", "--watch", "--interval", "--json", "--names" }, all.ls)
  end)

  local function assert_documented(text)
    for name, list in pairs(all) do
      assert.is_truthy(text:find("etcdlock " .. name, 1, true), name)
      for _, option in ipairs(list) do
        assert.is_truthy(text:find("%f[%-]" .. option:gsub("%-", "%%-") .. "%f[^%a-]"), option)
      end
    end
  end

  it("is documented in doc/command.md", function()
    assert_documented(assert(read_file "doc/command.md"))
  end)

  it("is documented in the manual page, which man formats without a warning", function()
    local page = temporary.directory() .. "/etcdlock.1"
    write_file(page, (proc.run_lua "doc/generate/man.lua"))
    local out, code, err = proc.run({ "man", "--warnings", "--local-file", page },
      { env = { MANWIDTH = "1000", LC_ALL = "C.UTF-8" } })
    assert.same({ 0, "" }, { code, err })
    assert_documented(out)
    assert.matches("\n +%-%-at%-least S\n +minimum time, from the grant", out)
    assert.is_nil(out:gsub(" | jq ", ""):gsub(" | source ", ""):find "[`|]")
  end)

  it("is offered by the bash completion", function()
    for name, list in pairs(all) do
      for _, option in ipairs(list) do
        assert.is_truthy(completions("etcdlock " .. name .. " " .. option)[option], option)
      end
    end
  end)
end)

describe("the bash completion", function()
  it("offers subcommands, the values of an option, and no options of other subcommands", function()
    local found = completions "etcdlock "
    for _, name in ipairs(subcommands()) do assert.is_true(found[name], name) end
    assert.same({ ["false"] = true }, completions "etcdlock ls --insecure-transport f")
    assert.is_nil(completions "etcdlock ls --"["--ttl"])
  end)

  it("completes the words after -- as the command to run", function()
    assert.is_true(completions "etcdlock run a -- tru"["true"])
    assert.is_nil(completions "etcdlock run a -- --t"["--ttl"])
  end)

  it("completes the command after NAME and options, or NAME and VALUE, without --", function()
    for _, line in ipairs { "etcdlock run a tru", "etcdlock --prefix x run --shared a --ttl 5 tru",
      "etcdlock run a --ttl = 5 tru", "etcdlock run a : b tru", "etcdlock elect a b tru",
      "etcdlock run --insecure-transport false a -E 0 -q tru" } do
      assert.is_true(completions(line)["true"], line)
    end
    for _, line in ipairs { "etcdlock run tru", "etcdlock elect a tru", "etcdlock run a --ttl tru",
      "etcdlock ls a tru" } do
      assert.is_nil(completions(line)["true"], line)
    end
    assert.is_nil(completions "etcdlock run a true --t"["--ttl"])
    assert.is_true(completions "etcdlock run a --t"["--ttl"])
  end)
end)
