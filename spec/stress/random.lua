-- Random numbers from a seed, the same on every Lua.

local Random = {}
Random.__index = Random

-- Park and Miller's generator: its products fit into a double.
local FACTOR, MODULUS = 16807, 2147483647

function Random.new(seed)
  local self = setmetatable({ state = (seed * 48271 + 11) % (MODULUS - 1) + 1 }, Random)
  for _ = 1, 10 do self:next() end
  return self
end

-- Returns a number between 0 and 1, both exclusive.
function Random:next()
  self.state = self.state * FACTOR % MODULUS
  return self.state / MODULUS
end

-- Returns a number from |low| to |high|.
function Random:real(low, high)
  return low + (high - low) * self:next()
end

-- Returns a whole number from |low| to |high|, both inclusive.
function Random:whole(low, high)
  return low + math.floor((high - low + 1) * self:next())
end

-- Returns true with the probability |share| (0 to 1).
function Random:chance(share)
  return self:next() < share
end

-- Returns an element of |list|.
function Random:pick(list)
  return list[self:whole(1, #list)]
end

-- Returns an element of |list|, which consists of { weight, element } pairs.
function Random:weighted(list)
  local sum = 0
  for _, pair in ipairs(list) do sum = sum + pair[1] end
  local left = sum * self:next()
  for _, pair in ipairs(list) do
    left = left - pair[1]
    if left < 0 then return pair[2] end
  end
  return list[#list][2]
end

return Random
