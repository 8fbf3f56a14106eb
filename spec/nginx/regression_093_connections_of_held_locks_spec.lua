-- Each lock that a request held kept one of its worker's connections and two descriptors. A request
-- that held 396 locks shut out all other HTTP clients of a worker with 400 connections.
-- Needs: one plain member, no sanitizer.

local Nginx = require "spec.support.servers.nginx"
local suite = require "spec.support.harness.suite"
local wait = require "spec.support.harness.wait"

local COUNT = 100
local prefix, etcd = suite.prefix(), suite.etcd()
local nginx

setup(function()
  nginx = Nginx.start {
    client = { endpoints = etcd:endpoint(), prefix = prefix, ttl = wait.ttl(10) },
    locations = {
      -- Takes locks and keeps them until /release is called. Then releases them, the oldest first.
      ["/hold"] = [[
        local locks = {}
        for i = 1, tonumber(ngx.var.arg_count) do
          locks[i] = assert(client:lock(ngx.var.arg_name .. "/" .. i))
        end
        while not shared:get("release " .. ngx.var.arg_name) do ngx.sleep(0.01) end
        for _, lock in ipairs(locks) do
          assert(lock:held())
          assert(lock:unlock())
        end
        ngx.say "released"
      ]],
      ["/release"] = [[ shared:set("release " .. ngx.var.arg_name, 1) ngx.say "told" ]],
      -- Ends a light thread that waits for a lock, while its request holds two other locks.
      ["/kill"] = [[
        local first = assert(client:lock "kill/1")
        local second = assert(client:lock "kill/2")
        local thread = ngx.thread.spawn(function() client:lock("taken/1", { owner = {} }) end)
        while client:stats().waiting == 0 do ngx.sleep(0.01) end
        ngx.thread.kill(thread)
        while client:stats().waiting > 0 do ngx.sleep(0.01) end
        ngx.say((first:check()), " ", (second:check()))
        assert(first:unlock())
        assert(second:unlock())
      ]],
    },
  }
end)

after_each(function() etcd:await_keys(prefix, 0, 20) end)

-- Returns the number of descriptors of the worker.
local function descriptors()
  return Nginx.usage(nginx:workers()[1]).descriptors
end

it("regression 093: all locks that a request holds share one connection", function()
  local one = nginx:begin "/hold?name=one&count=1"
  etcd:await_keys(prefix .. "one/", 1)
  local before = descriptors()
  local many = nginx:begin("/hold?name=many&count=" .. COUNT)
  etcd:await_keys(prefix .. "many/", COUNT)
  local added = descriptors() - before
  assert.is_true(added < 10, added)
  for _, name in ipairs { "many", "one" } do nginx:get("/release?name=" .. name) end
  assert.equal("released\n", many:wait().body)
  assert.equal("released\n", one:wait().body)
end)

it("regression 093: all locks that a request holds are released if it is aborted", function()
  local many = nginx:begin "/hold?name=aborted&count=10"
  etcd:await_keys(prefix .. "aborted/", 10)
  many:abort()
  etcd:await_keys(prefix .. "aborted/", 0)
end)

it("regression 093: the end of a light thread that waits ends no lock of its request", function()
  local holder = nginx:begin "/hold?name=taken&count=1"
  etcd:await_keys(prefix .. "taken/", 1)
  assert.equal("true true\n", nginx:get("/kill").body)
  nginx:get "/release?name=taken"
  assert.equal("released\n", holder:wait().body)
end)
