-- Tests etcdlock elect: it runs a command while it leads, and prints the leaders with --listen.

client_options { ttl = 10 }
local NAME = prefix .. "a"

local function stand(value, script)
  return command.start { "elect", NAME, value, "--timeout=60", command.sh(script) }
end

describe("etcdlock elect", function()
  it("runs its command only while it leads, and then the next candidate leads", function()
    local first = stand("one", "echo leads $ETCDLOCK_TOKEN; read line; exit 5")
    local token = first:expect "^leads (%d+)"
    local second = stand("two", "echo leads $ETCDLOCK_TOKEN")
    etcd:await_keys(NAME .. "/", 2)
    local election = connect():election "a"
    assert.equal("one", (election:leader()))
    assert.is_nil(second.lines[1])
    assert.equal(5, (first:go()))
    assert.is_true(tonumber((second:expect "^leads (%d+)")) > tonumber(token))
    assert.equal(0, (second:wait()))
    etcd:await_keys(NAME .. "/", 0)
  end)

  it("ends its command and exits with 70 when it loses the leadership", function()
    local job = stand("one", "echo leads; exec sleep 60")
    job:expect "^leads"
    clients.take_away(client, "a")
    assert.equal(70, (job:wait()))
  end)

  it("waits in one queue with etcdctl elect, and leads when etcdctl ends", function()
    local theirs = proc.talk({ "etcdctl", "elect", NAME, "theirs" },
      { ETCDCTL_ENDPOINTS = suite.endpoint() })
    etcd:await_keys(NAME .. "/", 1)
    local lease = etcd:keys(NAME .. "/")[1]:match "%x+$"
    assert.equal(75, command.status { "elect", NAME, "ours", "--timeout=0", "--", "true" })
    local ours = stand("ours", "echo leads")
    etcd:await_keys(NAME .. "/", 2)
    theirs:kill "sigint"
    ours:expect "^leads"
    assert.equal(0, (ours:wait()))
    theirs:wait()
    etcd:revoke(lease) -- etcdctl does not revoke its lease, which has a TTL of 60 s
  end)

  it("prints each leader, and if nobody leads, with --listen, as JSON with --json", function()
    local listener = command.start { "elect", "--listen", NAME }
    local for_programs = command.start { "elect", "-l", NAME, "--json" }
    local election = connect():election "a"
    local leadership = assert(election:campaign("one", { timeout = 20 }))
    listener:expect("^" .. NAME:gsub("%-", "%%-") .. "/%x+%-1$")
    listener:expect "^one$"
    for_programs:expect '"value":"one"'
    assert(leadership:proclaim "two\27[31m")
    listener:expect "^two\27%[31m$" -- not escaped, because the output is no terminal
    assert.matches('"token":' .. leadership:token(), for_programs:expect '.*"value":"two.*')
    assert(leadership:resign())
    listener:expect "^nobody leads$"
    listener:expect "^$"
    for_programs:expect '^{"key":null,"token":null,"value":null}$'
    leadership = assert(election:campaign("nobody leads", { timeout = 20 }))
    listener:expect("^" .. NAME:gsub("%-", "%%-") .. "/%x+%-%d+$")
    listener:expect "^nobody leads$"
    for_programs:expect '"value":"nobody leads"'
    assert(leadership:resign())
    for _, child in ipairs { listener, for_programs } do
      child:kill "sigint"
      assert.equal(130, (child:wait()))
      assert.equal("", child:errors())
    end
  end)

  -- Regression 262. With --listen the last leader stayed on the screen while etcd was away.
  it("prints with --listen that the leader is unknown, and the leader after the outage", function()
    local proxy = Swallow.start(etcd:endpoint())
    local words = { "elect", "--listen", NAME, "--ttl=2", "--endpoints=" .. proxy:endpoint() }
    local listener = command.start(words)
    words[#words + 1] = "--json"
    local for_programs = command.start(words)
    local leadership = assert(connect():election "a":campaign("one", { timeout = 20 }))
    for _ = 1, 2 do
      listener:expect "^one$"
      local fields = json.decode(for_programs:expect ".*one.*")
      assert.same({ "one", leadership:key(), leadership:token() },
        { fields.value, fields.key, fields.token })
      assert.is_nil(fields.unknown_for)
      proxy:swallow()
      listener:expect "^leader unknown$"
      listener:expect "^$"
      fields = json.decode(for_programs:expect ".*one.*")
      assert.equal("one", fields.value)
      assert.is_true(fields.unknown_for >= 2)
      proxy:forward()
    end
    listener:expect "^one$"
    assert(leadership:resign())
    listener:expect "^nobody leads$"
    for_programs:expect ".*null.*"
    proxy:swallow()
    for_programs:expect '^{"key":null,"token":null,"value":null,"unknown_for":%d+}$'
  end)

  it("exits from --listen after the reader of its output has ended", function()
    local words, env = command.words()
    local leadership = assert(connect():election "a":campaign("one", { timeout = 20 }))
    local pipe = proc.talk({ "sh", "-c", ('%s %s elect -l "$NAME" | head -n 1; echo done')
      :format(words[1], words[2]) }, clients.with(env, { NAME = NAME }))
    pipe:expect "^command/elect_spec/a/"
    wait.eventually(function()
      assert(leadership:proclaim(tostring(wait.now())))
      return pipe.out.text:find "done"
    end, 5, "its end")
    pipe:wait()
  end)

  it("exits with 64 if VALUE is too long", function()
    assert.equal(64, command.status { "elect", "a", ("x"):rep(5000), "--", "true" })
  end)
end)
