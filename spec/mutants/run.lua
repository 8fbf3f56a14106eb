-- Would anybody notice? Puts small bugs into the code, one at a time, and has those
-- look that should see them.
--
--   lua spec/mutants/run.lua [WORDS...]
--
-- from the project's root, in what `make mutants` sets up; with WORDS, only the
-- mutants whose list, file or name has one of them in it (as it stands). Fails if a
-- mutant can't be made any more, or if fewer than 90 in 100 are seen.
--
-- A list (lists/*.lua) holds mutants: what it is called, the file, what stands there,
-- exactly once, however it is laid out, and what is put there instead; and
--   by        who sees it: "sim", or a spec file, as in "lock/lost", or one of its
--             stories, "lock/lost: when its key is overwritten"; or a list of such.
--             It may stand once for the whole list
--   harmless  why nobody needs to see it, as nothing changes that anybody relies on

local Tree = require "spec.mutants.tree"
local proc = require "spec.support.programs.proc"
local uv = require "luv"
local wait = require "spec.support.harness.wait"

local JOBS = math.max(1, tonumber(os.getenv "JOBS") or 3)
local WANTED = 90 -- in 100
-- How long a look may take: as many times longer than it did, and some seconds more.
local TIMES, MORE = 3, 30

-- ---- which ------------------------------------------------------------------

local LISTS = {
  "base", "tls", "net", "etcd", "rules", "several", "writes", "lock", "local_queue", "nginx",
  "lua_core", "lua", "election", "command", "eyes",
}

local function is_wanted(list, mutant)
  for _, word in ipairs(arg) do
    for _, text in ipairs { list, mutant.file, mutant.name } do
      if text:find(word, 1, true) then return true end
    end
  end
  return not arg[1]
end

local function read_lists()
  local mutants = {}
  for _, name in ipairs(LISTS) do
    local list = require("spec.mutants.lists." .. name)
    for _, entry in ipairs(list) do
      local by = entry.by or list.by
      local mutant = {
        name = entry[1], file = entry[2], was = entry[3], is = entry[4],
        by = type(by) == "table" and by or { by }, harmless = entry.harmless,
      }
      if is_wanted(name, mutant) then mutants[#mutants + 1] = mutant end
    end
  end
  return mutants
end

-- ---- one of them --------------------------------------------------------------

-- Of the looks at the code as it is: how long they took, or why they say nothing.
local seconds_of, useless = {}, {}

local function say(text, ...)
  io.stdout:write(text:format(...), "\n")
  io.stdout:flush()
end

-- Whoever looks must find nothing in the code as it is; the second time at the latest,
-- because the machine is busy.
local function look_before(tree, by)
  local ok, verdict, words
  for _ = 1, 2 do
    local from = wait.now()
    ok, verdict, words = pcall(tree.look, tree, by)
    seconds_of[by] = wait.now() - from
    if ok and verdict == "green" then return end
  end
  useless[by] = ok and words or verdict
  say("ERROR     not even mutated: %s\n%s", by, useless[by])
end

-- Is |mutant| seen? By whom, and how.
local function try(tree, mutant)
  tree:apply(mutant)
  for _, by in ipairs(mutant.harmless and {} or mutant.by) do
    if useless[by] then error(by .. " is of no use", 0) end
    local verdict = tree:look(by, TIMES * seconds_of[by] + MORE)
    if verdict ~= "green" then
      mutant.seen, mutant.how = true, by .. (verdict == "late" and ", which never ends" or "")
      return
    end
  end
end

-- ---- all of them --------------------------------------------------------------

local interrupted = false

-- Calls each(tree, task) for the |tasks|, one of which is at work in each of the
-- |trees|.
local function share_out(trees, tasks, each)
  local next_task, workers = 1, {}
  for i, tree in ipairs(trees) do
    workers[i] = coroutine.create(function()
      while tasks[next_task] do
        next_task = next_task + 1
        each(tree, tasks[next_task - 1])
      end
    end)
  end
  local is_busy
  repeat
    is_busy = false
    if interrupted then error("interrupted", 0) end
    for _, worker in ipairs(workers) do
      if coroutine.status(worker) ~= "dead" then
        is_busy = true
        local ok, failure = coroutine.resume(worker)
        if not ok then error(failure, 0) end
      end
    end
    wait.sleep(0.02)
  until not is_busy
end

local function tell(mutant)
  if mutant.failure then
    say("ERROR     %s: %s", mutant.name, mutant.failure)
  elseif mutant.harmless then
    say("harmless  %-48s %s", mutant.name, mutant.file)
  elseif mutant.seen then
    say("seen      %-48s %s", mutant.name, mutant.how)
  else
    say("SURVIVED  %-48s %s", mutant.name, mutant.file)
  end
end

local function looks_of(mutants)
  local looks = {}
  for _, mutant in ipairs(mutants) do
    for _, by in ipairs(mutant.harmless and {} or mutant.by) do
      if not looks[by] then looks[#looks + 1], looks[by] = by, true end
    end
  end
  return looks
end

-- ---- the score ----------------------------------------------------------------

local function percent(score)
  return 100 * score.seen / (score.seen + score.survived)
end

local function add_up(mutants)
  local total, files = { seen = 0, survived = 0, failed = 0, harmless = {} }, {}
  for _, mutant in ipairs(mutants) do
    local score = files[mutant.file] or { file = mutant.file, seen = 0, survived = 0 }
    if not files[mutant.file] then files[#files + 1], files[mutant.file] = score, score end
    if mutant.failure then
      total.failed = total.failed + 1
    elseif mutant.harmless then
      table.insert(total.harmless, mutant)
    else
      local field = mutant.seen and "seen" or "survived"
      score[field], total[field] = score[field] + 1, total[field] + 1
    end
  end
  return total, files
end

local function tell_score(mutants)
  local total, files = add_up(mutants)
  say "\nseen, of how many, by file"
  for _, score in ipairs(files) do
    local count = score.seen + score.survived
    if count > 0 then
      say("  %-40s %3d of %3d  %3.0f %%", score.file, score.seen, count, percent(score))
    end
  end
  if total.harmless[1] then say "\nof these nobody needs to see anything" end
  for _, mutant in ipairs(total.harmless) do
    say("  %s: %s\n    %s", mutant.file, mutant.name, mutant.harmless)
  end
  local count = total.seen + total.survived
  say("\n%d of %d seen, %.0f %%; %d could not be made", total.seen, count,
    count > 0 and percent(total) or 100, total.failed)
  return total.failed == 0 and (count == 0 or percent(total) >= WANTED)
end

-- ---- main -----------------------------------------------------------------------

local trees = {}

local function main()
  local mutants = read_lists()
  local looks = looks_of(mutants)
  for i = 1, math.min(JOBS, #mutants) do trees[i] = Tree.new() end
  say("%d mutants, %d at a time, and %d who look at them", #mutants, #trees, #looks)
  share_out(trees, looks, look_before)
  share_out(trees, mutants, function(tree, mutant)
    local ok, failure = pcall(try, tree, mutant)
    mutant.failure = not ok and failure
    tree:restore(mutant)
    tell(mutant)
  end)
  return tell_score(mutants)
end

-- Not here, within the loop: what is to be waited for would never come.
for _, name in ipairs { "sigint", "sigterm", "sighup" } do
  uv.signal_start(uv.new_signal(), name, function() interrupted = true end)
end
local ok, good = xpcall(main, debug.traceback)
if not ok then io.stderr:write(good, "\n") end
proc.shut_down()
for _, tree in ipairs(trees) do tree:remove() end
os.exit(ok and good and 0 or 1)
