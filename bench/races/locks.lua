-- The race of most rows. Each entrant is a crowd of processes that take the locks of the row and
-- release them.
--
-- Each file of races/ returns a class with these functions:
--   start(row, ids, excuse)   returns the race, with its fields `ids` and `labels`
--   round(number, command)    runs one window of each entrant; returns a table from id to sample
--   stop()                    stops the servers and the processes

local Crowd = require "bench.crowd"
local entrants = require "bench.entrants"
local servers = require "bench.servers"
local turns = require "bench.turns"
local uv = require "luv"

local Race = {}
Race.__index = Race

local WARM_UP = { seconds = 0.3 }

-- Returns the address of the server of |entrant|. Entrants with the same kind of server share it.
local function endpoint_of(self, entrant)
  local kind = entrant.server or "etcd"
  self.servers[kind] = self.servers[kind] or servers[kind]()
  return self.servers[kind]:endpoint()
end

local function start_crowd(self, id, row)
  local entrant = entrants[id]
  if entrant.needs and not uv.fs_stat(entrant.needs) then
    return nil, "there is no " .. entrant.needs
  end
  return Crowd.start(entrant, row.work, endpoint_of(self, entrant), row.id .. "/" .. id)
end

--- Starts the entrants |ids|. Returns the race: `ids` are the entrants that take part, and `labels`
-- maps each to its label. Calls excuse(label, why) for an entrant that cannot start, and later for
-- one that fails during a round.
function Race.start(row, ids, excuse)
  local self = setmetatable({ ids = {}, labels = {}, crowds = {}, servers = {} }, Race)
  self.excuse = excuse
  for _, id in ipairs(ids) do
    local label = entrants[id].label
    local crowd, why = start_crowd(self, id, row)
    if crowd then
      self.ids[#self.ids + 1] = id
      self.labels[id], self.crowds[id] = label, crowd
    else
      excuse(label, why)
    end
  end
  self:round(0, WARM_UP)
  return self
end

-- Stops entrant |id|, which has failed. The other entrants go on.
local function dismiss(self, id, why)
  self.excuse(self.labels[id], why)
  self.crowds[id]:stop()
  self.crowds[id] = nil
  for i = #self.ids, 1, -1 do
    if self.ids[i] == id then table.remove(self.ids, i) end
  end
end

--- Runs one window of each entrant. Returns a table from id to sample.
function Race:round(number, command)
  local failed = {}
  local samples = turns(self.ids, number, function(id)
    local sample, why = self.crowds[id]:window(command)
    failed[id] = why
    return sample
  end)
  for id, why in pairs(failed) do dismiss(self, id, why) end
  return samples
end

function Race:stop()
  for _, crowd in pairs(self.crowds) do crowd:stop() end
  for _, server in pairs(self.servers) do server:stop() end
end

return Race
