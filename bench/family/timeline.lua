-- Reads the holds that the processes of member.lua have printed, and compares them in time.

local M = {}

--- Reads the `lines` of one process. Returns its holds and its first line "failed MESSAGE"; nil if
-- no call failed. The holds are a list of { from, waited, token, what, to }: `what` is the names,
-- separated by spaces; `to` is nil if the process was killed during the hold.
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

--- Returns a table from each name to the list of its holds. A hold of several names is in the list
-- of each of them.
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

-- Orders moments by time. If a hold ends and another begins at the same time, the end comes first:
-- a process records the end of a hold before it releases the lock.
local function is_before(a, b)
  if a.at ~= b.at then return a.at < b.at end
  return a.change < b.change
end

--- Calls visit(at, change, hold) for each begin (change 1) and each end (change -1) of `holds`, in
-- the order of time.
function M.each(holds, visit)
  local moments = {}
  for _, hold in ipairs(holds) do
    moments[#moments + 1] = { at = hold.from, change = 1, hold = hold }
    moments[#moments + 1] = { at = hold.to, change = -1, hold = hold }
  end
  table.sort(moments, is_before)
  for _, moment in ipairs(moments) do visit(moment.at, moment.change, moment.hold) end
end

--- Returns how many of `holds` there were at the same time, at most.
function M.most(holds)
  local now, most = 0, 0
  M.each(holds, function(_, change)
    now = now + change
    most = math.max(most, now)
  end)
  return most
end

--- Returns how many pairs of `holds` overlap although they exclude each other. excludes(new, other)
-- returns whether the hold `new` must not begin during the hold `other`.
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
