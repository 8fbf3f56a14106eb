-- Tests the step-by-step instructions of the documents: runs the commands of each chapter in a
-- shell, with the files that the chapter has the reader write, and compares what they print.
-- Needs: one plain member, no sanitizer.

local Shell = require "spec.support.programs.shell"

-- The endpoint of etcd in the documents, as a pattern.
local SHOWN = "127%.0%.0%.1:2379"

local STEPS = { sh = true, file = true, printed = true }

-- Returns a list with the steps of each chapter that has commands, in order. The chapters of a file
-- that have numbers count as one.
local function chapters()
  local list, last = {}, nil
  for _, block in ipairs(documents.blocks()) do
    local file = block.place:match "^[^:]*"
    local name = file .. (block.chapter:find "^%d+%. " and "" or ", " .. block.chapter)
    if STEPS[block.kind] then
      if not last or last.name ~= name then
        last = { name = name, commands = "", files = "" }
        list[#list + 1] = last
      end
      last[#last + 1] = block
    end
    if block.kind == "sh" then last.commands = last.commands .. block.text end
    if block.kind == "file" then last.files = last.files .. block.text end
  end
  return list
end

-- Returns a pattern for the expected output |text| of |block|: "…" matches anything, and a number
-- matches any number if the block says so.
local function pattern_of(block, text)
  local pattern = text:gsub("[%^$()%%.[%]*+%-?]", "%%%0"):gsub("…", ".*")
  if block.argument == "numbers" then pattern = pattern:gsub("%d+", "%%d+") end
  return "^" .. pattern .. "$"
end

-- Returns the port of an etcd for |chapter|: a free port if the chapter starts one itself.
local function port_for(chapter)
  if ("\n" .. chapter.commands):find "\netcd " then return port.free() end
  return Etcd.start { tls = false }:endpoint():match "%d+$"
end

-- Carries out |step| of |chapter|, with the contents |text|, in |shell|. |printed|: the output of
-- the last command, or nil. Returns the output of the last command after this step.
local function take(chapter, shell, step, text, printed)
  if step.kind == "sh" then return shell:run(text, 30) end
  if step.kind == "file" then
    local module = ('"%s"'):format(step.argument:match "^[^.]*")
    assert.is_truthy(chapter.commands:find(step.argument, 1, true)
      or chapter.files:find(module, 1, true),
      step.place .. ": no command and no file of the chapter uses the file")
    shell:write(step.argument, text)
  else
    assert(printed, step.place .. ": there is no command before it")
    assert.matches(pattern_of(step, text), printed)
  end
  return printed
end

local function walk(chapter)
  if chapter.files:find('"cqueues"', 1, true) and not pcall(require, "cqueues") then
    return pending "this Lua has no cqueues"
  end
  local port, env, printed = port_for(chapter), matrix.no_variables(), nil
  env.ETCDCTL_ENDPOINTS = "127.0.0.1:" .. port
  local shell = Shell.start(temporary.directory(), env, port)
  finally(function() shell:stop() end)
  for _, step in ipairs(chapter) do
    local text = step.text:gsub(SHOWN, "127.0.0.1:" .. port)
    printed = take(chapter, shell, step, text, printed)
  end
end

describe("the step-by-step commands work and print the output that is shown in", function()
  for _, chapter in ipairs(chapters()) do
    it(chapter.name, function() walk(chapter) end)
  end
end)
