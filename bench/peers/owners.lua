-- The code that the entrants in Lua share: within a window, each owner does pairs of lock and
-- unlock. If there are several owners, each is a coroutine of cqueues. bench/README.md describes
-- the messages that an entrant reads and prints.

local json = require "dkjson"
local cqueues = require "cqueues"
local uv = require "luv"

local M = {}

local PRIVATE = tonumber("600", 8)

local function now()
  return uv.hrtime() / 1e9
end

-- ---- what is done under a lock -----------------------------------------------------

-- A witness counts how often two owners hold the same lock at once. A flag detects this within one
-- process. Between processes, a file in the directory `marks` detects it: only one process can
-- create the file of a lock.
local Witness = {}
Witness.__index = Witness

local function create(path)
  local file = uv.fs_open(path, "wx", PRIVATE)
  return file and uv.fs_close(file)
end

-- An owner calls this when it has taken lock |number|.
function Witness:enter(number)
  if self.inside[number] or self.marks and not create(self.marks .. "/" .. number) then
    self.broken = self.broken + 1
  end
  self.inside[number] = true
end

-- The owner calls this before it releases lock |number|.
function Witness:leave(number)
  if self.marks then uv.fs_unlink(self.marks .. "/" .. number) end
  self.inside[number] = nil
end

-- ---- a window ---------------------------------------------------------------------

local Window = {}
Window.__index = Window

-- Starts a window. |command|: `seconds`, its length, or `holds`, the number of holds of each owner.
-- Fields: `pairs`, the number of complete pairs; `last`, the time in seconds when the last one
-- ended; `times`, with job.times a list of { from, to }, one for each hold; `longest`, by owner,
-- the seconds of the longest pair.
local function open_window(command)
  local from = now()
  return setmetatable({
    from = from,
    deadline = from + (command.seconds or math.huge),
    holds = command.holds or math.huge,
    pairs = 0, last = 0, times = {}, longest = {},
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
    local from = job.times and now()
    witness:enter(owner.number)
    if job.hold > 0 then cqueues.sleep(job.hold) end
    witness:leave(owner.number)
    if from then table.insert(window.times, { from, now() }) end
  end
end

local function run_owner(job, i, owner, window, witness)
  local work, done = work_of(job, owner, window, witness), 0
  window.longest[i] = 0
  while done < window.holds and not window:is_over() do
    local from = now()
    local is_granted = owner.pair(work) ~= false
    window.longest[i] = math.max(window.longest[i], now() - from)
    if is_granted then window:count() end
    done = done + 1
  end
end

local function run_all(job, owners, window, witness)
  if not owners[2] then return run_owner(job, 1, owners[1], window, witness) end
  local loop = cqueues.new()
  for i, owner in ipairs(owners) do
    loop:wrap(function() run_owner(job, i, owner, window, witness) end)
  end
  assert(loop:loop())
end

--- Serves windows until the standard input ends. |new_pair|(name) returns a function(work) that
-- takes the lock of that name, calls work() and releases the lock; it returns false if it did not
-- get the lock. |finish|(answer, window), if it is given, adds fields to the answer to a window.
function M.serve(job, new_pair, finish)
  local owners = {}
  local witness = setmetatable({ marks = job.marks, inside = {}, broken = 0 }, Witness)
  for i = 1, job.owners do
    local number = i % job.names
    owners[i] = { number = number, pair = new_pair(job.prefix .. "/" .. number) }
  end
  io.stdout:setvbuf "line"
  print "ready"
  for line in io.lines() do
    local window = open_window(json.decode(line))
    run_all(job, owners, window, witness)
    local answer = { pairs = window.pairs, seconds = window.last, broken = witness.broken }
    if finish then finish(answer, window) end
    print(json.encode(answer))
  end
end

return M
