-- Tests that each example prints what its comment promises.

local ACCOUNTS = { "account/anna", "account/ben", "account/carl" }
local NAMES = { "hello", "report", "crash", "fencing", "page/news", "config", "api", "leader",
  ACCOUNTS[1], ACCOUNTS[2], ACCOUNTS[3] } -- names of the examples' locks
local KEYS = { "report.last-run", "fencing-example", "page/news", "shop/hosts", "shop/routes",
  ACCOUNTS[1], ACCOUNTS[2], ACCOUNTS[3] } -- keys that examples leave in etcd
local RECEIPTS = "receipt/" -- transfer leaves a key below it for each transfer

-- Seconds; the TTL in a sale. On a busy machine a worker may stand still, so the TTL is long there.
local TTL = wait.ttl(6)

setup(function()
  for _, name in ipairs(NAMES) do suite.etcd():allow(name .. "/") end
  for _, key in ipairs(KEYS) do suite.etcd():allow(key) end
  suite.etcd():allow(RECEIPTS)
end)

-- Runs the example, which must not fail or print errors, and returns what it prints.
local function output(name, ...)
  local out, code, err = proc.run_lua("examples/" .. name .. ".lua", { ... },
    { env = { ETCDCTL_ENDPOINTS = suite.endpoints() }, seconds = 60 })
  assert.same({ "", 0 }, { err, code }, out)
  return out
end

-- Starts the example as a child that prints lines and reads from an open pipe.
local function start(name, ...)
  return proc.lua([[
    local endpoint, name = ...
    local uv = require "luv"
    uv.os_setenv("ETCDCTL_ENDPOINTS", endpoint)
    arg = { [0] = "examples/" .. name .. ".lua", select(3, ...) }
    dofile(arg[0])
  ]], suite.endpoints(), name, ...)
end

describe("the example", function()
  after_each(function()
    for _, key in ipairs(KEYS) do suite.etcd():del(key) end
    suite.etcd():del_all(RECEIPTS)
    for _, name in ipairs(NAMES) do assert.same({}, suite.etcd():keys(name .. "/")) end
  end)

  it("hello holds a lock until Enter is pressed, and others wait", function()
    local first = start "hello"
    local token = first:expect '^I hold "hello" with token (%d+),$'
    assert.is_true(tonumber((first:expect "on it for ([%d.]+) s")) > 5)
    first:expect "^Press Enter"
    local second = start "hello"
    wait.eventually(function() return #suite.etcd():keys "hello/" == 2 end)
    first:send ""
    first:expect "^Released. The function returned: done$"
    local later = second:expect "with token (%d+)"
    assert.is_true(tonumber(later) > tonumber(token))
    second:finish()
    second:expect "^Released"
    assert.same({ 0, 0 }, { first:wait() })
    assert.same({ 0, 0 }, { second:wait() })
  end)

  it("scheduled_job does its work once on three machines", function()
    local machines, done, skipped = {}, 0, 0
    for i = 1, 3 do machines[i] = start("scheduled_job", "ever") end
    for _, machine in ipairs(machines) do
      if machine:expect "^(%a+)" == "running" then done = done + 1 else skipped = skipped + 1 end
      assert.same({ 0, 0 }, { machine:wait() })
    end
    assert.same({ 1, 2 }, { done, skipped })
    for _, period in ipairs { "ever", 864000000 } do
      assert.matches('^skipped: lock "report": nothing to do.*: run by pid %d+ on .* at %d.*\n$',
        output("scheduled_job", period))
    end
  end)

  it("cache has one of five processes render the page for all", function()
    local pages, rendered, found = {}, 0, 0
    for how, page in output("cache"):gmatch "process %d has (%a+) it: ([^\n]+)\n" do
      if how == "rendered" then rendered = rendered + 1 else found = found + 1 end
      pages[page] = true
    end
    assert.same({ 1, 4 }, { rendered, found })
    assert.is_nil(next(pages, next(pages)), "there are several pages")
  end)

  it("config_reload never shows half a change, and tests each version alone", function()
    local out = output "config_reload"
    local loads, tests = 0, {}
    for hosts, routes in out:gmatch "reader %d: hosts (%d), routes (%d)\n" do
      assert.equal(hosts, routes, out)
      loads = loads + 1
    end
    for test in out:gmatch "version %d is good: hosts %d, routes %d" do tests[#tests + 1] = test end
    assert.equal(15, loads)
    assert.same({
      "version 1 is good: hosts 1, routes 1",
      "version 2 is good: hosts 2, routes 2",
    }, tests)
  end)

  it("transfer neither creates nor loses money", function()
    local out, balances, tellers, receipts = output "transfer", {}, 0, 0
    for _, account in ipairs(ACCOUNTS) do balances[account] = 100 end
    for done, amount, from, to in out:gmatch "(%d+) of 20 transfers of (%d+) from (%S+) to (%S+)" do
      balances[from] = balances[from] - done * amount
      balances[to] = balances[to] + done * amount
      tellers, receipts = tellers + (tonumber(done) > 0 and 1 or 0), receipts + done
    end
    for _, account in ipairs(ACCOUNTS) do
      assert.equal(balances[account], tonumber(out:match("\n" .. account .. "%s+(%d+)\n")), out)
    end
    assert.equal(3, tellers, out)
    assert.equal(receipts, #suite.etcd():keys(RECEIPTS))
  end)

  it("worker_pool sends at most three requests at a time", function()
    local out = output "worker_pool"
    local served, most = 0, 0
    for at_once in out:gmatch "200 OK, (%d) at once\n" do
      served, most = served + 1, math.max(most, tonumber(at_once))
    end
    assert.same({ 18, 3 }, { served, most }, out)
  end)

  it("crash gets the lock of a killed holder when its TTL has passed", function()
    local out = output "crash"
    local before = tonumber(out:match "victim holds it with token (%d+), and is killed\n")
    local token, seconds = out:match "next one holds it with token (%d+), ([%d.]+) s after"
    assert.is_true(tonumber(token) > before)
    assert.is_true(tonumber(seconds) <= 3 + wait.SLACK, out)
  end)

  it("fencing loses a write without the token and none with it", function()
    assert.matches("^second holder: plain file: written; checking store: written; "
      .. "lock:put: written\n"
      .. "first holder: plain file: written; checking store: refused; "
      .. "lock:put: refused, lost\n"
      .. "left: plain file: first holder; checking store: %d+ second holder\n$",
      output "fencing")
    assert.equal("second holder", (suite.etcd():get "fencing-example"))
  end)

  it("leader publishes its address, and the next leader's address when it resigns", function()
    local etcd = suite.etcd()
    wait.eventually(function() return etcd:watchers() == 0 end, 5, "no watch of others")
    local follower = start "leader"
    wait.eventually(function() return etcd:watchers() > 0 end, 5, "the follower's watch")
    local first = start("leader", "one:80")
    local token = first:expect "^I lead with token (%d+), and get ready.$"
    assert.equal(token, (follower:expect "^the leader is one:80 soon, with token (%d+)$"))
    assert.equal(token, (follower:expect "^the leader is one:80, with token (%d+)$"))
    first:expect "^I serve. Press Enter to resign.$"
    local second = start("leader", "two:80")
    wait.eventually(function() return #etcd:keys "leader/" == 2 end)
    first:send ""
    local later = second:expect "^I lead with token (%d+)"
    assert.is_true(tonumber(later) > tonumber(token))
    assert.equal(later, (follower:expect "^the leader is two:80, with token (%d+)$"))
    second:send ""
    assert.same({ 0, 0 }, { first:wait() })
    assert.same({ 0, 0 }, { second:wait() })
  end)

  -- Regression 260. The follower showed the last leader during an outage of etcd.
  it("leader tells that the leader is unknown, and the leader after the outage", function()
    local etcd, follower = suite.etcd(), start "leader"
    local lease = etcd:grant(60)
    etcd:put("leader/" .. lease, "one:80", lease)
    follower:expect "^the leader is one:80"
    etcd:pause()
    follower:expect "^unknown for %d+ s; the last leader was one:80$"
    etcd:resume()
    follower:expect "^the leader is one:80"
    etcd:revoke(lease)
  end)

  it("flash_sale oversells without the lock, and sells all items exactly once with it", function()
    local directory = temporary.directory()
    local out, code, err = proc.run_lua("examples/flash_sale.lua", { 50, 30, TTL },
      { env = { TMPDIR = directory }, seconds = 120 })
    assert.same({ "", 0 }, { err, code }, out)
    sale.assert_sold(out, 50, 30, TTL)
    sale.assert_nothing_left(directory)
  end)

  it("flash_sale with an invalid argument fails and names it", function()
    local out, code, err = proc.run_lua("examples/flash_sale.lua", { 100, "many" })
    assert.same({ "", 2 }, { out, code })
    assert.equal('flash_sale: ITEMS is "many", wanted a whole number from 1 to 99999\n', err)
  end)

  it("flash_sale serves a single customer whose worker is killed", function()
    local out, code, err = proc.run_lua("examples/flash_sale.lua", { 1, 1 },
      { env = { TMPDIR = temporary.directory() }, seconds = 60 })
    assert.same({ "", 0 }, { err, code }, out)
    assert.matches("With the lock, exactly 1 of 1 items were sold", out)
  end)

  -- Returns what flash_sale with |args| prints on a terminal of |columns| columns.
  local function on_terminal(columns, variables, args)
    local command = ("stty cols %d; %s '%s' examples/flash_sale.lua %s %d"):format(columns,
      variables, uv.exepath(), args, TTL)
    local out, code, err = proc.run(session.at_terminal(command), {
      env = { TMPDIR = temporary.directory(), TERM = "xterm", LC_ALL = "C.UTF-8" }, seconds = 120,
    })
    assert.same({ 0, "" }, { code, err }, out)
    return out
  end

  it("flash_sale draws two bars on a terminal, in colour unless NO_COLOR is set", function()
    local out = on_terminal(80, "NO_COLOR=", "20 12")
    assert.matches("\27%[32m" .. ("█"):rep(18) .. "\27%[m 20 served  \27%[32m" .. ("█"):rep(11)
      .. "\27%[m" .. ("░"):rep(7) .. " 12 sold", out)
    assert.truthy(out:find("\27[31m█", 1, true), "oversold items are red")
    out = on_terminal(80, "LC_ALL=C NO_COLOR=1", "20 12")
    assert.matches(("#"):rep(18) .. " 20 served  " .. ("#"):rep(11) .. ("%."):rep(7)
      .. " 12 sold", out)
    assert.is_nil(out:find "\27%[%d")
  end)

  it("flash_sale fits its bars and its table into a terminal of 60 columns", function()
    local out = on_terminal(60, "LC_ALL=C NO_COLOR=1", "100 12")
    assert.matches("100 served", out)
    for line in out:gsub("\27%[K", ""):gmatch "[^\r\n]+" do
      if line:find "served" then assert.is_true(#line < 60, line) end
    end
    out = out:gsub("\r\n", "\n")
    sale.assert_columns(out)
    assert.is_true(#out:match "\n( +without lock[^\n]*)\n" <= 60, out)
  end)

  -- Presses Ctrl-C when flash_sale has printed |line|. Asserts that it ends within |seconds|.
  local function assert_ends_at_ctrl_c(line, seconds)
    local directory = temporary.directory()
    local command = ("exec '%s' examples/flash_sale.lua 500 300"):format(uv.exepath())
    local child = proc.talk(session.at_terminal(command),
      proc.lua_environment { TMPDIR = directory, TERM = "dumb" })
    child:expect(line, 60)
    child:send "\3"
    assert.equal(1, (child:wait(seconds)))
    assert.matches("interrupted\r\n$", child.out.text)
    assert.is_nil(child.out.text:find "traceback", child.out.text)
    sale.assert_nothing_left(directory)
  end

  it("flash_sale prints only `interrupted` after Ctrl-C, and leaves no file or process", function()
    assert_ends_at_ctrl_c("^with lock .* served", 30)
  end)

  it("flash_sale ends at Ctrl-C while etcd starts, too, without a wait for its answer", function()
    assert_ends_at_ctrl_c("^2 shops", 1)
  end)

  it("hello runs from the checkout, with an etcd of its own if none is running", function()
    local directory = temporary.directory()
    local env = matrix.no_variables()
    env.TMPDIR, env.ETCDLOCK_EXAMPLE_PORT = directory, port.free()
    local how = { env = env, seconds = 60 }
    local out, code, err = proc.run_lua("examples/run.lua", { "hello" }, how)
    assert.same({ "", 0 }, { err, code }, out)
    assert.matches('I hold "hello" with token %d+', out)
    sale.assert_nothing_left(directory)
  end)
end)
