-- A claim on a lease of 300 s ended 2 s before it: on a clock that runs a hundredth
-- slower than etcd's, a second too late.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local prefix = suite.prefix()
local connect = clients.connector { endpoints = suite.endpoints(), prefix = prefix }
-- How much slower a clock may run, and what is left for the way to whoever asks.
local SLOWER, REST = 0.01, 0.15

after_each(clients.close_all)

for _, ttl in ipairs { 2, 10, 60, 300 } do
  it(("a claim on a lease of %d s is over in time on a slow clock, too"):format(ttl), function()
    local lock = assert(connect { ttl = ttl }:lock "a")
    assert.is_true(lock:remaining() / (1 - SLOWER) <= ttl - REST, lock:remaining())
    assert.is_true(lock:remaining() > ttl / 2)
    assert.is_true(lock:unlock())
  end)
end
