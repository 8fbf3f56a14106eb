-- Tests clients that are collected together with objects that refer to them.

-- Regression 135. If Lua collected a client together with an object whose finalizer refers to the
-- client, every later connect of the process raised "calling 'usable' on bad self (the object has
-- been freed)".
it("connect works after a client was collected with such an object", function()
  local child = proc.lua([[
    local etcdlock, opts = require "etcdlock", { endpoints = ..., env = false }
    local function drop()
      local client = assert(etcdlock.connect(opts))
      local object = setmetatable({ client = client }, {
        __gc = function(self) self.client = nil end,
      })
      object.lock = assert(client:try_lock "a")
    end
    drop()
    collectgarbage()
    print("connected", (etcdlock.connect(opts)))
    collectgarbage()
    print("connected", (etcdlock.connect(opts)))
  ]], suite.endpoint())
  for _ = 1, 2 do child:expect "^connected\tetcdlock.client" end
  assert.equal(0, (child:wait()))
end)

-- Regression 147. The methods of a collected client or lock raised an error, in Lua 5.3 out of any
-- function that was running. A finalizer may release a lock and close a client, whatever Lua
-- collects first.
it("a finalizer may use a client and a lock that were collected", function()
  local child = proc.lua([[
    local etcdlock, opts = require "etcdlock", { endpoints = ..., env = false }
    local called = {}
    local function note(ok, message) called[#called + 1] = ok and "ok" or message end
    -- In Lua 5.1 a table has no finalizer.
    local function finalize(fn)
      if not newproxy then return setmetatable({}, { __gc = fn }) end
      local proxy = newproxy(true)
      getmetatable(proxy).__gc = fn
      return proxy
    end
    local function drop()
      local object = {}
      object.proxy = finalize(function()
        local client, lock = object.client, object.lock
        for _, name in ipairs {
          "stats", "metrics", "status", "alive", "ping", "lease", "queues", "close", "close",
        } do
          note(pcall(client[name], client))
        end
        for _, name in ipairs {
          "lock", "try_lock", "read_lock", "queue", "lock_async", "with_lock",
        } do
          note(pcall(client[name], client, "b", name == "with_lock" and print or nil))
        end
        for _, name in ipairs { "held", "check", "unlock", "wait_lost", "remaining" } do
          note(pcall(lock[name], lock, name == "wait_lost" and 0 or nil))
        end
        note(pcall(tostring, client))
        note(pcall(tostring, lock))
      end)
      object.client = assert(etcdlock.connect(opts))
      object.lock = assert(object.client:try_lock "a")
    end
    drop()
    collectgarbage()
    collectgarbage()
    for _, how in ipairs(called) do assert(how == "ok", how) end
    print("called", #called)
  ]], suite.endpoint())
  assert.equal("22", (child:expect "^called\t(%d+)"))
  assert.equal(0, (child:wait()))
end)
