-- Tests the locks of a with_lock whose light thread nginx has killed.
-- Needs: one plain member, no sanitizer.

describe("in nginx,", function()
  with_nginx {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 60 },
    init_worker = [[
      -- Answers how call(opts) ends after nginx has ended with_call(…, fn).
      function ask(call, with_call, ...)
        local args, n, runs = { ... }, select("#", ...) + 1, nil
        args[n] = function()
          runs = true
          ngx.sleep(1000)
        end
        local thread = ngx.thread.spawn(with_call, unpack(args, 1, n))
        repeat ngx.sleep(0.001) until runs
        ngx.thread.kill(thread)
        local lock, _, code = call { timeout = 10, owner = ngx.var.arg_owner }
        ngx.say(lock and "held" or code)
        if lock then lock:unlock() end
      end
      -- Asks for the only permit of a semaphore.
      function ask_permit(call)
        local semaphore = assert(client:semaphore("pool", 1))
        ask(function(opts) return call(semaphore, opts) end, semaphore.with_lock, semaphore,
          { timeout = 10, owner = ngx.var.arg_owner })
      end
    ]],
    locations = {
      ["/try"] = [[ ask_permit(function(semaphore, opts)
        return semaphore:try_lock { owner = opts.owner }
      end) ]],
      ["/async"] = [[ ask_permit(function(semaphore, opts)
        local asked = assert(semaphore:lock_async(opts))
        while true do
          local lock, message, code = asked:step()
          if lock ~= false then return lock, message, code end
          ngx.sleep(0.001)
        end
      end) ]],
      ["/write"] = [[
        ask(function(opts) return client:write_lock("a", opts) end, client.with_read_lock, client,
          "a")
      ]],
    },
  }

  local function assert_granted(path, what)
    for query, owner in pairs { [""] = "another coroutine", ["?owner=one"] = "the owner one" } do
      it(("%s, for %s"):format(what, owner), function()
        assert.equal("held\n", nginx:get(path .. query, { seconds = 30 }).body)
      end)
    end
  end

  -- Regression 110. nginx ended a `with_lock` of a semaphore. Then `try_lock` in the same request
  -- failed with "locked", and `lock_async` waited until the end of the request, because only `lock`
  -- released the permit of the ended `with_lock`.
  assert_granted("/try", "try_lock takes the permit of an ended with_lock")
  assert_granted("/async", "lock_async takes the permit of an ended with_lock")

  -- Regression 112. nginx ended a `with_read_lock`. If another owner of the same request then asked
  -- for a write lock, it waited for the read lock until the end of the request.
  assert_granted("/write", "write_lock is granted after an ended with_read_lock")
end)
