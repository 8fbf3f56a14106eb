-- Tests waits and holds of nginx requests beside others that end, release a lock, or close the
-- client.
-- Needs: one plain member, no sanitizer.

-- Regression 093. Each lock that a request held kept one of its worker's connections and two
-- descriptors. A request that held 396 locks shut out all other HTTP clients of a worker with 400
-- connections.
describe("in nginx,", function()
  local COUNT = 100

  with_nginx {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = wait.ttl(10) },
    locations = {
      -- Takes locks and keeps them until the flag release-NAME is set. Then releases them, the
      -- oldest first.
      ["/hold"] = [[
        local locks = {}
        for i = 1, tonumber(ngx.var.arg_count) do
          locks[i] = assert(client:lock(ngx.var.arg_name .. "/" .. i))
        end
        await("release-" .. ngx.var.arg_name)
        for _, lock in ipairs(locks) do
          assert(lock:held())
          assert(lock:unlock())
        end
        ngx.say "released"
      ]],
      -- Ends a light thread that waits for a lock, while its request holds two other locks.
      ["/kill"] = [[
        local first = assert(client:lock "kill/1")
        local second = assert(client:lock "kill/2")
        local thread = ngx.thread.spawn(function() client:lock("taken/1", { owner = {} }) end)
        while client:stats().waiting == 0 do ngx.sleep(0.01) end
        ngx.thread.kill(thread)
        while client:stats().waiting > 0 do ngx.sleep(0.01) end
        ngx.say((first:check()), " ", (second:check()))
        assert(first:unlock())
        assert(second:unlock())
      ]],
    },
  }

  after_each(function() etcd:await_keys(prefix, 0, 20) end)

  -- Returns the number of descriptors of the worker.
  local function descriptors() return Nginx.usage(nginx:workers()[1]).descriptors end

  it("all locks that a request holds share one connection", function()
    local one = nginx:begin "/hold?name=one&count=1"
    etcd:await_keys(prefix .. "one/", 1)
    local before = descriptors()
    local many = nginx:begin("/hold?name=many&count=" .. COUNT)
    etcd:await_keys(prefix .. "many/", COUNT)
    local added = descriptors() - before
    assert.is_true(added < 10, added)
    for _, name in ipairs { "many", "one" } do nginx:set_value("release-" .. name, "now") end
    assert.equal("released\n", many:wait().body)
    assert.equal("released\n", one:wait().body)
  end)

  it("all locks that a request holds are released if it is aborted", function()
    local many = nginx:begin "/hold?name=aborted&count=10"
    etcd:await_keys(prefix .. "aborted/", 10)
    many:abort()
    etcd:await_keys(prefix .. "aborted/", 0)
  end)

  it("the end of a light thread that waits ends no lock of its request", function()
    local holder = nginx:begin "/hold?name=taken&count=1"
    etcd:await_keys(prefix .. "taken/", 1)
    assert.equal("true true\n", nginx:get("/kill").body)
    nginx:set_value("release-taken", "now")
    assert.equal("released\n", holder:wait().body)
  end)
end)

-- Regression 098. If several nginx requests waited for a lock with owners of the same name, only
-- one request got the lock, and the others got "deadlock". Requests that waited beside an aborted
-- request also got "deadlock".
describe("in nginx,", function()
  with_nginx {
    client = { endpoints = etcd:endpoint(), prefix = prefix },
    locations = {
      ["/lock"] = [[
        local lock, message = client:lock("a", { owner = ngx.var.arg_owner })
        ngx.say(lock and "held" or message)
        if lock then lock:unlock() end
      ]],
      -- Ends a light thread that waits for a lock. Then the owner of this wait asks again.
      ["/again"] = [[
        local function wait() return client:lock("a", { owner = "one" }) end
        local waiting = client:stats().waiting
        local thread = ngx.thread.spawn(wait)
        while client:stats().waiting == waiting do ngx.sleep(0.001) end
        ngx.thread.kill(thread)
        shared:set("asked", 1)
        local lock, message = wait()
        ngx.say(lock and "held" or message)
        if lock then lock:unlock() end
      ]],
      -- Two light threads of one owner ask for a lock. The second one asks when another nginx
      -- request waits as well.
      ["/twice"] = [[
        local function wait() return client:lock("a", { owner = "one" }) end
        local thread = ngx.thread.spawn(wait)
        shared:set("asked", 1)
        while client:stats().waiting < 2 do ngx.sleep(0.001) end
        local _, message = wait()
        ngx.say(message)
        ngx.thread.kill(thread)
      ]],
      ["/forget"] = [[ shared:delete "asked" ]],
      ["/waiting"] = [[ ngx.say(client:stats().waiting, " ", shared:get "asked" or 0) ]],
    },
  }

  local function await_waiting(text) nginx:await("/waiting", text) end

  it("requests with owners of the same name wait for a lock in turn", function()
    local held = assert(connect():lock "a")
    local requests = {}
    for i = 1, 3 do requests[i] = nginx:begin "/lock?owner=one" end
    await_waiting "3 0"
    assert.is_true(held:unlock())
    for i = 1, 3 do assert.equal("held\n", requests[i]:wait().body) end
  end)

  it("requests get the lock beside requests that are aborted", function()
    for _ = 1, 10 do
      local requests = {}
      for i = 1, 60 do requests[i] = nginx:begin "/lock" end
      for i = 1, 60, 3 do
        wait.sleep(0.001)
        requests[i]:abort()
      end
      for i = 1, 60 do
        if i % 3 ~= 1 then assert.equal("held\n", requests[i]:wait(20).body) end
      end
    end
    await_waiting "0 0"
    etcd:await_keys(prefix, 0)
  end)

  it("an owner asks again after its light thread was ended", function()
    local held = assert(connect():lock "a")
    local request = nginx:begin "/again"
    await_waiting "1 1"
    assert.is_true(held:unlock())
    assert.equal("held\n", request:wait().body)
  end)

  it("a second wait of an owner is a deadlock beside another request's", function()
    nginx:get "/forget"
    local held = assert(connect():lock "a")
    local twice = nginx:begin "/twice"
    await_waiting "1 1"
    local other = nginx:begin "/lock?owner=one" -- "/twice" goes on when this request waits
    assert.matches("waits for it already", twice:wait().body)
    assert.is_true(held:unlock())
    assert.equal("held\n", other:wait().body)
  end)
end)

-- Regression 099. While one light thread waited in unlock, another light thread of the same request
-- got a lock. The lock was tied to the connection of the first thread, and was released if nginx
-- ended that thread.
describe("in nginx,", function()
  before_each(function() client_options { ttl = 60 } end)
  local nginx, server

  setup(function()
    server = clients.scripted()
    nginx = start_nginx {
      client = { endpoints = server:endpoint(), prefix = prefix, ttl = 60 },
      locations = {
        ["/lock"] = [[
          shared:delete "unlock"
          local first = assert(client:lock "a")
          local other = ngx.thread.spawn(function()
            await "unlock"
            first:unlock()
          end)
          local lock = assert(client:lock("b", { owner = {} }))
          local status = coroutine.status(other)
          local was_waiting = status ~= "dead" and status ~= "zombie"
          ngx.thread.kill(other)
          ngx.sleep(0.1) -- etcdlock notices the end of a connection in another thread
          ngx.say(was_waiting, " ", (lock:held()))
          lock:unlock()
        ]],
      },
    }
  end)

  -- The lease of its client ends before the tests below, which expect no lease.
  teardown(function() nginx:stop() end)

  it("a lock outlives a light thread that was ended in unlock", function()
    local holder = connect()
    wait.eventually(function()
      local held = assert(holder:lock "b")
      local request = nginx:begin "/lock"
      etcd:await_keys(prefix .. "b/", 2)
      server:hold_back "Txn"
      nginx:set_value("unlock", "now")
      wait.eventually(function() return server:held "Txn" == 1 end, 5, "the delete")
      assert.is_true(held:unlock())
      local body = request:wait().body
      server:tell "Txn"
      assert.matches("true\n$", body)
      etcd:await_keys(prefix, 0)
      return body:find "^true", body
    end, 10, "a light thread that is ended in unlock")
  end)
end)

-- Regression 104. If the first wait of a client began while another light thread was closing the
-- client, the wait started the client's wake server. The thread and the socket of this server were
-- never freed.
describe("in nginx,", function()
  with_nginx {
    client = false,
    locations = {
      ["/client"] = [[
        client = connect()
        local asked = assert(client:lock_async "a")
        repeat ngx.sleep(0.001) until asked:step()
        ngx.say "connected"
      ]],
      ["/close"] = [[
        shared:set("code", nil)
        local closing = ngx.thread.spawn(function() client:close() end)
        local lock, message, code = client:lock "b"
        ngx.thread.wait(closing)
        client = nil
        collectgarbage()
        collectgarbage()
        ngx.say(code)
      ]],
    },
  }

  it("a first wait beside close is told closed and leaves nothing", function()
    local worker = nginx:workers()[1]
    local threads
    for i = 1, 2 do
      assert.equal("connected\n", nginx:get("/client").body)
      etcd:pause()
      assert.equal("closed\n", nginx:get("/close").body)
      etcd:resume()
      wait.eventually(function() return #etcd:leases() == 0 end, 10, "no lease is left")
      threads = threads or Nginx.usage(worker).threads
      assert.is_true(Nginx.usage(worker).threads <= threads, "threads after client " .. i)
      nginx:await_no_files()
    end
  end)
end)
