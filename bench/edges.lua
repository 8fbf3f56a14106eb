-- Tests rare failures many times: writes while the member in use is stopped, waits during and after
-- outages and in contention, releases on an etcd that was wiped, and observers whose connections
-- lose answers. Not a spec: run `make edges`, or `make edges PARTS="late wiped"`.

local Etcd = require "spec.support.servers.etcd"
local Swallow = require "spec.support.servers.swallow"
local cluster = require "spec.support.servers.cluster"
local json = require "dkjson"
local etcdlock = require "etcdlock"
local proc = require "spec.support.programs.proc"
local program = require "bench.program"
local remote = require "spec.support.programs.remote"
local wait = require "spec.support.harness.wait"

local WRITE_ROUNDS = 50
local WIPES = 20
local CONTENDERS, CONTENTION_SECONDS = 20, 30
local OBSERVERS, CANDIDATES, OBSERVED_SECONDS, OBSERVER_LIMIT = 20, 3, 60, 0.5

local failures = 0

local function say(...)
  print(string.format(...))
  io.stdout:flush()
end

-- Prints the result of a part. If |count| exceeds |limit|, the program exits with 1.
local function verdict(count, limit, text)
  if count > limit then failures = failures + 1 end
  say("  %s: %s (limit %s)%s", text, count, limit, count > limit and "  MISSED" or "")
end

-- Starts three members with etcd's default heartbeat interval and election timeout, as in
-- production: those of the specs are shorter.
local function start_three()
  return Etcd.start {
    members = 3, args = { "--heartbeat-interval", "100", "--election-timeout", "1000" },
  }
end

-- ---- late writes ----------------------------------------------------------------

-- A program that writes 1, 2, 3 ... under a lock until its standard input ends. It prints one line
-- for each write: "written" or the code of the failure, and the number.
local WRITER = [[
  local options, key = ...
  local client = assert(require("etcdlock").connect(require("dkjson").decode(options)))
  local lock = assert(client:lock "writer")
  local has_ended = require "bench.input_end"
  io.stdout:setvbuf "line"
  print "ready"
  local n = 0
  while not has_ended() do
    n = n + 1
    local ok, _, code = lock:put(key, tostring(n))
    print(("%s %d"):format(ok and "written" or code, n))
  end
  print "end"
  lock:unlock()
  client:close()
]]

-- Runs one round: the member in use is stopped for 2.5 s, which is longer than a request may take.
-- Returns the last number that was reported as written, how many writes failed with an unknown
-- outcome, and the number that is in etcd at the end.
local function write_round(etcd, member)
  local key = "late-write"
  etcd:del(key)
  local options = { endpoints = cluster.endpoints_from(etcd, member), ttl = 30 }
  local child = proc.lua(WRITER, json.encode(options), key)
  child:expect("^ready", 20)
  child:expect("^written", 20)
  etcd:pause(member)
  wait.sleep(2.5)
  etcd:resume(member)
  wait.sleep(0.5)
  child:finish()
  local last, unknown = 0, 0
  while true do
    local word, number = child:expect("^(%S+) ?(%d*)$", 20)
    if word == "end" then break end
    if word == "written" then last = tonumber(number) else unknown = unknown + 1 end
  end
  child:wait()
  cluster.await_health(etcd)
  return last, unknown, tonumber((etcd:get(key)))
end

local function late_writes()
  local etcd, older, unknown = start_three(), 0, 0
  for i = 1, WRITE_ROUNDS do
    local member = i % 2 == 0 and cluster.leader_of(etcd) or i % 3 + 1
    local last, doubtful, left = write_round(etcd, member)
    unknown = unknown + doubtful
    -- A greater number than the last is allowed: a later write that failed may have reached etcd.
    if left < last then
      older = older + 1
      say("  round %d: %d was written last, and %d is there", i, last, left)
    end
  end
  etcd:stop()
  say("Writes of one hold whose member is stopped for 2.5 s and resumed, %d rounds;"
    .. " %d writes of unknown fate", WRITE_ROUNDS, unknown)
  verdict(older, 0, "rounds after which an older write is there than the last")
end

-- ---- outages and contention -------------------------------------------------------

-- A program that repeatedly waits 0.5 s for a lock that another client holds. It prints for each
-- wait the time of the call, the code ("held" if it got the lock), and the message.
local WAITER = [[
  local options = ...
  local uv = require "luv"
  local client = assert(require("etcdlock").connect(require("dkjson").decode(options)))
  local has_ended = require "bench.input_end"
  io.stdout:setvbuf "line"
  print "ready"
  while not has_ended() do
    local from = uv.hrtime() / 1e9
    local lock, message, code = client:lock("held", { timeout = 0.5 })
    print(("%.3f %s %s"):format(from, code or "held", lock and "" or message))
    if lock then lock:unlock() end
  end
  print "end"
  client:close()
]]

local function outages()
  local etcd = start_three()
  local options = json.encode { endpoints = etcd:endpoints(), ttl = 30 }
  local holder = assert(etcdlock.connect { endpoints = etcd:endpoints(), ttl = 60 })
  local lock = assert(holder:lock "held")
  local child = proc.lua(WAITER, options)
  child:expect("^ready", 20)
  wait.sleep(2)
  local leader = cluster.leader_of(etcd)
  etcd:pause(leader)
  wait.sleep(5)
  etcd:resume(leader)
  cluster.await_health(etcd)
  for i = 1, 3 do etcd:pause(i) end
  wait.sleep(4)
  for i = 1, 3 do etcd:resume(i) end
  cluster.await_health(etcd)
  assert(holder:ping())
  wait.sleep(1)
  local over = wait.now()
  wait.sleep(10)
  child:finish()
  local during, after, others = {}, 0, 0
  while true do
    local at, code, message = child:expect("^(%S+) ?(%S*) ?(.*)$", 20)
    if at == "end" then break end
    if tonumber(at) < over then
      during[code] = (during[code] or 0) + 1
    else
      after = after + 1
      if code ~= "timeout" then
        others = others + 1
        say("  %s: %s", code, message)
      end
    end
  end
  child:wait()
  assert(lock:unlock())
  holder:close()
  etcd:stop()
  say("Waits of 0.5 s for what another holds, after the leader has stood still for 5 s and all"
    .. " members for 4 s: %d; meanwhile %d timeout, %d unavailable", after,
    during.timeout or 0, during.unavailable or 0)
  verdict(others, 0, "told something else than timeout")
end

-- A program whose coroutines contend for one lock. It prints how many calls returned the lock, how
-- many timed out, and how many failed with `unavailable`.
local CROWD = [[
  local options, contenders, seconds = ...
  local cqueues = require "cqueues"
  local client = assert(require("etcdlock").connect(require("dkjson").decode(options)))
  local loop, codes, over = cqueues.new(), {}, cqueues.monotime() + tonumber(seconds)
  for i = 1, tonumber(contenders) do
    loop:wrap(function()
      while cqueues.monotime() < over do
        local lock, message, code = client:lock("crowd", { timeout = 0.1 })
        code = code or "held"
        codes[code] = (codes[code] or 0) + 1
        if lock then
          cqueues.sleep(0.02)
          assert(lock:unlock())
        elseif code ~= "timeout" then
          io.stderr:write(message, "\n")
        end
      end
    end)
  end
  assert(loop:loop())
  print(("codes %d %d %d"):format(codes.held or 0, codes.timeout or 0, codes.unavailable or 0))
  client:close()
]]

local function contention()
  local etcd = Etcd.start()
  local child = proc.lua(CROWD, json.encode { endpoints = etcd:endpoints(), ttl = 10 },
    CONTENDERS, CONTENTION_SECONDS)
  local held, timeouts, unavailable = child:expect("^codes (%d+) (%d+) (%d+)",
    CONTENTION_SECONDS + 30)
  child:wait()
  etcd:stop()
  local all = held + timeouts + unavailable
  say("%d coroutines of one client contend for %d s, with waits of 0.1 s: %d held, %d timeout",
    CONTENDERS, CONTENTION_SECONDS, held, timeouts)
  verdict(tonumber(("%.2f"):format(100 * unavailable / all)), 0.5, "unavailable, in percent")
end

-- ---- a wiped etcd -----------------------------------------------------------------

-- Runs one round: etcd is wiped while with_lock runs its function, and another client then takes
-- the lock. |is_another|: the new etcd is another cluster. Returns whether with_lock reported
-- success.
local function wipe_round(is_another)
  local etcd = Etcd.start()
  local function start()
    return remote.start { endpoints = etcd:endpoint(), ttl = 5 }
  end
  local child = start()
  remote.send(child, [[
    return client:with_lock("a", function()
      io.stderr:write "works\n"
      io.read "*l"
      return "result"
    end)
  ]])
  etcd:await_keys("a/", 1)
  etcd:wipe(is_another)
  local thief = start()
  remote.take(thief, "a")
  child:send "go on"
  local results = remote.answer_of(child, 20)
  remote.release(thief)
  proc.destroy_children()
  etcd:stop()
  return results[1] == "true"
end

local function wiped()
  local successes = 0
  for i = 1, WIPES do
    if wipe_round(i % 2 == 0) then successes = successes + 1 end
  end
  say("An etcd is killed in the middle of the work and comes back empty, another takes the lock"
    .. " there: %d times", WIPES)
  verdict(successes, 0, "releases that were called a success")
end

-- ---- observers ----------------------------------------------------------------------

-- A program that leads for a short time, again and again. During a leadership it proclaims
-- increasing numbers, beginning with 0. It prints how often it led.
local CANDIDATE = [[
  local options = ...
  local uv = require "luv"
  local client = assert(require("etcdlock").connect(require("dkjson").decode(options)))
  local election = assert(client:election "boss")
  local has_ended, leads = require "bench.input_end", 0
  print "ready"
  while not has_ended() do
    local lock = election:campaign("0", { timeout = 1 })
    if lock then
      leads = leads + 1
      for i = 1, math.random(0, 3) do
        uv.sleep(math.random(0, 50))
        lock:proclaim(tostring(i))
      end
      uv.sleep(math.random(0, 100))
      lock:resign()
    end
  end
  print(("led %d"):format(leads))
  client:close()
]]

-- A program that observes until its standard input ends. It prints four numbers:
--   - How many reports of a leader and value it got.
--   - How many of these reports were older than the report before, by token or by value.
--   - The maximum of the seconds by which a call of `next` returned later than its limit.
--   - The last token that it saw.
local OBSERVER = [[
  local options, limit = ...
  local uv = require "luv"
  limit = tonumber(limit)
  local client = assert(require("etcdlock").connect(require("dkjson").decode(options)))
  local observer = assert(client:election "boss"):observe()
  local has_ended = require "bench.input_end"
  print "ready"
  local seen, older, latest, token, said = 0, 0, 0, 0, 0
  while not has_ended() do
    local from = uv.hrtime()
    local value, key, since = observer:next(limit)
    latest = math.max(latest, (uv.hrtime() - from) / 1e9 - limit)
    if value then
      local number = tonumber(value)
      seen = seen + 1
      if since < token or since == token and number < said then older = older + 1 end
      token, said = since, number
    elseif value == nil and since ~= "timeout" and since ~= "unavailable" then
      print("failed " .. key)
    end
  end
  print(("seen %d %d %.3f %d"):format(seen, older, latest, token))
  client:close()
]]

local function start_all(count, source, endpoints, ...)
  local children, options = {}, json.encode { endpoints = endpoints, ttl = 15 }
  for i = 1, count do
    children[i] = proc.lua(source, options, ...)
  end
  for _, child in ipairs(children) do child:expect("^ready", 30) end
  return children
end

-- Makes the proxies, one after the other, discard all data for two seconds. In every third turn,
-- also stops the member behind the proxy.
local function lose_answers(etcd, proxies)
  local over, turn = wait.now() + OBSERVED_SECONDS, 0
  while wait.now() < over do
    turn = turn + 1
    local i = turn % #proxies + 1
    proxies[i]:swallow()
    if turn % 3 == 0 then etcd:pause(i) end
    wait.sleep(2)
    proxies[i]:forward()
    etcd:resume(i)
    wait.sleep(1)
  end
  cluster.await_health(etcd)
end

local function observers()
  local etcd, proxies, ways = start_three(), {}, {}
  for i = 1, 3 do
    proxies[i] = Swallow.start(etcd:endpoint(i))
    ways[i] = proxies[i]:endpoint()
  end
  local endpoints = table.concat(ways, ",")
  local watching = start_all(OBSERVERS, OBSERVER, endpoints, OBSERVER_LIMIT)
  local running = start_all(CANDIDATES, CANDIDATE, endpoints)
  lose_answers(etcd, proxies)
  local leads, seen, older, stale, latest = 0, 0, 0, 0, 0
  for _, child in ipairs(running) do child:finish() end
  for _, child in ipairs(running) do
    leads = leads + tonumber((child:expect("^led (%d+)", 30)))
    child:wait()
  end
  local client = assert(etcdlock.connect { endpoints = etcd:endpoints() })
  local lock = assert(assert(client:election "boss"):campaign("9", { timeout = 30 }))
  wait.sleep(5)
  for _, child in ipairs(watching) do child:finish() end
  for _, child in ipairs(watching) do
    local count, bad, late, token = child:expect("^seen (%d+) (%d+) (%S+) (%d+)", 30)
    seen, older, latest = seen + count, older + bad, math.max(latest, tonumber(late))
    if tonumber(token) ~= lock:token() then stale = stale + 1 end
    child:wait()
  end
  client:close()
  for _, proxy in ipairs(proxies) do proxy:stop() end
  etcd:stop()
  say("%d observers of three members that lose answers and stand still, %d s: %d leads, %d times"
    .. " seen", OBSERVERS, OBSERVED_SECONDS, leads, seen)
  verdict(older, 0, "reports of a leader or value that is older than the one before")
  verdict(stale, 0, "observers that did not end with the newest leader")
  verdict(latest, 0.25, "seconds after its limit at which the latest call returned")
end

-- ---- all of them ------------------------------------------------------------------

local PARTS = {
  late = late_writes, outage = outages, contention = contention, wiped = wiped,
  observers = observers,
}
local ALL = { "late", "outage", "contention", "wiped", "observers" }

local wanted = #arg > 0 and arg or ALL
for _, part in ipairs(wanted) do
  if not PARTS[part] then
    io.stderr:write(("edges: there is no part %q; parts: %s\n"):format(part,
      table.concat(ALL, ", ")))
    os.exit(2)
  end
end
program(function()
  for _, part in ipairs(wanted) do PARTS[part]() end
  return failures == 0
end)
