-- If the argument PREFIX of `etcdlock ls` was invalid, the message named the option --prefix, which
-- the user had not given.
-- Needs: one plain member.

local command = require "spec.support.programs.command"

it("regression 115: etcdlock ls names its argument PREFIX if that is too long", function()
  local long = ("x"):rep(600)
  local out, status, err = command.run { "ls", long }
  assert.same({ "", 64 }, { out, status })
  assert.matches("^etcdlock: PREFIX = ", err)
  local _, other_status, other_err = command.run { "--prefix", long, "ls" }
  assert.equal(64, other_status)
  assert.matches("^etcdlock: %-%-prefix = ", other_err)
end)
