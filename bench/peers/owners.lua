-- What the entrants in Lua have in common: owners that do a pair of lock and unlock
-- again and again within a window, a coroutine of cqueues each if there are several.
-- What an entrant is told and answers stands in bench/README.md.

local Witness = require "bench.peers.witness"
local cjson = require "cjson"
local cqueues = require "cqueues"
local uv = require "luv"

local M = {}

local function now()
  return uv.hrtime() / 1e9
end

-- ---- a window ---------------------------------------------------------------------

local Window = {}
Window.__index = Window

-- |command|: for so many `seconds`, or so many `holds` of each owner.
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

-- A pair is complete. One that the deadline found half-way doesn't count.
function Window:count()
  local at = now()
  if at < self.deadline then
    self.pairs, self.last = self.pairs + 1, at - self.from
  end
end

-- ---- owners -----------------------------------------------------------------------

-- Who comes to hold the lock too late goes on at once, so that the queue empties.
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

--- Serves windows until the input ends. |new_pair|(name) → a function(work) that
-- takes the lock of that name, calls work() and releases it. |asked|(), if it is given, tells
-- how many requests about locks there have been so far.
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
    local window = open_window(cjson.decode(line))
    run_all(job, owners, window, witness)
    print(cjson.encode {
      pairs = window.pairs, seconds = window.last, broken = witness.broken,
      requests = asked and asked() - before,
    })
  end
end

return M
