-- Tests waits of nginx workers that exit, or whose other lock is lost.
-- Needs: no sanitizer.

-- Regression 022. Timers that waited without a time limit kept exiting workers alive after a
-- reload. For example, two workers campaigned for leadership, and eight workers ran after three
-- reloads. The next leader was then a worker that was about to exit.
local WORKERS, RELOADS = 2, 3
local nginx

local function start(run)
  nginx = Nginx.start {
    workers = WORKERS,
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 },
    init_worker = ([[
      function note(what) shared:incr(what, 1, 0) end
      assert(ngx.timer.at(0, function() %s end))
    ]]):format(run),
    locations = { ["/told"] = [[ ngx.say(tostring(shared:get(ngx.var.arg_of))) ]] },
  }
end

local function told(of) return (nginx:get("/told?of=" .. of).body:gsub("\n$", "")) end

local function await_told(of, expected)
  wait.eventually(function()
    local value = told(of)
    return value == expected, value
  end, 5, of .. ": " .. expected)
end

-- Reloads nginx, and waits until all old workers have exited.
local function reload()
  local old = {}
  for _, pid in ipairs(nginx:workers()) do old[pid] = true end
  nginx:signal "sighup"
  wait.eventually(function()
    local left, new = 0, 0
    for _, pid in ipairs(nginx:workers()) do
      if old[pid] then left = left + 1 else new = new + 1 end
    end
    return left == 0 and new == WORKERS, ("%d old, %d new"):format(left, new)
  end, 5, "the new workers only")
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
    await_told("elected", tostring(i))
    reload()
  end
  await_told("elected", tostring(RELOADS + 1))
  assert.equal("nil", told "late")
  -- Each reload ends three calls: the wait of one worker, and two more calls of the worker that
  -- held the lock.
  assert.equal(tostring(3 * RELOADS), told "premature")
end)

it('wait_lost in a timer ends with "premature" when its worker exits', function()
  start [[
    local lock = assert(client:lock("keeper/" .. ngx.worker.id()))
    note "holds"
    note(select(3, lock:wait_lost()))
    assert(lock:unlock())
  ]]
  await_told("holds", tostring(WORKERS))
  reload()
  assert.equal(tostring(WORKERS), told "premature")
end)

-- Regression 109. If a lock was lost just before its nginx request began to wait for another lock,
-- the on_lost function of the lost lock was called only when that wait ended.
it("a loss at the begin of a wait is reported during the wait", function()
  nginx = Nginx.start {
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
