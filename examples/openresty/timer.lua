-- Runs a job again and again in one worker of all nginxes; doc/nginx.md. In nginx.conf:
--
--   init_worker_by_lua_block { require("timer").every("cleanup", 60, function(lock) ... end) }

local etcdlock = require "etcdlock"

local M = {}

-- In nginx a lock call waits 5 s by default. The other workers wait as long as the holder lives.
local NO_LIMIT = { timeout = math.huge }

-- Sleeps for |seconds|, or until the worker exits or the lock is lost.
local function pause(lock, seconds)
  local over = ngx.now() + seconds
  while ngx.now() < over and lock:held() and not ngx.worker.exiting() do
    ngx.sleep(math.min(1, seconds))
  end
end

-- Calls job(lock) every |seconds| in one worker, and logs its errors. The other workers, of this
-- nginx and of others, wait for the lock |name|: after a reload or a crash one of them goes on.
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
