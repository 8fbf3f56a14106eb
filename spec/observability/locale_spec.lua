-- Tests programs in a locale with other numbers, letters or messages.

-- Regression 056. Text for other programs depended on the locale of the program: in some locales,
-- numbers had a decimal comma, and "i" was not converted to "I".
client_options { ttl = 10 }

-- Compiles the locale |source| in |charmap| from the C library's sources. Returns the value of
-- LOCPATH with which a program finds it by the name |source|, or nil and why not.
local function compile(source, charmap)
  local directory = temporary.directory()
  local ok, out, code, err = pcall(proc.run,
    { "localedef", "-i", source, "-f", charmap, directory .. "/" .. source })
  if ok and code == 0 then return directory end
  return nil, ("localedef cannot compile the locale %s (Debian: the package locales): %s")
    :format(source, ok and err or out)
end

-- The German locale has a decimal comma. The Turkish locale has no "I" for "i", and has letters
-- above 127. The Pashto locale has a decimal point of two bytes.
local german, no_german = compile("de_DE", "UTF-8")
local pashto, no_pashto = compile("ps_AF", "UTF-8")
local turkish, no_turkish = compile("tr_TR", "ISO-8859-9")

-- Lua code that chooses the locale in its first argument, and connects with the options in its
-- second one, to which |%s| may add others. Defines |etcdlock| and |client|. Loads dkjson before it
-- chooses the locale, as most programs do.
local BEGINNING = [[
  local json, etcdlock = require "dkjson", require "etcdlock"
  local opts = json.decode((select(2, ...)))
  assert(os.setlocale((...)), "no such locale")
  %s
  local client = assert(etcdlock.connect(opts))
]]

-- Runs BEGINNING, with the Lua code |options| (nil: none), and |source| in the locale |name|, which
-- is found below |path|. Returns the output.
local function run_in(name, path, source, options)
  local opts = json.encode { endpoints = suite.endpoints(), prefix = prefix, env = false }
  return variables.run({ LOCPATH = path }, BEGINNING:format(options or "") .. source, name, opts)
end

-- Like run_in, but in the German locale.
local function run_in_german(options, source) return run_in("de_DE", german, source, options) end

-- Runs the command etcdlock with |args| in the locale |name|, which is found below |path|. Returns
-- the same as command.run. The command itself chooses no locale, but a user's LUA_INIT may.
local function command_in(name, path, args)
  local env = { LOCPATH = path, LUA_INIT = ('assert(os.setlocale "%s")'):format(name) }
  for _, version in ipairs { "5_2", "5_3", "5_4", "5_5" } do env["LUA_INIT_" .. version] = false end
  return command.run(args, env)
end

-- Defines a test. The test is skipped if |missing| says why it cannot run.
local function test(name, missing, run)
  it(name, function()
    if missing then return pending(missing) end
    run()
  end)
end

test("a lock can be held in a locale with a decimal point of two bytes", no_pashto, function()
  assert.equal("true", (run_in("ps_AF", pashto, [[
    local lock = assert(client:lock("pashto", { value = "v" }))
    io.write(tostring(lock:unlock()))
  ]])))
end)

describe("in a locale with a decimal comma", function()
  test("the value of a lock's key is JSON that other clients read", no_german, function()
    local out = run_in_german("opts.lock_delay = 2.5", [[
      local lock = assert(client:lock("value", { owner = 0.5, value = "v" }))
      print((assert(lock:get(lock:key()))))
      local place = assert(client:queue "value")[1]
      print(place.owner, place.value, place.lock_delay == 2.5, place.host ~= nil, place.pid ~= nil)
      assert(lock:unlock())
      client:close()
    ]])
    local said, read = out:match "^([^\n]*)\n([^\n]*)\n$"
    local label = json.decode(said)
    assert.equal(2.5, label.lock_delay)
    assert.equal("0.5", label.owner)
    assert.equal("v", label.value)
    assert.equal("0.5\tv\ttrue\ttrue\ttrue", read)
  end)

  test("client:metrics and join_metrics make a page that Prometheus reads", no_german, function()
    local out = run_in_german("opts.metrics = true", [[
      local lock = assert(client:lock "metrics")
      assert(lock:unlock())
      local page = assert(client:metrics { labels = { share = 0.5 } })
      io.write(etcdlock.join_metrics { page, page })
      client:close()
    ]])
    assert.matches('le="0.5"', out, 1, true)
    assert.matches('share="0.5"', out, 1, true)
    assert.is_nil(out:find "%d,%d", out)
    local sum = out:match '\netcdlock_wait_seconds_sum{[^}]*} (%S+)\n'
    assert.matches("^%d+%.%d+$", sum)
  end)

  test("messages and events show numbers with a point", no_german, function()
    local out = run_in_german("opts.log = function(event) print(event) end", [[
      local lock = assert(client:lock("text", { owner = 1.5 }))
      print((select(2, client:try_lock("text", { owner = 2.5 }))))
      print((select(2, lock:wait_lost(0.25))))
      print((select(2, client:lock("text", { linger = 86400.5 }))))
      local other = assert(client:lock("other", { max_hold = 10 }))
      local second = assert(etcdlock.connect(opts))
      local message, code
      repeat
        message, code = select(2, second:lock("other", { timeout = 0.25, owner = 1 }))
      until code ~= "unavailable"
      print(message)
      second:close()
      client:close()
    ]])
    assert.matches('another owner of this program, "1.5"', out, 1, true)
    assert.matches("was not lost within 0.25 s", out, 1, true)
    assert.matches("linger = 86400.5, wanted", out, 1, true)
    assert.matches("was not free within 0.25 s", out, 1, true)
    assert.matches("acquired after %d+%.%d+ s", out)
    assert.is_nil(out:find "%d,%d", out)
  end)

  test("the command reads numbers with a point, and ls --json writes them so", no_german, function()
    local name = prefix .. "command"
    local words = { "run", "--timeout", "2.5", name, "--", "echo", "ran" }
    local out, code, err = command_in("de_DE", german, words)
    assert.equal("ran\n", out, err)
    assert.equal(0, code)
    words[3] = "2,5"
    out, code, err = command_in("de_DE", german, words)
    assert.equal("", out)
    assert.equal(64, code)
    assert.matches("--timeout: '2,5', wanted 0 to 1000000000 seconds", err, 1, true)
    local lock = assert(connect { lock_delay = 2.5 }:lock "command")
    out, code, err = command_in("de_DE", german, { "ls", "--json", name })
    assert.equal(0, code, err)
    assert.equal(2.5, json.decode(out)[1].entries[1].lock_delay)
    assert.is_true(lock:unlock())
  end)
end)

describe("in a Turkish locale", function()
  test("etcdlock run knows the signals by their names", no_turkish, function()
    local words = { "run", prefix .. "turkish", "--", "echo", "ran" }
    local out, code, err = command_in("tr_TR", turkish, words)
    assert.equal("ran\n", out, err)
    assert.equal(0, code)
  end)

  test("client:metrics refuses a label whose name has a letter above 127", no_turkish, function()
    assert.matches("is reserved or not a valid label name", run_in("tr_TR", turkish, [[
      print(select(2, pcall(client.metrics, client, { labels = { ["gr\246\223e"] = "x" } })))
      client:close()
    ]]), 1, true)
  end)
end)

-- Regression 075. Messages contained the system's texts for errors in the language and encoding of
-- the program's locale. Operators searched for the English texts in vain, and the client did not
-- recognize a refused connection.

-- Runs |source| in a program with a German locale and returns its output. Returns nil if the C
-- library has no German texts.
local function run_with_messages(source)
  local out = variables.run({ LOCPATH = german, LANGUAGE = false }, [[
    local etcdlock = require "etcdlock"
    assert(os.setlocale "de_DE")
    if select(2, io.open "/no/such"):find "No such file" then return io.write "english" end
  ]] .. source)
  return out ~= "english" and out or nil
end

local function test_message(name, source, expected)
  it(name, function()
    if no_german then return pending(no_german) end
    local out = run_with_messages(source)
    if not out then return pending "the C library has no German words (Debian: libc-l10n)" end
    assert.matches(expected, out, 1, true)
  end)
end

test_message("the message about a missing file is the same in every locale", [[
  io.write((select(2, etcdlock.connect { endpoints = "https://127.0.0.1:1", cacert = "/no/such",
    env = false })))
]], 'cacert "/no/such" cannot be read: No such file or directory')

-- Regression 216. The resolver's reason was in the language of the program's locale.
test_message("the reason of the resolver is the same in every locale", [[
  local client = assert(etcdlock.connect { endpoints = "[fe80::1%nowhere]:1", env = false })
  io.write((select(2, client:lock("a", { timeout = 1 }))))
  client:close()
]], "this machine has no such network interface: Name or service not known")

for _, driver in ipairs { "the caller", "the I/O thread" } do
  test_message("a refused connection is called so in every locale, if driven by " .. driver, ([[
    local client = assert(etcdlock.connect { endpoints = "127.0.0.1:1", env = false })
    if %q == "the caller" then
      io.write((select(2, client:lock("a", { timeout = 1 }))))
    else
      local pending = assert(client:lock_async("a", { timeout = 1 }))
      local ok, message
      repeat ok, message = pending:step() until ok ~= false
      io.write(message)
    end
    client:close()
  ]]):format(driver), "etcd 127.0.0.1:1: Connection refused")
end
