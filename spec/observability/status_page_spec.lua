-- Tests the example pages for nginx, /metrics and /locks (examples/openresty/status.lua and
-- status.conf). LOCKS_PNG=doc/locks.png saves the screenshot of /locks there.
-- Needs: one plain member, no sanitizer.

local browser = require "spec.support.programs.browser"

local HERE = "examples/openresty/"
local FIND_STATUS = ("package.path = %q .. package.path")
  :format(uv.cwd() .. "/" .. HERE .. "?.lua;")
local own_port = port.free()
local etcd, nginx
client_options(function() return { endpoints = etcd:endpoint(), env = false, prefix = NONE } end)

-- Returns status.conf in two parts: the text for http { } and the code for init_worker_by_lua,
-- which Nginx.start takes separately. Requests of /locks are counted as "looks".
local function configuration()
  local text, init_worker = assert(read_file(HERE .. "status.conf")), nil
  text = text:gsub("127%.0%.0%.1:9145", "127.0.0.1:" .. own_port)
  text = text:gsub("location = /locks {", [[%0
    log_by_lua_block { ngx.shared.shared:incr("looks", 1, 0) }]])
  text = text:gsub("init_worker_by_lua_block (%b{})", function(block)
    init_worker = block:sub(2, -2)
    return ""
  end)
  return text, assert(init_worker)
end

setup(function()
  etcd = Etcd.start { tls = false }
  local text, init_worker = configuration()
  nginx = Nginx.start {
    workers = 2, http = text, init_worker = init_worker,
    main = ("env ETCDCTL_ENDPOINTS=%s;"):format(etcd:endpoint()),
    init = FIND_STATUS,
    locations = {
      ["/buy"] = [[
        local client = require("status").client
        assert(client:with_lock("stock/" .. ngx.var.arg_item, function() ngx.sleep(0) end))
        ngx.say(ngx.worker.id())
      ]],
      ["/looks"] = [[ ngx.say(shared:get "looks" or 0) ]],
    },
  }
end)

local function url(path) return "http://127.0.0.1:" .. own_port .. path end

local function metrics()
  local answer = http.get(own_port, "/metrics")
  assert.equal(200, answer.status)
  assert.matches("\r\nContent%-Type: text/plain; version=0%.0%.4\r\n", answer.text)
  return exposition.read(answer.body)
end

-- Returns the sum of the samples |name| that have |labels|, and their number: one per worker.
local function sum_of(page, name, labels)
  local family = name:gsub("_total$", ""):gsub("_count$", "")
  if not page.families[family] then return 0, 0 end -- no worker has taken a lock yet
  local sum, values = 0, page:values(family, name, labels)
  for _, value in ipairs(values) do sum = sum + value end
  return sum, #values
end

-- Sends requests until each worker has taken a lock; returns the number of locks taken.
local function buy_from_both()
  local seen, count = {}, 0
  wait.eventually(function()
    local requests = {}
    for i = 1, 8 do requests[i] = nginx:begin("/buy?item=" .. i) end
    for _, request in ipairs(requests) do
      seen[request:wait(10).body] = true
      count = count + 1
    end
    return seen["0\n"] and seen["1\n"]
  end, 10, "both workers")
  return count
end

-- The pattern of a cell with a token.
local TOKEN = '<td class="number">%d+</td>'

local function keep(lock) clients.keep(assert(lock)) end

-- Adds the holders and waiters that doc/locks.png shows.
local function fill()
  local shop, batch, deploy = connect(), connect { elsewhere = true }, connect { elsewhere = true }
  keep(shop:lock("stock/1001", { owner = "customer 17", value = "order 4711" }))
  keep(batch:lock_async("stock/1001", { owner = "stocktaking" }))
  keep(shop:read_lock("config", { owner = "web 1" }))
  keep(batch:read_lock("config", { owner = "web 2" }))
  keep(deploy:write_lock_async("config", { owner = "deployment", value = "version 12" }))
  keep(batch:multi_lock({ "account/anna", "account/ben" },
    { owner = "transfer", value = "30 from anna to ben" }))
  keep(shop:semaphore("exports", 3):lock { owner = "nightly export" })
  keep(shop:election "scheduler":campaign "10.0.0.1:80")
  keep(batch:election "scheduler":campaign_async "10.0.0.2:80")
  etcd:await_keys("", 10)
end

-- Tests in a browser are skipped if there is none, because `make test` must not need one.
local it_in_browser = browser.is_installed() and it or pending

describe("the page /locks", function()
  it_in_browser("lists holders and waiters, and escapes HTML in all they contain", function()
    fill()
    keep(connect():lock " ")
    keep(connect():lock "b ") -- Regression 223: it looked like the lock "b"
    keep(connect():lock("<script>document.title = 'owned'</script>",
      { owner = "<img src=x onerror=alert(1)>", value = '&lt;b> "quoted" \226\128\174sdrawkcab' }))
    local document = browser.document(url "/locks")
    local text = document:gsub("<bdi>", ""):gsub("</bdi>", "")
    for _, row in ipairs {
      '<th scope="rowgroup" rowspan="2">stock/1001</th><td class="holds">holds</td><td>lock</td>'
        .. TOKEN .. '<td>customer 17</td><td>[^<]+, %d+</td><td class="number">%d+ s ago</td>'
        .. "<td>order 4711",
      '<tr><td class="waits">waits</td><td>lock</td>' .. TOKEN .. "<td>stocktaking</td>",
      '<th scope="rowgroup" rowspan="3">config</th><td class="holds">holds</td><td>read</td>'
        .. TOKEN .. "<td>web 1</td>",
      '<tr><td class="holds">holds</td><td>read</td>' .. TOKEN .. "<td>web 2</td>",
      '<tr><td class="waits">waits</td><td>write</td>' .. TOKEN .. "<td>deployment</td>",
      '>account/ben</th><td class="holds">holds</td><td>multi</td>' .. TOKEN .. "<td>transfer</td>",
      '>exports</th><td class="holds">holds</td><td>permit of 3</td>' .. TOKEN
        .. "<td>nightly export</td>",
      '>scheduler</th><td class="leads">leads</td><td>election</td>' .. TOKEN .. "<td></td>"
        .. '<td>lease %x+</td><td class="number"></td><td>10.0.0.1:80',
      '>" "</th><td class="holds">', '>"b "</th><td class="holds">',
      ">&lt;script&gt;document.title = 'owned'&lt;/script&gt;</th>.-"
        .. "<td>&lt;img src=x onerror=alert%(1%)&gt;</td>",
    } do
      assert.matches(row, text)
    end
    assert.matches("<bdi>&amp;lt;b&gt; \"quoted\" \226\128\174sdrawkcab</bdi>", document, 1, true)
    assert.matches("<title>Locks</title>", document, 1, true)
    assert.is_nil(document:find "<script" or document:find "<img" or document:find "<b>")
    assert.matches('<p>9 names below "", 13 entries, %d+%-%d+%-%d+ %d+:%d+:%d+%s*</p>', text)
  end)

  it_in_browser("is rendered by a browser, with more content if there are locks", function()
    local empty = browser.picture(url "/locks", 900, 480)
    fill()
    local full = browser.picture(url "/locks", 900, 480)
    for _, picture in ipairs { empty, full } do
      assert.equal("\137PNG\r\n\26\n", picture:sub(1, 8))
      assert.equal("\0\0\3\132\0\0\1\224", picture:sub(17, 24)) -- 900 by 480
    end
    assert.is_true(#full > 3 * #empty, #full .. " " .. #empty)
    local kept = os.getenv "LOCKS_PNG"
    if kept then
      write_file(kept, full)
    end
  end)

  it_in_browser("reloads itself in a browser", function()
    local function looks() return tonumber(nginx:get("/looks").body) end
    local before, screen = looks(), browser.open(url "/locks")
    wait.eventually(function() return looks() >= before + 3 end, 15, "three looks")
    screen:kill()
    screen:wait()
  end)

  -- Regression 174. The page with a prefix did not name it, and doc/observability.md said that the
  -- page showed all locks of the cluster.
  it("names the prefix, below which it shows locks", function()
    keep(connect():lock "elsewhere")
    keep(connect():lock "stock/1")
    local stock = Nginx.start {
      http = "lua_shared_dict etcdlock 1m;", init = FIND_STATUS,
      init_worker = ('require("status").start { endpoints = %q, prefix = "stock/" }')
        :format(etcd:endpoint()),
      locations = { ["/locks"] = 'require("status").locks()' },
    }
    local body = stock:get("/locks").body
    stock:stop()
    assert.matches("<p><bdi>1 names below &quot;stock/&quot;, 1 entries, ", body, 1, true)
    assert.matches("<bdi>stock/1</bdi>", body, 1, true)
  end)

  -- Regression 291. A page with 20,000 entries stopped the worker for 110 ms, and three readers at
  -- once got 503.
  describe("with many entries", function()
    local MANY, PAGE = 2500, 200

    -- Returns the names on the page |path|, and the path of the next page.
    local function names_on(path)
      local answer = http.get(own_port, path)
      assert.equal(200, answer.status)
      local list = {}
      for name in answer.body:gmatch "<th scope=\"rowgroup\"[^>]*><bdi>([^<]*)</bdi>" do
        list[#list + 1] = name
      end
      local _, entries = answer.body:gsub('<td class="number">%d+<td>', "")
      assert.is_true(entries <= PAGE, entries)
      return list, answer.body:match '<a href="(%?after=[^"]*)">Next page</a>'
    end

    it("has a link to the next page; all pages together show each name once", function()
      local client, asked, expected, seen = connect(), {}, {}, {}
      for i = 1, MANY do asked[i] = assert(client:lock_async("n&/" .. i, { owner = i })) end
      for i = 1, MANY do
        keep(clients.granted(asked[i]))
        expected["n&amp;/" .. i] = 1
      end
      local path, pages = "", 0
      while path do
        local list
        list, path = names_on("/locks" .. path)
        for _, name in ipairs(list) do seen[name] = (seen[name] or 0) + 1 end
        pages = pages + 1
      end
      assert.same(expected, seen)
      assert.is_true(pages >= MANY / PAGE and pages < MANY / PAGE + 2, pages)
    end)

    it("has an answer for three readers at once if there are 20,000, and the worker for others",
      function()
        local lease, keys = etcd:grant(600), {}
        for i = 1, 20000 do keys[i] = ("n/%d/%s"):format(i, lease) end
        finally(function() etcd:revoke(lease) end)
        etcd:put_all(keys, lease)
        local single = Nginx.start {
          http = "lua_shared_dict etcdlock 1m;", init = FIND_STATUS,
          init_worker = ('require("status").start { endpoints = %q }'):format(etcd:endpoint()),
          locations = { ["/locks"] = 'require("status").locks()' },
        }
        local readers, others = {}, 0
        for i = 1, 3 do readers[i] = single:begin "/locks" end
        local function are_reading()
          return not (readers[1].done or readers[2].done or readers[3].done)
        end
        while are_reading() do
          assert.equal("ready\n", single:get("/ready").body)
          if are_reading() then others = others + 1 end
        end
        for _, reader in ipairs(readers) do
          local summary = reader:wait(20).body:match "<p>(.-)<table>"
          assert.equal(200, reader.status, summary)
          assert.matches("^<bdi>200 names below &quot;&quot;, 200 entries, ", summary)
        end
        assert.is_true(others > 0)
      end)

    it("shows the oldest entries of a long queue, and the number of the others", function()
      local client, asked = connect(), {}
      for i = 1, 300 do asked[i] = assert(client:semaphore("pool", 1000):lock_async()) end
      for i = 1, 300 do keep(clients.granted(asked[i])) end
      keep(client:lock "last")
      etcd:await_keys("pool", 300)
      local list, next_page = names_on "/locks"
      assert.same({ { "last" }, "?after=last" }, { list, next_page })
      local body = http.get(own_port, "/locks" .. next_page).body
      assert.matches('rowspan="201"><bdi>pool</bdi>', body, 1, true)
      assert.matches(">100 more\n", body, 1, true)
      assert.same({ { "pool" } }, { names_on("/locks" .. next_page) })
    end)
  end)

  -- Regression 292. Control characters of a name, an owner or a value reached the terminal of curl.
  it("shows control characters as text", function()
    local odd = "\27]0;\7 \0\r\n\127 \194\155"
    keep(connect():lock("\27[2J", { owner = odd, value = odd }))
    local body = http.get(own_port, "/locks").body
    assert.is_nil(body:find "[%z\1-\9\11-\31\127]")
    assert.is_nil(body:find("\194\155", 1, true))
    assert.matches("<bdi>\\x1b[2J</bdi>", body, 1, true)
    local _, count = body:gsub("<bdi>\\x1b%]0;\\x07 \\x00\\x0d\\x0a\\x7f \\xc2\\x9b</bdi>", "")
    assert.equal(2, count)
  end)

  it("forbids scripts by its content security policy", function()
    local head = http.get(own_port, "/locks").text:match "^(.-)\r\n\r\n"
    assert.matches("content-security-policy: default-src 'none';", head, 1, true)
  end)
end)

describe("the page /metrics", function()
  it("shows the counters of both workers, whichever worker answers", function()
    local before = sum_of(metrics(), "etcdlock_acquisitions_total")
    local count = buy_from_both()
    -- Workers publish their counters every second, possibly between lock and unlock.
    wait.eventually(function()
      local page = metrics()
      return sum_of(page, "etcdlock_acquisitions_total") == before + count
        and sum_of(page, "etcdlock_hold_seconds_count", { lock = "stock/*" }) == before + count
    end, 10, "what was counted")
    for _ = 1, 10 do
      local page = metrics()
      assert.same({ before + count, 2 }, { sum_of(page, "etcdlock_acquisitions_total") })
      assert.same({ before + count, 2 }, { sum_of(page, "etcdlock_hold_seconds_count",
        { lock = "stock/*" }) })
    end
  end)

  it("shows the counters of the new workers after a reload", function()
    buy_from_both()
    local workers = nginx:workers()
    nginx:signal "sighup"
    wait.eventually(function()
      local now = nginx:workers()
      return #now == 2 and now[1] ~= workers[1] and now[1] ~= workers[2]
    end, 10, "other workers")
    local count = buy_from_both()
    wait.eventually(function()
      local sum, workers_told = sum_of(metrics(), "etcdlock_acquisitions_total")
      return sum == count and workers_told == 2
    end, 10, "the new workers' counters")
    nginx:assert_no_errors()
  end)
end)

-- This is the last test, because it kills the etcd of this file.
it("the page /locks answers 503 with the cause if etcd is down, and reloads itself", function()
  etcd:kill()
  local answer = http.get(own_port, "/locks", { seconds = 20 })
  assert.equal(503, answer.status)
  assert.matches("<p><bdi>[^<]*etcd [^<]*</bdi><table>", answer.body)
  assert.matches('http-equiv="refresh"', answer.body, 1, true)
end)
