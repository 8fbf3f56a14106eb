-- `lock` of resty.etcdlock refused a free lock in the phases where nginx cannot wait; resty.lock
-- takes it there. It also returned "timeout" for a free lock if the timeout was shorter than the
-- first connection of the client to etcd took.
-- Needs: no sanitizer.
local Etcd = require "spec.support.servers.etcd"
local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix = suite.prefix()
local etcd, nginx

setup(function()
  etcd = Etcd.start()
  nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = 5 },
    init_worker = [[
      resty_lock = require "resty.etcdlock"
      function new(opts)
        opts = opts or {}
        opts.client = client
        return resty_lock:new("shared", opts)
      end
      -- What a phase is told: of a lock that is free, and of the same when it is taken.
      function try_all(phase)
        local one, told = new(), {}
        local lists = {
          { one:lock(phase) }, { new():lock(phase) }, { new({ timeout = 0 }):lock(phase) },
          { one:unlock() }, { one:unlock() },
        }
        for i, list in ipairs(lists) do
          told[i] = tostring(list[1]) .. (list[2] and " " .. list[2] or "")
        end
        shared:set(phase, table.concat(told, "\n"))
      end
    ]],
    locations = {
      ["/set"] = {
        conf = [[ set_by_lua_block $told { try_all "set" return "" } ]],
        content = [[ ngx.say "done" ]],
      },
      ["/filters"] = {
        content = [[ ngx.say "done" ]],
        header_filter = [[ try_all "header_filter" ]],
        log = [[ try_all "log" ]],
      },
      -- The calls that lua-resty-healthcheck makes.
      ["/healthcheck"] = {
        conf = [[
          set_by_lua_block $told {
            ngx.ctx.lock = new()
            local elapsed
            for _ = 1, 100 do -- as below
              elapsed = elapsed or ngx.ctx.lock:lock "targets"
            end
            assert(elapsed)
            ngx.ctx.told = select(2, new({ timeout = 0 }):lock "targets")
            return ""
          }
        ]],
        content = [[ ngx.say(ngx.ctx.told, " ", ngx.ctx.lock:unlock()) ]],
      },
      ["/short"] = [[ ngx.say(new({ timeout = 0.01 }):lock "short") ]],
      -- Two clients; the one named `fresh` has not connected yet.
      ["/fresh"] = ([[
        local fresh = resty_lock.connect { endpoints = "%s", prefix = "%s", ttl = 5 }
        local one, other = new(), fresh:new("shared", { timeout = 0.2 })
        assert(one:lock "fresh")
        local thread = ngx.thread.spawn(function()
          ngx.sleep(0.9)
          one:unlock()
        end)
        ngx.say(select(2, other:lock "fresh"))
        ngx.thread.wait(thread)
      ]]):format(etcd:endpoint(), prefix),
      ["/told"] = [[ ngx.say(shared:get(ngx.var.arg_of) or "nothing") ]],
    },
  }
end)

it("regression 024: a free lock is taken even if connecting takes longer than timeout", function()
  etcd:pause()
  local request = nginx:begin "/short"
  wait.sleep(0.2)
  etcd:resume()
  assert.equal("0\n", request:wait(5).body)
end)

it("regression 024: connecting does not extend the timeout on a held lock", function()
  assert.equal("timeout\n", nginx:get("/fresh").body)
end)

for phase, path in pairs { set = "/set", header_filter = "/filters", log = "/filters" } do
  it("regression 024: resty.etcdlock in " .. phase .. "_by_lua takes a free lock and fails on a "
    .. "held one", function()
    local lines
    -- In these phases a try waits 100 ms for etcd. A busy machine may need longer, so the test
    -- repeats.
    wait.eventually(function()
      assert.equal("done\n", nginx:get(path).body)
      local told
      wait.eventually(function()
        told = nginx:get("/told?of=" .. phase).body
        return told ~= "nothing\n"
      end, 5, phase)
      lines = {}
      for line in told:gmatch "[^\n]+" do lines[#lines + 1] = line end
      return lines[2]:find("nginx's worker (this is " .. phase .. "_by_lua)", 1, true), told
    end, 10, "three answers in 100 ms each")
    table.remove(lines, 2)
    assert.same({ "0", "nil timeout", "1", "nil unlocked" }, lines)
  end)
end

it("regression 024: a lock taken in set_by_lua is unlocked in the content phase", function()
  assert.equal("timeout 1\n", nginx:get("/healthcheck").body)
  etcd:await_keys(prefix .. "shared/targets", 0)
end)
