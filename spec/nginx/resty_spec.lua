-- Tests resty.etcdlock in nginx against the documentation and the tests of lua-resty-lock. The
-- name "shared" is a shared dictionary of this nginx, so the same code can run with resty.lock.
-- Then tests resty.etcdlock outside of nginx.
-- Needs: no sanitizer.

local nginx

local INIT_WORKER = ([[
  resty_lock = require("resty.etcdlock").connect { endpoints = "%s", prefix = "%s", ttl = 5 }
  function new(opts) return assert(resty_lock:new("shared", opts)) end
  function tell(...)
    local told = { ... }
    for i = 1, select("#", ...) do told[i] = tostring(told[i]) end
    ngx.say(table.concat(told, " "))
  end
]]):format(etcd:endpoint(), prefix)

local locations = {}
local same, more, n = {}, {}, 0

-- Adds a test to |list|: the request that runs |code| must answer |answer|, which has one part
-- for each call of `tell`. |what| is the name of the test.
local function add(list, what, code, answer)
  n = n + 1
  locations["/" .. n] = code
  list[#list + 1] = { what = what, path = "/" .. n, answer = answer:gsub(" | ", "\n") .. "\n" }
end

local function story(...) add(same, ...) end

story("new sets exptime to 30 s and timeout to 5 s, also with a shorter exptime", [[
  tell(new().exptime, new().timeout, new({ exptime = 0.5 }).timeout)
]], "30 5 5")

story('lock of a held key returns "timeout", and unlock after that "unlocked"', [[
  for _ = 1, 2 do
    local one, other = new { timeout = 1 }, new { timeout = 1 }
    tell(one:lock "busy")
    tell(other:lock "busy")
    tell(one:unlock())
    tell(other:unlock())
  end
]], "0 | nil timeout | 1 | nil unlocked | 0 | nil timeout | 1 | nil unlocked")

story('lock with timeout 0 takes a free key and returns "timeout" for a held one', [[
  local one, other = new { timeout = 0 }, new { timeout = 0 }
  tell(one:lock "zero")
  tell(other:lock "zero")
  tell(one:unlock())
  tell(other:lock "zero")
  tell(other:unlock())
]], "0 | nil timeout | 1 | 0 | 1")

story("lock waits until the holder unlocks, and returns the seconds it waited", [[
  local thread = ngx.thread.spawn(function()
    local lock = new()
    tell("first", lock:lock "waited")
    ngx.sleep(0.1)
    tell("first", lock:unlock "waited")
  end)
  local lock = new()
  local elapsed, failure = lock:lock "waited"
  ngx.thread.wait(thread) -- its unlock may return later than the lock of this thread
  tell("second", elapsed >= 0.08 and elapsed < 4, failure)
  tell("second", lock:unlock())
]], "first 0 | first 1 | second true nil | second 1")

for option, value in pairs { step = 0.01, ratio = 3, max_step = 0.05 } do
  story(("new accepts the option %s, and lock waits until the holder unlocks"):format(option), ([[
    local one = new()
    tell(one:lock "%s")
    local thread = ngx.thread.spawn(function()
      local other = new { %s = %g }
      tell(other:lock "%s" > 0, other:unlock())
    end)
    ngx.sleep(0.05)
    one:unlock()
  ]]):format(option, option, value, option), "0 | true 1")
end

story("new reduces a timeout that is longer than exptime to exptime", [[
  local one, other = new(), new { exptime = 1, timeout = 60 }
  tell(one:lock "cut")
  tell(other.timeout, other:lock "cut")
  one:unlock()
]], "0 | 1 nil timeout")

story("a lock that is not unlocked expires after exptime", [[
  local one, other = new { exptime = 2 }, new { timeout = 20 }
  tell(one:lock "expiring")
  local elapsed, failure = other:lock "expiring"
  tell(elapsed >= 0.5 and elapsed < 10, failure)
  tell(other:unlock())
]], "0 | true nil | 1")

story('lock(nil) returns "nil key"', [[
  tell(new():lock(nil))
]], "nil nil key")

story("lock takes a number as key, equal to its string form", [[
  local one, other = new(), new { timeout = 0 }
  tell(one:lock(7))
  tell(other:lock "7")
  tell(one:unlock())
]], "0 | nil timeout | 1")

story("lock takes a key of 65535 bytes, and one with NUL, slash or newline", [[
  local long = ("k"):rep(65534)
  for _, key in ipairs { long, "with\0NUL", "with a / and a \n" } do
    local one, same, other = new(), new { timeout = 0 }, new { timeout = 0 }
    tell(one:lock(key .. "1"), same:lock(key .. "1"))
    tell(other:lock(key .. "2"), other:unlock(), one:unlock())
  end
]], "0 nil timeout | 0 1 1 | 0 nil timeout | 0 1 1 | 0 nil timeout | 0 1 1")

story('lock on an object that holds a lock returns "locked" for any key', [[
  local lock = new()
  tell(lock:lock "mine")
  tell(lock:lock "mine")
  tell(lock:lock "another")
  tell(lock:unlock())
  tell(lock:lock "another")
  tell(lock:unlock())
]], "0 | nil locked | nil locked | 1 | 0 | 1")

story('unlock without a lock returns "unlocked"', [[
  tell(new():unlock())
]], "nil unlocked")

story('expire restarts exptime or sets a new one; without a lock it returns "unlocked"', [[
  local one, other = new { timeout = 0, exptime = 2 }, new { timeout = 0, exptime = 2 }
  tell("before", one:expire())
  tell("lock", one:lock "expire")
  ngx.sleep(1.2)
  tell("anew", one:expire())
  ngx.sleep(1.2)
  tell("other", other:lock "expire")
  tell("longer", one:expire(5))
  ngx.sleep(2.5)
  tell("other", other:lock "expire")
  tell("shorter", one:expire(0.1))
  ngx.sleep(1)
  tell("other", other:lock "expire")
  tell("other", other:unlock())
]], "before nil unlocked | lock 0 | anew true | other nil timeout | longer true | other nil timeout"
  .. " | shorter true | other 0 | other 1")

-- Regression 249. An exptime of 0, a timeout below 0 and expire(0) were refused, and an empty key
-- was accepted.
story("an exptime of 0 does not end the lock, and makes the timeout 0", [[
  local one, third = new { exptime = 0, timeout = 3 }, new { exptime = 1 }
  local other = new { timeout = 0 }
  tell(one.timeout, new({ exptime = 0 }).timeout)
  tell(one:lock "endless", third:lock "short")
  tell(third:expire(0))
  ngx.sleep(1.5)
  tell(other:lock "endless")
  tell(other:lock "short")
  tell(one:unlock(), third:unlock())
]], "0 5 | 0 0 | true | nil timeout | nil timeout | 1 1")

story("a timeout below 0 does not wait, and an empty key is refused", [[
  local one, other = new(), new { timeout = -1 }
  tell(other:lock "negative", other:unlock())
  tell(one:lock "negative")
  local from = ngx.now()
  tell(other:lock "negative")
  ngx.update_time()
  tell(ngx.now() < from + 1)
  tell(one:unlock())
  tell(one:lock "")
]], "0 1 | 0 | nil timeout | true | 1 | nil empty key")

story("an object that is garbage-collected releases its lock", [[
  local object, lock = new(), nil
  tell(object:lock "garbage")
  object = nil
  collectgarbage()
  collectgarbage()
  lock = new { timeout = 5 }
  tell(lock:lock "garbage" < 4)
  tell(lock:unlock())
]], "0 | true | 1")

story("20 light threads that miss a cached value compute it once", [[
  local threads, filled = {}, 0
  local function get()
    if not shared:get "cached" then
      local lock = new()
      assert(lock:lock "cache")
      if not shared:get "cached" then
        ngx.sleep(0.02)
        filled = filled + 1
        shared:set("cached", "value")
      end
      assert(lock:unlock())
    end
    return shared:get "cached"
  end
  for i = 1, 20 do threads[i] = ngx.thread.spawn(get) end
  for i = 1, 20 do
    local ok, value = ngx.thread.wait(threads[i])
    assert(ok and value == "value")
  end
  tell(filled)
]], "1")

-- ---- differences from lua-resty-lock -------------------------------------------

add(more, 'unlock after expiry returns "unlocked" and does not release the next hold', [[
  local one, other, third = new { exptime = 2 }, new { timeout = 20 }, new { timeout = 0 }
  tell(one:lock "late")
  tell(other:lock "late" > 0)
  tell(one:unlock())
  tell(third:lock "late")
  tell(other:unlock())
]], "0 | true | nil unlocked | nil timeout | 1")

add(more, "lock takes a key that ends like the key of a read or write lock", [[
  for _, key in ipairs { "/books/read", "write", "a/read/order" } do
    local one, other = new(), new { timeout = 0 }
    tell(one:lock(key), other:lock(key))
    tell(one:unlock())
  end
]], "0 nil timeout | 1 | 0 nil timeout | 1 | 0 nil timeout | 1")

add(more, "new and expire return a message for a bad name, option or time", [[
  tell(resty_lock:new())
  tell(resty_lock:new("x", { exptime = -1 }))
  tell(resty_lock:new("x", { exptime = "5" }))
  tell(resty_lock:new("x", { exptime = math.huge }))
  tell(resty_lock:new("x", { timeout = "1" }))
  local lock = new()
  lock:lock "fine"
  tell(lock:expire(-1))
  tell(lock:expire(math.huge))
  lock:unlock()
]], "nil bad name: a string was wanted"
  .. (" | nil bad exptime: 0 or a finite number of seconds was wanted"):rep(3)
  .. " | nil bad timeout: a number of seconds was wanted"
  .. (" | nil bad time: 0 or a finite number of seconds was wanted"):rep(2))

locations["/left"] = [[ tell(new():lock "left") ]]
locations["/try"] = [[
  local lock = new { timeout = 0 }
  tell(lock:lock(ngx.var.arg_key))
  lock:unlock()
]]
locations["/held"] = [[
  local lock = new { timeout = 5 }
  tell(lock:lock "shared" > 0, lock:unlock())
]]

setup(function()
  nginx = Nginx.start {
    init_worker = INIT_WORKER, locations = locations, workers = 2,
    logs_errors = true, -- lost locks
  }
end)

-- Defines a test for each of |stories|. Their requests start together, because most of them
-- wait.
local function tell(stories)
  setup(function()
    for _, one in ipairs(stories) do one.request = nginx:begin(one.path) end
  end)
  for _, one in ipairs(stories) do
    it(one.what, function() assert.equal(one.answer, one.request:wait().body) end)
  end
end

describe("resty.etcdlock as lua-resty-lock:", function() tell(same) end)
describe("resty.etcdlock unlike lua-resty-lock:", function()
  tell(more)

  it("a request waits for a lock that a client outside nginx holds", function()
    local lock = assert(client:lock "shared/shared")
    assert.equal("nil timeout\n", nginx:get("/try?key=shared").body)
    local request = nginx:begin "/held"
    wait.eventually(function()
      return #client:queue "shared/shared" == 2
    end, 5, "the request waits")
    assert(lock:unlock())
    assert.equal("true 1\n", request:wait(5).body)
  end)

  it("a lock that a request does not unlock ends with the request", function()
    assert.equal("0\n", nginx:get("/left").body)
    nginx:await("/try?key=left", "0")
  end)
end)

-- Regression 025. During an etcd outage, `lock` of resty.etcdlock returned a message of its own
-- instead of "timeout". Callers such as lua-resty-mlcache serve stale data only on "timeout", so
-- they failed.
describe("lock of resty.etcdlock", function()
  local etcd, own

  setup(function()
    etcd = Etcd.start()
    own = Nginx.start {
      init_worker = ([[
        resty_lock = require("resty.etcdlock").connect { endpoints = "%s", prefix = "%s", ttl = 10 }
      ]]):format(etcd:endpoint(), prefix),
      locations = {
        -- A cache, written for resty.lock, that serves a stale value on "timeout".
        ["/cached"] = [[
          local lock = assert(resty_lock:new("shared", { timeout = 0.5 }))
          local elapsed, failure, detail = lock:lock "cached"
          if not elapsed and failure ~= "timeout" then
            return ngx.say("could not acquire callback lock: ", failure)
          elseif not elapsed then
            return ngx.say("stale, ", detail or "and somebody fetches it")
          end
          if ngx.var.arg_until then await(ngx.var.arg_until) end
          ngx.say("fresh, ", lock:unlock())
        ]],
      },
    }
  end)

  local function assert_stale()
    local answer = own:get "/cached"
    assert.matches("^stale, lock .* etcd 127.0.0.1:%d+", answer.body)
    assert.is_true(answer.took < 0.5 + wait.SLACK, answer.took)
  end

  it('returns "timeout" and the cause in an etcd '
    .. 'outage', function()
    assert.equal("fresh, 1\n", own:get("/cached").body)
    local request = own:begin "/cached?until=go"
    etcd:await_keys(prefix, 1)
    wait.eventually(function()
      local body = own:get("/cached").body
      assert.matches("^stale, ", body)
      return body == "stale, and somebody fetches it\n", body
    end, 5, "a wait in which etcd answers")
    own:set_value("go", "now")
    assert.equal("fresh, 1\n", request:wait(5).body)
    etcd:pause()
    assert_stale()
    etcd:resume()
    own:await("/cached", "fresh, 1")
    etcd:kill()
    assert_stale()
    assert_stale()
    etcd:restart()
    own:await("/cached", "fresh, 1")
  end)
end)

describe("resty.etcdlock outside of nginx", function()
  -- Runs |work|, Lua text. Returns what it writes to standard output and to standard error.
  local function said(work)
    local out, code, err = proc.run_lua("spec/support/programs/child.lua", { ([[
      local options = { endpoints = %q, prefix = %q }
      local resty_lock = require("resty.etcdlock").connect(options)
      %s]]):format(etcd:endpoint(), prefix, work) })
    assert.equal(0, code, err)
    return out, err
  end

  -- Regression 325. The message about a lock that was collected named client:lock only, which such
  -- a program does not call.
  it("tells which object to keep if a held lock is garbage-collected", function()
    local _, err = said [[
      assert(resty_lock:new("shared"):lock "a")
      collectgarbage()
      collectgarbage()]]
    assert.matches(('^etcdlock: lock "%sshared/a" was released because its handle was collected as '
      .. "garbage; [^;]*%%(resty.etcdlock: the object%%) until unlock, [^\n]*\n$"):format(prefix),
      err)
  end)

  -- Regression 326. A key that is too long raised "attempt to index global 'ngx'".
  it("refuses a key that is too long, or not allowed in a name", function()
    for _, key in ipairs { '("k"):rep(300)', '"write"' } do
      assert.equal("nil\tbad key: too long, or not allowed in the name of a lock\n",
        (said(("print(resty_lock:new('shared'):lock(%s))"):format(key))))
    end
  end)
end)
