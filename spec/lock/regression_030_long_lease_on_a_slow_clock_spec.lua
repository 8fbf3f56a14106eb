-- The hold deadline of a lease of 300 s was only 2 s before the end of the lease. On a clock that
-- runs 1 % slower than etcd's, the hold ended 1 s after the lease.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local prefix = suite.prefix()
local connect = clients.connector { endpoints = suite.endpoints(), prefix = prefix }
-- SLOWER: the fraction by which a clock may run slower than etcd's. REST: the seconds that must
-- remain between the hold deadline on such a clock and the end of the lease.
local SLOWER, REST = 0.01, 0.15

after_each(clients.close_all)

for _, ttl in ipairs { 2, 10, 60, 300 } do
  it(("regression 030: a hold with TTL %d s ends before its lease on a clock that is 1 %% slow")
    :format(ttl), function()
    local lock = assert(connect { ttl = ttl }:lock "a")
    assert.is_true(lock:remaining() / (1 - SLOWER) <= ttl - REST, lock:remaining())
    assert.is_true(lock:remaining() > ttl / 2)
    assert.is_true(lock:unlock())
  end)
end
