-- Tests examples/openresty/timer.lua: a job runs in one nginx worker, also after a reload.
-- Needs: one plain member, no sanitizer.

local NAME = prefix .. "job"
local WORKERS = 2

suite.etcd()

describe("the job of examples/openresty/timer.lua", function()
  local nginx

  -- Returns the pid of the worker that runs the job, how often it ran, and whether two ran it at
  -- the same time.
  local function runs()
    local pid, count, is_twice = nginx:get("/runs").body:match "^(%S+) (%d+) (%S+)"
    return tonumber(pid), tonumber(count), is_twice == "true"
  end

  it("runs in one worker, again after an error, and after a reload in a new worker", function()
    nginx = Nginx.start {
      logs_errors = true,
      workers = WORKERS,
      main = "env ETCDCTL_ENDPOINTS;",
      init_worker = ([[
        dofile("%s/examples/openresty/timer.lua").every("%s", 0.02, function()
          if shared:incr("inside", 1, 0) > 1 then shared:set("twice", true) end
          shared:incr("count", 1, 0)
          shared:set("pid", ngx.worker.pid())
          ngx.sleep(0.01)
          shared:incr("inside", -1)
          if not shared:get "asked" then return end -- nginx must start without an error
          -- Regression 120. If the job raised a table, it never ran again in that worker, because
          -- ngx.log refuses a table.
          error(shared:get "count" %% 2 == 0 and {} or "an error in a job")
        end)
      ]]):format(require "luv".cwd(), NAME),
      locations = {
        ["/runs"] = [[
          shared:set("asked", true)
          ngx.say(shared:get "pid", " ", shared:get "count" or 0, " ", shared:get "twice" or false)
        ]],
      },
    }
    for _ = 1, 3 do
      local old = {}
      local _, before = runs()
      wait.eventually(function()
        local pid, count = runs()
        return pid and count > (before or 0) + 10
      end, 10, "runs after errors")
      for _, pid in ipairs(nginx:workers()) do old[pid] = true end
      assert.is_true(old[runs()])
      nginx:signal "sighup"
      wait.eventually(function() return not old[runs()] end, 10, "a run in a new worker")
    end
    assert.is_false((select(3, runs())))
  end)
end)
