--- How the members of a client's etcd are, each asked by itself.
local host = require "etcdlock.wait.host"

local M = {}

-- What a member is given to answer.
local STATUS_WAIT = 2

--- Asks each member that connect was told of.
-- @return a list, in their order: endpoint; of who has answered version, id, leader_id (nil:
--   it knows of no leader), is_leader, is_learner, db_size and db_in_use (bytes), problems (a
--   list of etcd's texts: alarms, no leader), seconds (that the answer took, connecting
--   included); of the others message, code | nil, message, code: "closed", "forked", "context",
--   "premature"
function M:status()
  local message, code = host.refusal(self._wakeups.chosen)
  if message then
    return nil, message, code
  end
  local asked
  asked, message, code = self._core:status(STATUS_WAIT)
  if not asked then
    return nil, message, code
  end
  local members
  members, message, code = self:_await {
    poll = function(slice)
      return asked:wait(slice)
    end,
    arm = function(number)
      return self._core:arm_status(asked, number)
    end,
    losses = self._losses,
  }
  if not members then
    return nil, message, code
  end
  for _, member in ipairs(members) do
    member.is_leader = member.id and member.id == member.leader_id
  end
  return members
end

return M
