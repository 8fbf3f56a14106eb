-- Tests etcdlock doctor: it prints the source of each setting, the state of etcd, and a remedy for
-- each problem.

-- Runs doctor with the arguments |words| and the variables |env|, without the variables of the
-- suite's etcd. Fails unless it exits with |status| (nil: any). Returns its output.
local function doctor(status, words, env)
  local out, got, err = command.run({ "doctor", words }, clients.with(matrix.no_variables(), env))
  assert.same({ status or got, "" }, { got, err }, out)
  return out
end

-- The same for the locks of this file in the suite's etcd.
local function doctor_here(status)
  local out, got = command.run { "doctor", "--prefix", prefix }
  assert.equal(status, got, out)
  return out
end

-- Returns the variables with which the command logs in to |etcd| of secured.lua.
local function variables_of(etcd)
  return { ETCDCTL_ENDPOINTS = etcd:endpoint(), ETCDCTL_USER = "locker:" .. secured.PASSWORD }
end

local function assert_says(out, ...)
  for _, text in ipairs { ... } do
    assert.is_truthy(out:find(text, 1, true), text .. "\n" .. out)
  end
end

-- Returns the words of the line of |out| that begins with the word |first|; nil: there is none.
local function row(out, first)
  for line in out:gmatch "[^\n]+" do
    local words = {}
    for word in line:gmatch "%S+" do words[#words + 1] = word end
    if words[1] == first then return words end
  end
end

describe("etcdlock doctor", function()
  it('prints "No problem found." and the state of etcd, and exits with 0, if etcd works', function()
    local etcd = suite.etcd()
    local out, here = doctor_here(0), etcd:endpoint():match "//(.*)"
    assert_says(out, "\nNo problem found.\n", ("ok     %s: no alarm"):format(here),
      "a majority answers: ",
      'a lock can be acquired, kept and released: "' .. prefix .. 'etcdlock-doctor"',
      "etcdlock ls may list")
    -- The time is above 0, because etcd writes between the release and the grant.
    assert.is_true(tonumber(out:match "gets the lock after its release: (%d+%.%d) ms") > 0, out)
    local member = row(out, here)
    assert.equal(matrix.etcd_version(), member[2])
    assert.is_truthy(member[3] == "leader" or member[3] == "follower")
    assert.matches("^%d+%.%d$", member[4])
    assert.equal("answers", member[#member])
    assert.same({}, etcd:keys(prefix))
  end)

  it("tells whether etcdlock is tested with a member's version, and works without it", function()
    local etcd = Etcd.start { tls = false }
    local server = clients.scripted(etcd:endpoint())
    local here = { "--endpoints", server.address, "--prefix", prefix }
    assert.matches("\n  ok     etcdlock [%d.]+ is tested with etcd 3%.%d\n", doctor(nil, here))
    server:extend("Status", protobuf.bytes(2, "3.99.0"))
    assert.matches("\n  note   etcdlock [%d.]+ is tested with etcd 3%.4 to [%d.]+, not with 3%.99",
      doctor(0, here))
    -- As etcd 3.5.30 answers a user without the role root.
    server:answer("Status", "before", error_rows.STATUS.PERMISSION_DENIED,
      "etcdserver: permission denied")
    local out = doctor(0, here)
    assert.equal("answers", row(out, server.address)[7])
    assert_says(out, server.address .. ": shows its version and state only to users with the role",
      "a lock can be acquired")
  end)

  it("uses colours at a terminal, unless NO_COLOR is set", function()
    local words, env = command.words()
    env.TERM = "xterm"
    local line = ("exec %s %s doctor --endpoints 127.0.0.1:1"):format(words[1], words[2])
    local screen = proc.talk(session.at_terminal(line), env)
    screen:expect "^\27%[1mSettings\27%[0m\r$"
    screen:expect "^  \27%[1;31mWRONG\27%[0m  etcd 127%.0%.0%.1:1: Connection refused\r$"
    screen:expect "^\27%[1;31m1 problem found%.\27%[0m\r$"
    assert.equal(1, (screen:wait()))
    env.NO_COLOR = "1"
    screen = proc.talk(session.at_terminal(line), env)
    assert.equal(1, (screen:wait()))
    assert.is_nil(screen.out.text:find "\27")
    assert_says(screen.out.text, "  WRONG  etcd 127.0.0.1:1: Connection refused")
  end)

  it("prints the source of each setting: option, variable or default, and no password", function()
    local out = doctor(1, { "--endpoints", "127.0.0.1:1,127.0.0.1:2", "--user=me:pw-7391" }, {
      ETCDCTL_ENDPOINTS = "127.0.0.1:3", ETCDCTL_INSECURE_TRANSPORT = "true",
    })
    assert.same({ "endpoints", "127.0.0.1:1,127.0.0.1:2", "--endpoints" }, row(out, "endpoints"))
    assert.same({ "insecure-transport", "true", "ETCDCTL_INSECURE_TRANSPORT" },
      row(out, "insecure-transport"))
    assert.same({ "user", "me", "--user" }, row(out, "user"))
    assert.same({ "password", "(not", "shown)", "--user" }, row(out, "password"))
    assert.same({ "cacert", "-", "default" }, row(out, "cacert"))
    assert.is_nil(out:find("7391", 1, true))
    out = doctor(nil, {}, { ETCDCTL_USER = "me:pw-7391" })
    assert.same({ "endpoints", "127.0.0.1:2379", "default" }, row(out, "endpoints"))
    assert.same({ "user", "me", "ETCDCTL_USER" }, row(out, "user"))
    assert.same({ "password", "(not", "shown)", "ETCDCTL_USER" }, row(out, "password"))
    out = doctor(nil, {}, { ETCDCTL_USER = "me:pw-7391", ETCDCTL_PASSWORD = "pw-1937" })
    assert.same({ "user", "me:(not", "shown)", "ETCDCTL_USER" }, row(out, "user"))
    assert.is_nil(out:find "7391" or out:find "1937")
  end)

  it("reports an invalid setting with its remedy, and exits with 1", function()
    assert_says(doctor(1, { "--cacert", "/nowhere" }),
      '  WRONG  --cacert "/nowhere" cannot be read: ', "\n         -> correct the path",
      "\n1 problem found.\n")
    assert_says(doctor(1, {}, { ETCDCTL_INSECURE_SKIP_TLS_VERIFY = "true" }),
      "ETCDCTL_INSECURE_SKIP_TLS_VERIFY", "-> unset it")
  end)

  it("reports an unreachable member, a duplicate endpoint and a member without TLS", function()
    local etcd = Etcd.start { tls = false }
    local here = etcd:endpoint():match "//(.*)"
    local out = doctor(1, { "--endpoints", here .. ",127.0.0.1:1" })
    assert_says(out, ("ok     %s: plain text, within this machine"):format(here),
      "WRONG  etcd 127.0.0.1:1: Connection refused", "-> start etcd there",
      "a lock can be acquired", "\n1 problem found.\n")
    assert.equal("answers", row(out, here)[10])
    assert.equal("-", row(out, "127.0.0.1:1")[2])
    -- First, two endpoints of one member. Then TLS to a member that does not use TLS.
    assert_says(doctor(0, { "--endpoints", here .. "," .. here:gsub("127.0.0.1", "localhost") }),
      "is the same member as")
    assert_says(doctor(1, { "--endpoints", here, "--insecure-transport=false" }),
      "the server does not speak TLS")
  end)

  it("notes an endpoint with etcd's port for other members", function()
    local out = doctor(nil, { "--endpoints", "127.0.0.1:1,127.0.0.1:2380" })
    assert_says(out, "\n  note   127.0.0.1:2380: 2380 is etcd's port for other members; clients use"
      .. " 2379\n")
    assert.is_nil(out:find("127.0.0.1:1: 2380", 1, true))
  end)

  it("reports the version and the missing leader of a member without a majority", function()
    local etcd = Etcd.start { tls = false, members = 3 }
    etcd:kill(2)
    etcd:kill(3)
    local here = etcd:endpoint():match "//(.*)"
    local client = clients.connector { endpoints = here, env = false } ()
    wait.eventually(function() return client:status()[1].problems[1] end, 10, "it has no leader")
    local out = doctor(nil, { "--endpoints", here })
    assert_says(out, ("WRONG  %s: etcdserver: no leader"):format(here),
      "\n         -> the member reaches no majority: start the members that are down")
    assert.equal(matrix.etcd_version(), row(out, here)[2])
    assert.equal("-", row(out, here)[3])
  end)

  it("has a remedy for a certificate that is self-signed, not valid yet, or for others", function()
    local cast = suite.cast()
    for name, says in pairs {
      server_alone = { "the server's certificate is self-signed, and not in the system's CA file",
        "; give --cacert", "\n         -> give that certificate with --cacert, if it is etcd's" },
      server_elsewhere = { "\n         -> give a name in the certificate as --server-name\n" },
      server_future = { "is not valid before",
        "\n         -> check this machine's clock, or wait until" },
    } do
      local etcd = Etcd.start { tls = tls.served_by(cast[name], false) }
      local ca = name == "server_alone" and {} or { "--cacert", cast.ca.cert }
      assert_says(doctor(1, { "--endpoints", etcd:endpoint(), ca }), (table.unpack or unpack)(says))
    end
  end)

  it("reports a NOSPACE alarm, and that no lock can be taken", function()
    local etcd = Etcd.start { tls = false, args = { "--quota-backend-bytes=20000" } }
    for _ = 1, 10 do etcd:ctl("put", "a", ("x"):rep(10000)) end
    local out = doctor(1, { "--endpoints", etcd:endpoint() })
    assert_says(out, "alarm:NOSPACE", "-> the quota of the member's database is used up: ",
      "WRONG  no lock can be acquired: ")
    assert.is_nil(out:find("no alarm", 1, true))
  end)

  it("reports that it took no test lock if another client holds it, and exits with 0", function()
    clients.keep(assert(client:lock "etcdlock-doctor"))
    local out = doctor_here(0)
    assert_says(out, "note   the test lock \"" .. prefix)
    assert.is_nil(out:find "can be acquired")
  end)

  -- Regression 202. Keys below the name of a lock were reported only while the lock was in use.
  it("reports names with 1,000 or more other keys below them, the worst first", function()
    finally(function()
      clients.close_all()
      etcd:del_all(prefix)
    end)
    local lock = clients.keep(assert(client:lock "order"))
    clients.keep(assert(client:lock "stock/used"))
    -- Puts |count| keys that begin with |start|, in transactions of 100.
    local function fill(start, count)
      for first = 1, count, 100 do
        local puts = {}
        for i = first, math.min(first + 99, count) do
          puts[#puts + 1] = { "put", ("%s%s%d"):format(prefix, start, i), "price=12" }
        end
        assert(lock:txn(puts))
      end
    end
    for start, count in pairs {
      ["order/"] = 1000, ["stock/used/item/"] = 1100, ["stock/free/2024/x"] = 600,
      ["stock/free/2025/"] = 600, ["stock/free/2026/"] = 999, ["small/"] = 999,
    } do
      fill(start, count)
    end
    local out, slow = doctor_here(0), {}
    for kind, name, count in out:gmatch '\n  note   (%l+) "([^"]*)": (%d+) [%l ]*keys below it' do
      slow[#slow + 1] = ("%s %s %s"):format(kind, name:sub(#prefix + 1), count)
    end
    assert.same({ "name stock/free 2199", "lock stock/used 1100", "lock order 1000" }, slow)
    assert_says(out, "slow each lock and unlock; give locks a prefix of their own\n",
      "which belong to no lock, slow a lock of this name and of each name above it; give locks")
  end)

  it("reports missing rights and a wrong password with the remedy, and prints no secret", function()
    local env = variables_of(secured.start(prefix, { tls = false }))
    doctor(0, { "--prefix", prefix }, env)
    assert_says(doctor(1, { "--prefix", "elsewhere/" }, env),
      "WRONG  no lock can be acquired: ", "permission denied",
      "-> etcdctl role grant-permission --prefix=true ROLE readwrite 'elsewhere/'",
      'etcdlock ls may not list the names below "elsewhere/": this user may not read')
    local out = doctor(nil, {}, env)
    assert_says(out, "WRONG  no lock can be acquired: ", "\n         -> give --prefix, ")
    assert.is_nil(out:find "grant")
    env.ETCDCTL_USER = "locker:" .. secured.WRONG
    out = doctor(1, { "--prefix", prefix }, env)
    assert_says(out, "password is wrong", "-> correct --user or ETCDCTL_PASSWORD")
    secured.assert_no_secret(out)
  end)

  it("tells the ttl that locks need if answers are slow", function()
    local proxy = Swallow.start(suite.endpoint())
    proxy:slow(0.8)
    local child = command.start { "doctor", "--prefix", prefix, "--endpoints", proxy:endpoint() }
    child:expect("note   an answer takes 0%.%d+ s: give locks a ttl of at least 4 s", 30)
    child:destroy()
    proxy:stop()
  end)

  -- Regression 273. production.md said that readwrite for the prefix is sufficient, and doctor did
  -- not check the rights to the keys of lock:get and lock:put.
  it("checks the rights to each key of --data, and changes nothing", function()
    local etcd = secured.start(prefix, { tls = false })
    local key, env = "stock/it's 50%", variables_of(etcd)
    assert_says(doctor(nil, { "--prefix", prefix }, env),
      "note   the rights to the keys of lock:get and lock:put were not checked: ")
    local words = { "--prefix", prefix, "--data", key }
    assert_says(doctor(nil, { words, "--data", prefix .. "own" }, env),
      ('WRONG  this user may not read the key "%s": '):format(key),
      ('WRONG  this user may not write the key "%s": '):format(key),
      "-> etcdctl role grant-permission ROLE readwrite 'stock/it'\\''s 50%'\n",
      ('ok     this user may write the key "%sown"\n'):format(prefix), "\n2 problems found.\n")
    secured.ctl(etcd, "role", "grant-permission", "locks", "read", key)
    assert_says(doctor(nil, words, env), ('ok     this user may read the key "%s"\n'):format(key),
      ('WRONG  this user may not write the key "%s": '):format(key))
    secured.ctl(etcd, "role", "grant-permission", "locks", "readwrite", key)
    etcd:put(key, "12")
    assert.is_nil(doctor(0, words, env):find "not checked")
    assert.equal("12", (etcd:get(key)))
  end)

  it("notes that the login took more than 1 s", function()
    local etcd = secured.start(prefix, { tls = false })
    local server = clients.scripted(etcd:endpoint())
    server:hold_back("Authenticate", -1)
    local child = command.start({ "doctor", "--prefix", prefix, "--endpoints", server:endpoint() },
      variables_of(etcd))
    wait.eventually(function() return server:held "Authenticate" >= 1 end)
    wait.sleep(1.2)
    server:pass()
    server:tell "Authenticate"
    child:expect "note   the login took %d+%.%d s: etcd is busy with passwords"
    child:wait()
  end)

  it("reports each member's state to a user if only the last of four endpoints answers", function()
    local etcd = secured.start(prefix, { tls = false })
    local here = etcd:endpoint():match "//(.*)"
    local out = doctor(1, { "--prefix", prefix,
      "--endpoints", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3," .. here }, variables_of(etcd))
    -- Some versions of etcd do not show their state to this user.
    assert.matches("\n +" .. here:gsub("%p", "%%%0") .. " .* answers\n", out)
    assert_says(out, "WRONG  etcd 127.0.0.1:1: Connection refused",
      "WRONG  etcd 127.0.0.1:3: Connection refused", "a lock can be acquired",
      "\n3 problems found.\n")
  end)

  it("prints the certificates that TLS uses, and reports those that do not fit", function()
    local cast = suite.cast()
    local etcd = tls.start()
    local here = { "--endpoints", etcd:endpoint() }
    local words = { here, "--cacert", cast.ca.cert, "--cert", cast.client.cert }
    assert_says(doctor(0, { words, "--key", cast.client.key }),
      etcd:endpoint():match "//(.*)" .. ": TLS, verified with " .. cast.ca.cert
      .. "; client certificate " .. cast.client.cert)
    assert_says(doctor(1, { here, "--cacert", cast.other_ca.cert }),
      'signed by a CA that is not in "', "-> give the CA of etcd's certificate")
    assert_says(doctor(nil, { words, "--key", cast.client.key, "--server-name=elsewhere.example" }),
      "not for --server-name elsewhere.example\n         -> give a name in")
    assert_says(doctor(nil, { words, "--key", cast.client_mismatch.key }),
      '--key "', 'does not fit the certificate in "')
  end)
end)

-- Regression 179. doctor ended with a traceback if etcd failed between the test lock and its check.
-- If an answer could not be read, doctor gave the remedy for a file that cannot be read.
it("etcdlock doctor reports a test lock whose key cannot be read", function()
  local server = clients.scripted(suite.endpoint())
  server:hold_back("Txn", 2)
  local run = command.start { "doctor", "--endpoints", server.address, "--prefix", prefix }
  local function await_held() wait.eventually(function() return server:held "Txn" == 1 end, 10) end
  await_held() -- the ping
  server:tell "Txn"
  await_held() -- the grant
  server:answer("Txn", "before", error_rows.STATUS.PERMISSION_DENIED, "permission denied")
  server:tell "Txn"
  run:expect('^  WRONG  the test lock "[^"]*etcdlock%-doctor" cannot be kept: .*denied')
  run:expect "^         %-> etcdctl role grant%-permission"
  assert.equal(1, (run:wait()))
  assert.equal("", run:errors())
  server:pass()
  suite.etcd():revoke_all()
end)

-- Regression 274. doctor did not tell that programs give a semaphore different numbers of permits.
it("etcdlock doctor notes a semaphore with different numbers of permits", function()
  for _, n in ipairs { 3, 5, 3 } do
    clients.keep(assert(assert(connect():semaphore("pool", n)):lock()))
  end
  clients.keep(assert(assert(connect():semaphore("other", 2)):lock()))
  local out = doctor_here(0)
  local process = ("pid %.0f on %s"):format(core.pid(), core.host())
  assert_says(out, ('note   semaphore "%spool": its clients give different numbers of permits: 3 '
    .. "by %s, 5 by %s; the largest one is the limit\n"):format(prefix, process, process))
  assert.equal(1, select(2, out:gsub("different numbers", "")))
end)

-- Regression 203. doctor found no problem if etcd allows one stream on a connection, although each
-- hold is lost before its lease is renewed.
it("etcdlock doctor reports that etcd allows too few streams on a connection", function()
  local etcd = Etcd.start { tls = false, args = { "--max-concurrent-streams=1" } }
  assert_says(doctor(1, { "--endpoints", etcd:endpoint() }), "cannot be kept: ", "too few streams",
    "\n         -> raise --max-concurrent-streams", "\n1 problem found.\n")
end)

it("etcdlock doctor reports two clients of which each one waits for a lock of the other", function()
  local one, two, owner = connect(), connect { elsewhere = true }, { owner = "job" }
  clients.keep { assert(one:lock("a", owner)), assert(two:lock("b", owner)) }
  clients.keep { assert(one:lock_async("b", owner)), assert(two:lock_async("c", owner)) }
  assert.is_nil(doctor_here(0):find("deadlock", 1, true))
  clients.keep(assert(two:lock_async("a", owner)))
  suite.etcd():await_keys(prefix, 5)
  local process = ("pid %.0f on %s"):format(core.pid(), core.host())
  assert_says(doctor_here(1),
    ('WRONG  possible deadlock: %s holds "%sb" and waits for "%sa"; %s holds "%sa" and waits for '
      .. '"%sb"\n'):format(process, prefix, prefix, process, prefix, prefix),
    "         -> take these locks with one multi_lock, or everywhere in the same order\n",
    "\n1 problem found.\n")
end)

-- Regression 224. doctor found only two clients that wait for each other, but not three.
it("etcdlock doctor reports three clients that wait for each other in a circle", function()
  local names = {}
  local circle = { connect(), connect { elsewhere = true }, connect { elsewhere = true } }
  for i, one in ipairs(circle) do clients.keep(assert(one:lock(tostring(i)))) end
  for i, one in ipairs(circle) do clients.keep(assert(one:lock_async(tostring(i % 3 + 1)))) end
  suite.etcd():await_keys(prefix, 6)
  local out = doctor_here(1)
  for name, awaited in out:gmatch(' holds "[^"]*(%d)" and waits for "[^"]*(%d)"[;\n]') do
    names[name] = awaited
  end
  assert.same({ ["1"] = "2", ["2"] = "3", ["3"] = "1" }, names, out)
end)

-- Regression 204. doctor reported a possible deadlock of two clients that are candidates of two
-- elections, each one led by the other, and of two clients that use two semaphores.
it("etcdlock doctor reports no deadlock of elections and semaphores", function()
  local one, two = connect(), connect { elsewhere = true }
  clients.keep {
    assert(one:election "a":campaign "1"), assert(two:election "b":campaign "2"),
    assert(one:election "b":campaign_async "1"), assert(two:election "a":campaign_async "2"),
    assert(one:semaphore("c", 1):lock()), assert(two:semaphore("d", 1):lock()),
    assert(one:semaphore("d", 1):lock_async()), assert(two:semaphore("c", 1):lock_async()),
  }
  suite.etcd():await_keys(prefix, 8)
  local out = doctor_here(0)
  assert_says(out, "4 locks")
  assert.is_nil(out:find("deadlock", 1, true), out)
end)
