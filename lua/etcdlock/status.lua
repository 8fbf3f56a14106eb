--- How the members of a client's etcd are, each asked by itself.
-- @submodule client
local host = require "etcdlock.wait.host"
local of_answer = require "etcdlock.wait.of_answer"

local M = {}

-- What a member is given to answer.
local STATUS_WAIT = 2

local Answered = of_answer "arm_status"

--- One member of `client:status`. Of who hasn't answered within 2 s there are `endpoint`,
-- `transport`, `message` and `code`; to find out why may take a second more.
-- @table member
-- @tfield string endpoint `host:port`, or `unix:` and the path
-- @tfield string transport how it was asked: `tls`; in plain text, `local` if that doesn't leave
--   this machine, and `open` if all on the way can read and change it
-- @tfield[opt] string version of etcd
-- @tfield[opt] string id in hex
-- @tfield[opt] string leader_id missing where it knows of no leader
-- @tfield[opt] boolean is_leader does it lead?
-- @tfield[opt] boolean is_learner has it no vote?
-- @tfield[opt] count db_size bytes of its file
-- @tfield[opt] count db_in_use bytes of that which are in use
-- @tfield[opt] {string,...} problems etcd's texts: alarms, `no leader`
-- @tfield[opt] seconds seconds that the answer took, connecting included
-- @tfield[opt] string message why there was none
-- @tfield[opt] code code of that

--- Asks each member that `connect` was told of how it is. It says what the members say, and
-- not whether a majority is there: that does `client:ping`.
-- @function client:status
-- @treturn {member,...} in the order of `connect`
-- @fail closed, forked, context, premature
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
  members, message, code = self:_await(Answered, { asked = asked })
  if not members then
    return nil, message, code
  end
  for _, member in ipairs(members) do
    member.is_leader = member.id and member.id == member.leader_id
  end
  return members
end

return M
