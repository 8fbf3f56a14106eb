-- Tests elections in nginx: nginx requests and timers lead and observe without blocking a worker.
-- Needs: one plain member.

client_options { ttl = 10 }
local election
local proxy = Swallow.start(etcd:endpoint()) -- of a client in nginx whose TTL is 2 s

with_nginx {
  client = false,
  init_worker = ([[
    client = connect { ttl = 10 }
    election = assert(client:election "boss")
    seen = 0
    assert(ngx.timer.at(0, function()
      local leader = assert(client:election("workers"):campaign("pid " .. ngx.worker.pid()))
      shared:set("code", select(3, client:election("nobody's"):observe():next()))
      assert(leader:resign())
    end))
    observer = connect { endpoints = %q, ttl = 2 }:election("followed"):observe()
    assert(ngx.timer.at(0, function()
      local value, _, unknown_for
      repeat
        value, _, _, unknown_for = observer:next()
        followed = unknown_for and "unknown" or value
      until value == nil
    end))
  ]]):format(proxy:endpoint()),
  locations = {
    ["/observe"] = [[
      local all = {}
      for value in election:observe() do
        all[#all + 1] = value
        seen = #all
        if seen == 3 then break end
      end
      ngx.say(table.concat(all, " "))
    ]],
    ["/followed"] = [[ ngx.say(followed, observer:age() < 2 and " now" or " some time ago") ]],
    ["/seen"] = [[ ngx.say(seen) ]],
    ["/campaign"] = [[
      ngx.say(tostring(election:with_leadership("nginx", function(lock)
        ngx.sleep(0)
        assert(lock:proclaim "nginx says")
        assert(election:leader() == "nginx says")
      end)))
    ]],
  },
}

before_each(function() election = assert(connect():election "boss") end)

describe("an election in nginx", function()
  it("is led by an nginx request in with_leadership, which resigns at the end", function()
    assert.equal("true\n", nginx:get("/campaign").body)
    assert.is_false(election:leader())
  end)

  it("is observed by an nginx request while others are answered", function()
    local request = nginx:begin "/observe"
    local lock = assert(election:campaign "1")
    for i = 1, 3 do
      nginx:await("/seen", tostring(i))
      assert.is_true(nginx:get("/ready").took < 1 + wait.SLACK)
      assert.is_true(lock:proclaim(tostring(i + 1)))
    end
    assert.equal("1 2 3\n", request:wait(5).body)
    assert.is_true(lock:resign())
  end)

  it("is followed by a timer, so nginx requests know whether the leader is unknown", function()
    local lock = assert(connect():election "followed":campaign "1")
    local function await(text) nginx:await("/followed", text, 10) end
    await "1 now"
    proxy:swallow()
    await "unknown some time ago"
    proxy:forward()
    await "1 now"
    assert.is_true(lock:resign())
  end)

  it('moves to a new worker at a reload, and the old observer gets "premature"', function()
    local workers = assert(connect():election "workers")
    local observer = workers:observe()
    local first = assert(observer:next(20))
    assert.equal("nil", nginx:value "code")
    nginx:signal "sighup"
    local second = observer:next(20)
    -- False means that the old worker had resigned before the new one led.
    if second == false then second = observer:next(20) end
    assert.is_string(second)
    assert.are_not.equal(first, second)
    nginx:await_value("code", "premature")
    nginx:assert_no_errors()
  end)
end)
