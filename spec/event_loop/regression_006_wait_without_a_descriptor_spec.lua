-- In an event loop, a call that had to wait raised an error if the process had no free descriptor,
-- instead of returning "nomem". Even unlock did so. A wait with a closed client raised an error as
-- well.
local loops = require "spec.support.programs.loops"

for _, loop in ipairs { "cqueues", "luv", "copas" } do
  local missing = loops.missing(loop)

  it('regression 006: lock, queue and unlock without a descriptor return "nomem" in ' .. loop,
    missing and function() pending(missing) end or loops.test(loop, [[
      local function sockets()
        local count, scan = 0, assert(uv.fs_scandir "/proc/self/fd")
        for fd in function() return uv.fs_scandir_next(scan) end do
          local target = uv.fs_readlink("/proc/self/fd/" .. fd) or ""
          if target:find "^socket:" then count = count + 1 end
        end
        return count
      end
      local TRIES = 50
      local locks = {}
      for i = 1, TRIES do locks[i] = assert(client:lock("a" .. i)) end
      local before = sockets()
      local closed = connect()
      local left = assert(closed:lock "b")
      closed:close()
      go(function()
        -- gRPC may need a moment more for the connection of a closed client.
        while sockets() > before do sleep(0.01) end
        fails("closed", left:wait_lost(1))
        -- Room for the files that are open, and a few more.
        os.execute(("prlimit --pid %d --nofile=%d:"):format(core.pid(), descriptors() + 8))
        local files = {}
        -- gRPC's threads may give one back at any time: then once more.
        local function starves(call)
          for _ = 1, TRIES do
            repeat
              local file = io.open "/dev/null"
              files[#files + 1] = file
            until not file
            local got, message, code = call()
            if not got then return fails("nomem", got, message, code) end
            sleep(0.02)
          end
          error "there is always one left"
        end
        starves(function()
          local got, message, code = client:lock "c"
          if got then got:unlock() end
          return got, message, code
        end)
        starves(function() return client:queue "c" end)
        starves(function() return table.remove(locks):unlock() end)
        for _, file in ipairs(files) do file:close() end
        for _, lock in ipairs(locks) do assert(lock:unlock()) end
        for i = 1, TRIES do assert(client:lock("a" .. i)):unlock() end
        assert(client:lock "c"):unlock()
        equal(0, client:stats().held)
      end)
      run()
    ]]))
end
