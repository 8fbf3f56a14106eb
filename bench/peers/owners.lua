-- The code that the entrants in Lua share: within a window, each owner does pairs of lock and
-- unlock. If there are several owners, each is a coroutine of cqueues. bench/README.md describes
-- the messages that an entrant reads and prints.

local Witness = require "bench.peers.witness"
local json = require "dkjson"
local cqueues = require "cqueues"
local uv = require "luv"

local M = {}

local function now()
  return uv.hrtime() / 1e9
end

-- ---- a window ---------------------------------------------------------------------

local Window = {}
Window.__index = Window

-- Starts a window. |command|: `seconds`, its length, or `holds`, the number of holds of each owner.
-- Fields: `pairs`, the number of complete pairs; `last`, the time in seconds when the last one
-- ended.
local function open_window(command)
  local from = now()
  return setmetatable({
    from = from,
    deadline = from + (command.seconds or math.huge),
    holds = command.holds or math.huge,
    pairs = 0,
    last = 0,
  }, Window)
end

function Window:is_over()
  return now() >= self.deadline
end

-- Counts a complete pair. A pair that ended after the deadline does not count.
function Window:count()
  local at = now()
  if at < self.deadline then
    self.pairs, self.last = self.pairs + 1, at - self.from
  end
end

-- ---- owners -----------------------------------------------------------------------

-- Returns the function that an owner calls while it holds the lock. If the window is over by then,
-- the function does nothing, so that the remaining waiters finish quickly.
local function work_of(job, owner, window, witness)
  return function()
    if window:is_over() then return end
    witness:enter(owner.number)
    if job.hold > 0 then cqueues.sleep(job.hold) end
    witness:leave(owner.number)
  end
end

local function run_owner(job, owner, window, witness)
  local work, done = work_of(job, owner, window, witness), 0
  while done < window.holds and not window:is_over() do
    owner.pair(work)
    window:count()
    done = done + 1
  end
end

local function run_all(job, owners, window, witness)
  if not owners[2] then return run_owner(job, owners[1], window, witness) end
  local loop = cqueues.new()
  for _, owner in ipairs(owners) do
    loop:wrap(function() run_owner(job, owner, window, witness) end)
  end
  assert(loop:loop())
end

--- Serves windows until the standard input ends. |new_pair|(name) returns a function(work) that
-- takes the lock of that name, calls work() and releases the lock. |asked|() returns how many
-- requests about locks were sent so far; nil: the entrant does not count them.
function M.serve(job, new_pair, asked)
  local owners, witness = {}, Witness.new(job.marks)
  for i = 1, job.owners do
    local number = i % job.names
    owners[i] = { number = number, pair = new_pair(job.prefix .. "/" .. number) }
  end
  io.stdout:setvbuf "line"
  print "ready"
  for line in io.lines() do
    local before = asked and asked()
    local window = open_window(json.decode(line))
    run_all(job, owners, window, witness)
    print(json.encode {
      pairs = window.pairs, seconds = window.last, broken = witness.broken,
      requests = asked and asked() - before,
    })
  end
end

return M
