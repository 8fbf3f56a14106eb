-- Runs a job again and again, in only one worker of all nginx servers (see doc/nginx.md). In
-- nginx.conf:
--
--   init_worker_by_lua_block { require("timer").every("cleanup", 60, function(lock) ... end) }

local etcdlock = require "etcdlock"

local M = {}

-- No limit for the wait, because the other workers wait for the lock as long as the holder lives.
-- In nginx a lock call waits at most 5 s by default.
local NO_LIMIT = { timeout = math.huge }

-- Sleeps for `seconds`, or until the worker exits or the lock is lost, whichever comes first.
local function pause(lock, seconds)
  local over = ngx.now() + seconds
  while ngx.now() < over and lock:held() and not ngx.worker.exiting() do
    ngx.sleep(math.min(1, seconds))
  end
end

-- Calls job(lock) again and again in one worker, with a pause of `seconds` after each call, and
-- logs the errors of job. The other workers, of this nginx and of all others, wait for the lock
-- `name`. If the worker that runs the job exits or crashes, another worker gets the lock and
-- continues.
function M.every(name, seconds, job)
  local function run()
    while not ngx.worker.exiting() do
      local ok, message, code = etcdlock.with_lock(name, NO_LIMIT, function(lock)
        while lock:held() and not ngx.worker.exiting() do
          local is_done, failure = pcall(job, lock)
          if not is_done then
            ngx.log(ngx.ERR, "job ", name, ": ", tostring(failure))
          end
          pause(lock, seconds)
        end
      end)
      if not ok and code ~= "premature" then
        ngx.log(ngx.WARN, message)
        ngx.sleep(1)
      end
    end
  end
  assert(ngx.timer.at(0, run))
end

return M
