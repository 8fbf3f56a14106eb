-- Tests that an nginx request that waits for a lock yields, so that its worker serves other
-- requests meanwhile.
-- Needs: one plain member, no sanitizer.

local INIT_WORKER = [[
  function refused(message, code) ngx.say("refused ", code, " ", message) end
]]

local LOCATIONS = {
  ["/lock"] = [[
    local args = ngx.req.get_uri_args()
    local lock, message, code = client:lock(args.name, { timeout = tonumber(args.timeout) })
    if not lock then return refused(message, code) end
    ngx.say("held ", lock:token())
    assert(lock:unlock())
  ]],

  -- Answers four numbers: the place of the request in the order of arrival, its place in the order
  -- of grants, how many requests held the lock at this time, and the token.
  ["/turn"] = [[
    local came = shared:incr("came", 1, 0)
    local lock = assert(client:lock "crowd")
    local inside = shared:incr("inside", 1, 0)
    local turn = shared:incr("turn", 1, 0)
    ngx.sleep(0)
    shared:incr("inside", -1)
    ngx.say(came, " ", turn, " ", inside, " ", lock:token())
    assert(lock:unlock())
  ]],
}

with_nginx { init_worker = INIT_WORKER, locations = LOCATIONS }

describe("an nginx request", function()
  it('gets "unavailable" if etcd is silent, and its worker serves others meanwhile', function()
    etcd:pause()
    local answer = nginx:begin "/lock?name=a&timeout=3"
    local ping = nginx:get "/ready"
    local was_done = answer.done
    answer:wait(3 + wait.SLACK)
    etcd:resume()
    assert.matches("^ready", ping.body)
    assert.falsy(was_done, ping.took)
    assert.matches("^refused unavailable", answer.body)
  end)
end)

describe("waiting requests of one nginx worker", function()
  it("leave it responsive, and get the lock one at a time in order of arrival", function()
    local lock = assert(client:lock "crowd")
    local COUNT, requests = 500, {}
    for i = 1, COUNT do requests[i] = nginx:begin "/turn" end
    nginx:await("/stats", "0 " .. COUNT, 15)

    local until_, pings, slowest = wait.now() + 2, 0, 0
    repeat
      local ping = nginx:get "/ready"
      assert.equal("ready\n", ping.body)
      pings, slowest = pings + 1, math.max(slowest, ping.took)
      wait.sleep(0.01)
    until wait.now() >= until_ and pings >= 20
    assert.is_true(slowest < 1 + wait.SLACK, slowest .. " s for a ping")
    for i = 1, COUNT do assert.falsy(requests[i].done) end

    assert(lock:unlock())
    local last_token = {}
    for i = 1, COUNT do
      local answer = requests[i]:wait(30)
      assert.equal(200, answer.status)
      local came, turn, inside, token = answer.body:match "^(%d+) (%d+) (%d+) (%d+)"
      assert.equal(came, turn)
      assert.equal("1", inside)
      last_token[tonumber(turn)] = tonumber(token)
    end
    for i = 2, COUNT do assert.is_true(last_token[i] >= last_token[i - 1]) end
    etcd:await_keys(prefix .. "crowd/", 0)
  end)

  it("need at most 3 sockets each and no additional thread", function()
    local pid = nginx:workers()[1]
    for round = 1, 3 do
      local lock = assert(client:lock "many")
      local before, requests = Nginx.usage(pid), {}
      for i = 1, 100 do requests[i] = nginx:begin "/lock?name=many" end
      nginx:await("/stats", "0 100", 10)
      local during = Nginx.usage(pid)
      assert.equal(before.threads, during.threads)
      -- Each request has three sockets: its HTTP connection, and both ends of its wake-up
      -- connection.
      assert.is_true(during.sockets - before.sockets <= 300, round)
      assert(lock:unlock())
      for i = 1, 100 do assert.equal(200, requests[i]:wait(20).status) end
    end
  end)
end)

-- Starts an nginx with |opts| that limit its connections or descriptors, and sends |count|
-- requests that wait. Returns how many got the lock (held), got "nomem" (refused), or were
-- ended by nginx (cut).
local function crowd_out(count, opts)
  opts.init_worker, opts.locations = INIT_WORKER, LOCATIONS
  local small = start_nginx(opts)
  -- This request connects the worker to etcd before descriptors run out.
  assert.matches("^held", small:get("/lock?name=room").body)
  local lock = assert(client:lock "room")
  local requests, answers = {}, { held = 0, refused = 0, cut = 0 }
  for i = 1, count do requests[i] = small:begin "/lock?name=room&timeout=30" end
  -- Requests beyond the limit are answered at once, by nginx or by etcdlock.
  wait.eventually(function()
    for i = 1, count do
      if requests[i].done then return true end
    end
  end, 10, "a refusal")
  local pid = small:workers()[1]
  local cpu = Nginx.usage(pid).cpu
  wait.sleep(1)
  cpu = Nginx.usage(pid).cpu - cpu
  assert(lock:unlock())
  for i = 1, count do
    local answer = requests[i]:wait(20)
    if answer.body:find "^held" then
      answers.held = answers.held + 1
    elseif answer.body:find "^refused nomem .*no connection to its own thread" then
      answers.refused = answers.refused + 1
    else
      answers.cut = answers.cut + 1
    end
  end
  etcd:await_keys(prefix .. "room/", 0)
  assert.equal("ready\n", small:get("/ready").body)
  assert.equal(pid, small:workers()[1])
  assert.is_true(cpu < 0.3, cpu .. " s of CPU in 1 s")
  -- How many requests fit depends on which descriptors are opened first: those of the HTTP clients
  -- or those of the waits. Some requests always fit, and 10 at a time always fit.
  assert.is_true(answers.held > 0)
  for i = 1, 10 do requests[i] = small:begin "/lock?name=room&timeout=30" end
  for i = 1, 10 do assert.matches("^held", requests[i]:wait(20).body) end
  small:stop()
  return answers
end

describe("an nginx worker", function()
  it("without free connections refuses some waits, serves the others and goes on", function()
    local answers = crowd_out(45, { connections = 60 })
    assert.is_true(answers.refused + answers.cut > 0)
  end)

  it('without free descriptors ends some waits with "nomem", and serves the others', function()
    local answers = crowd_out(150, { files = 300 })
    assert.is_true(answers.refused > 0)
  end)
end)
