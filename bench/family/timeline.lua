-- What the processes of member.lua have told: their holds, and what they show when they
-- are laid side by side.

local M = {}

--- The holds that `lines` of one process tell of: a list of { from, waited, token, what,
-- to }.
-- `to` is missing of one that was killed in the middle. And the first message of a call
-- that has failed, if any has.
function M.read(lines)
  local holds, failure = {}, nil
  for _, line in ipairs(lines) do
    local from, waited, token, what = line:match "^in (%S+) (%S+) (%S+) (.*)"
    if from then
      holds[#holds + 1] = {
        from = tonumber(from), waited = tonumber(waited), token = tonumber(token), what = what,
      }
    elseif line:find "^out " then
      holds[#holds].to = tonumber(line:match "^out (%S+)")
    elseif line:find "^failed " then
      failure = failure or line
    end
  end
  return holds, failure
end

--- The holds of each of the names by themselves: one of several names is in the list of
-- each.
function M.by_name(holds)
  local lists = {}
  for _, hold in ipairs(holds) do
    for name in hold.what:gmatch "%S+" do
      lists[name] = lists[name] or {}
      table.insert(lists[name], hold)
    end
  end
  return lists
end

-- Of two moments that are one, the end comes first: who lets go says so before he does.
local function is_before(a, b)
  if a.at ~= b.at then return a.at < b.at end
  return a.change < b.change
end

--- Goes through `holds` in time and tells visit(at, change, hold) of each that begins (1)
-- or ends (-1).
function M.each(holds, visit)
  local moments = {}
  for _, hold in ipairs(holds) do
    moments[#moments + 1] = { at = hold.from, change = 1, hold = hold }
    moments[#moments + 1] = { at = hold.to, change = -1, hold = hold }
  end
  table.sort(moments, is_before)
  for _, moment in ipairs(moments) do visit(moment.at, moment.change, moment.hold) end
end

--- The most of `holds` at once.
function M.most(holds)
  local now, most = 0, 0
  M.each(holds, function(_, change)
    now = now + change
    most = math.max(most, now)
  end)
  return most
end

--- How often one of `holds` began while there was another that it excludes:
-- excludes(new, other).
function M.overlaps(holds, excludes)
  local inside, count = {}, 0
  M.each(holds, function(_, change, hold)
    if change < 0 then
      inside[hold] = nil
      return
    end
    for other in pairs(inside) do
      if excludes(hold, other) then count = count + 1 end
    end
    inside[hold] = true
  end)
  return count
end

return M
