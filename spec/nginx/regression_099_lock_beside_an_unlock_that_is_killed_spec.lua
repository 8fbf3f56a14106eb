-- While one light thread waited in unlock, another light thread of the same request got a lock. The
-- lock was tied to the connection of the first thread, and was released if nginx ended that thread.
-- Needs: one plain member, no sanitizer.

local Nginx = require "spec.support.servers.nginx"
local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoint(), prefix = prefix, ttl = 60 }
local nginx, server

setup(function()
  server = clients.scripted(etcd:endpoint())
  nginx = Nginx.start {
    client = { endpoints = server:endpoint(), prefix = prefix, ttl = 60 },
    locations = {
      ["/lock"] = [[
        shared:delete "unlock"
        local first = assert(client:lock "a")
        local other = ngx.thread.spawn(function()
          while not shared:get "unlock" do ngx.sleep(0.001) end
          shared:set("unlock", "begins")
          first:unlock()
        end)
        local lock = assert(client:lock("b", { owner = {} }))
        local status = coroutine.status(other)
        local was_waiting = status ~= "dead" and status ~= "zombie"
        ngx.thread.kill(other)
        ngx.sleep(0.1) -- etcdlock notices the end of a connection in another thread
        ngx.say(was_waiting, " ", (lock:held()))
        lock:unlock()
      ]],
      ["/unlock"] = [[ shared:set("unlock", "now") ngx.say "told" ]],
      ["/unlocks"] = [[ ngx.say(shared:get "unlock") ]],
    },
  }
end)

teardown(function()
  nginx:stop() -- its client revokes its lease through the scripted server
  clients.close_all()
end)

it("regression 099: a lock outlives a light thread that was ended in unlock", function()
  local holder = connect()
  wait.eventually(function()
    local held = assert(holder:lock "b")
    local request = nginx:begin "/lock"
    etcd:await_keys(prefix .. "b/", 2)
    server:hold_back "Txn"
    nginx:get "/unlock"
    wait.eventually(function() return server:held "Txn" == 1 end, 5, "the delete")
    assert.is_true(held:unlock())
    local body = request:wait().body
    server:tell "Txn"
    assert.matches("true\n$", body)
    etcd:await_keys(prefix, 0)
    return body:find "^true", body
  end, 10, "a light thread that is ended in unlock")
end)
