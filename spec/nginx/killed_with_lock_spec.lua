-- Tests the locks of a with_lock whose light thread nginx has killed.
-- Needs: one plain member, no sanitizer.

-- Regression 110. nginx ended a `with_lock` of a semaphore. Then `try_lock` in the same request
-- failed with "locked", and `lock_async` waited until the end of the request, because only `lock`
-- released the permit of the ended `with_lock`.
describe("in nginx,", function()
  with_nginx {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 60 },
    init_worker = [[
      -- Asks for the only permit of the semaphore after its with_lock was ended.
      function ask(call)
        local semaphore = assert(client:semaphore("pool", 1))
        local opts = { timeout = 10, owner = ngx.var.arg_owner }
        local runs
        local thread = ngx.thread.spawn(semaphore.with_lock, semaphore, opts, function()
          runs = true
          ngx.sleep(1000)
        end)
        repeat ngx.sleep(0.001) until runs
        ngx.thread.kill(thread)
        local lock, _, code = call(semaphore, opts)
        ngx.say(lock and "held" or code)
        if lock then lock:unlock() end
      end
    ]],
    locations = {
      ["/try"] = [[ ask(function(semaphore, opts)
        return semaphore:try_lock { owner = opts.owner }
      end) ]],
      ["/async"] = [[ ask(function(semaphore, opts)
        local asked = assert(semaphore:lock_async(opts))
        while true do
          local lock, message, code = asked:step()
          if lock ~= false then return lock, message, code end
          ngx.sleep(0.001)
        end
      end) ]],
    },
  }

  for path, form in pairs { ["/try"] = "try_lock", ["/async"] = "lock_async" } do
    for query, owner in pairs { [""] = "another coroutine", ["?owner=one"] = "the same owner" } do
      it(("%s of %s gets the permit of a with_lock that nginx has ended")
        :format(form, owner), function()
        assert.equal("held\n", nginx:get(path .. query, { seconds = 30 }).body)
      end)
    end
  end
end)

-- Regression 112. nginx ended a `with_read_lock`. If another owner of the same request then asked
-- for a write lock, it waited for the read lock until the end of the request.
describe("in nginx,", function()
  with_nginx {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 60 },
    locations = {
      ["/write"] = [[
        local opts = { timeout = 10, owner = ngx.var.arg_owner }
        local runs
        local thread = ngx.thread.spawn(client.with_read_lock, client, "a", function()
          runs = true
          ngx.sleep(1000)
        end)
        repeat ngx.sleep(0.001) until runs
        ngx.thread.kill(thread)
        local lock, _, code = client:write_lock("a", opts)
        ngx.say(lock and "held" or code)
        if lock then lock:unlock() end
      ]],
    },
  }

  for query, owner in pairs { [""] = "another coroutine", ["?owner=one"] = "another owner" } do
    it("a write lock of " .. owner .. " is granted after nginx has ended a "
      .. "with_read_lock", function()
      assert.equal("held\n", nginx:get("/write" .. query, { seconds = 30 }).body)
    end)
  end
end)
