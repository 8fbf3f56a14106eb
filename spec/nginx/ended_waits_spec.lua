-- Tests waits in nginx: they end if the worker exits, and report the loss of another lock.
-- Needs: no sanitizer.

-- Regression 022. Timers that waited without a time limit kept exiting workers alive after a
-- reload. For example, two workers campaigned for leadership, and eight workers ran after three
-- reloads. The next leader was then a worker that was about to exit.
local WORKERS, RELOADS = 2, 3
local nginx

local function start(run)
  nginx = start_nginx {
    workers = WORKERS,
    init_worker = ([[
      function note(what) shared:incr(what, 1, 0) end
      assert(ngx.timer.at(0, function() %s end))
    ]]):format(run),
  }
end

it("the lock wait of a timer ends when its worker exits, and no exiting worker "
  .. "gets the lock", function()
  start [[
    local lock, _, code = client:lock "leader"
    if not lock then return note(code) end
    note(ngx.worker.exiting() and "late" or "elected")
    repeat ngx.sleep(0.01) until ngx.worker.exiting() or not lock:held()
    note(select(3, client:lock("other", { timeout = 1 })))
    note(select(3, client:try_lock "other"))
    assert(lock:unlock())
  ]]
  for i = 1, RELOADS do
    nginx:await_value("elected", tostring(i))
    nginx:reload()
  end
  nginx:await_value("elected", tostring(RELOADS + 1))
  assert.equal("nil", nginx:value "late")
  -- Each reload ends three calls: the wait of one worker, and two more calls of the worker that
  -- held the lock.
  assert.equal(tostring(3 * RELOADS), nginx:value "premature")
end)

it('wait_lost in a timer ends with "premature" when its worker exits', function()
  start [[
    local lock = assert(client:lock("keeper/" .. ngx.worker.id()))
    note "holds"
    note(select(3, lock:wait_lost()))
    assert(lock:unlock())
  ]]
  nginx:await_value("holds", tostring(WORKERS))
  nginx:reload()
  assert.equal(tostring(WORKERS), nginx:value "premature")
end)

-- Regression 109. If a lock was lost just before its nginx request began to wait for another lock,
-- the on_lost function of the lost lock was called only when that wait ended.
it("a loss at the begin of a wait is reported during the wait", function()
  nginx = start_nginx {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 60 },
    locations = {
      ["/wait"] = [[
        local ffi, core = require "ffi", require "etcdlock.core"
        ffi.cdef "int usleep(unsigned microseconds);"
        local lost = assert(client:lock("lost"))
        local reported_at
        assert(lost:on_lost(function() reported_at = core.now() end))
        -- The first call is at the begin of `lock`, the second one just before it waits.
        local listeners, calls = client._loss_listeners, 0
        local call_due = listeners.call_due
        function listeners:call_due()
          call_due(self)
          calls = calls + 1
          if calls == 2 then
            assert(lost:expire(0.01))
            repeat ffi.C.usleep(1000) until lost._core:wait_ended(0)
          end
        end
        local _, _, code = client:lock("taken", { timeout = 3 })
        listeners.call_due = nil
        local ended_at = core.now()
        ngx.say(code, " ", reported_at ~= nil and ended_at - reported_at > 1)
      ]],
    },
  }
  local lock = assert(connect():lock "taken")
  assert.equal("timeout true\n", nginx:get("/wait").body)
  assert(lock:unlock())
end)
