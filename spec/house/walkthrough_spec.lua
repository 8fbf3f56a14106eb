-- What the documents have a reader do step by step, in a shell and with files that he
-- writes, works, chapter by chapter, and prints what they say.

local Etcd = require "spec.support.servers.etcd"
local Shell = require "spec.support.programs.shell"
local cell = require "spec.support.harness.cell"
local documents = require "spec.support.harness.documents"
local ports = require "spec.support.servers.port"
local temporary = require "spec.support.harness.temporary"

-- Where the documents' etcd is.
local SHOWN = "127%.0%.0%.1:2379"

local STEPS = { sh = true, file = true, printed = true }

-- The steps of each chapter that has commands, in their order; one with a number goes on
-- where the one before it has ended.
local function chapters()
  local list, last = {}, nil
  for _, block in ipairs(documents.blocks()) do
    local file = block.place:match "^[^:]*"
    local name = file .. (block.chapter:find "^%d+%. " and "" or ", " .. block.chapter)
    if STEPS[block.kind] then
      if not last or last.name ~= name then
        last = { name = name, commands = "" }
        list[#list + 1] = last
      end
      last[#last + 1] = block
    end
    if block.kind == "sh" then last.commands = last.commands .. block.text end
  end
  return list
end

-- A pattern for what has been printed once: "…" is anything.
local function pattern_of(block, text)
  local pattern = text:gsub("[%^$()%%.[%]*+%-?]", "%%%0"):gsub("…", ".*")
  if block.argument == "numbers" then pattern = pattern:gsub("%d+", "%%d+") end
  return "^" .. pattern .. "$"
end

-- The etcd of a chapter, at |port|; one that starts it itself has none of us.
local function etcd_of(chapter)
  if ("\n" .. chapter.commands):find "\netcd " then return nil, ports.free() end
  local etcd = Etcd.start { tls = false }
  return etcd, etcd:endpoint():match "%d+$"
end

-- Takes a step of |chapter| in |shell|, which has |printed| something before; returns what
-- it prints.
local function take(chapter, shell, step, text, printed)
  if step.kind == "sh" then return shell:run(text, 30) end
  if step.kind == "file" then
    assert.is_truthy(chapter.commands:find(step.argument, 1, true),
      step.place .. ": no command of the chapter uses the file")
    shell:write(step.argument, text)
  else
    assert(printed, step.place .. ": there is no command before it")
    assert.matches(pattern_of(step, text), printed)
  end
  return printed
end

local function walk(chapter)
  local etcd, port = etcd_of(chapter)
  local env, shell = cell.no_variables(), nil
  finally(function()
    if shell then shell:stop() end
    if etcd then etcd:stop() end
  end)
  env.ETCDCTL_API, env.ETCDCTL_ENDPOINTS = "3", "127.0.0.1:" .. port
  shell = Shell.start(temporary.directory(), env, port)
  local printed
  for _, step in ipairs(chapter) do
    local text = step.text:gsub(SHOWN, "127.0.0.1:" .. port)
    printed = take(chapter, shell, step, text, printed)
  end
end

describe("step by step:", function()
  after_each(temporary.remove_all)

  for _, chapter in ipairs(chapters()) do
    it(chapter.name, function() walk(chapter) end)
  end
end)
