-- The end of a hold was computed in whole milliseconds from the millisecond in which the hold
-- began. The hold ended up to 1 ms early, and a log showed a hold shorter than its max_hold.

local clients = require "spec.support.harness.clients"
local suite = require "spec.support.harness.suite"

local connect = clients.connector { endpoints = suite.endpoints(), prefix = suite.prefix() }

after_each(clients.close_all)

it("regression 047: a hold does not end before its max_hold has passed", function()
  local holds = {}
  local client = connect { log = function(event) holds[#holds + 1] = event.hold end }
  for i = 1, 20 do
    local opts = { max_hold = 0.003, linger = i % 2 == 0 and 60 or nil }
    if opts.linger then assert(client:lock("a", { linger = 60 })):unlock() end
    local lock = assert(client:lock("a", opts))
    repeat until not lock:held() -- held reads the clock
    assert.is_nil((lock:unlock()))
    assert.is_true(holds[#holds] >= 0.003, holds[#holds])
  end
end)
