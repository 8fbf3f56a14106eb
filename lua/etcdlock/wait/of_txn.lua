--- The wait for etcd's answer to `txn`.
local wait_kind = require "etcdlock.wait.kind"

return wait_kind.new {
  hears_losses = true,
  poll = function(wait, seconds)
    return wait.txn:wait(seconds)
  end,
  arm = function(wait, number)
    return wait.wakeups.core:arm_txn(wait.txn, number)
  end,
}
