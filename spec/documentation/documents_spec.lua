-- Tests that the code in README and in the documents runs, that their commands of make are targets,
-- and that their links lead to files and headings that exist.
-- Needs: one plain member, no sanitizer.

describe("the documents' Lua", function()
  for _, block in ipairs(documents.blocks "lua") do
    it(block.place .. " runs", function()
      if block.text:find '"cqueues"' and not pcall(require, "cqueues") then
        return pending "cqueues is not installed for this Lua"
      end
      local out, code, err = documents.run_lua(block, suite.endpoints())
      assert.same({ 0, "" }, { code, err }, out)
      assert.is_nil(out:find "not done")
    end)
  end

  it("is there", function()
    local first, second = (table.unpack or unpack)(documents.blocks "lua")
    assert.matches("^README.md:", first.place)
    assert.is_true(#documents.blocks "lua nginx" >= 1)
    assert.is_truthy((first.text .. second.text):find(documents.ETCD, 1, true))
  end)
end)

-- Returns a list of the commands in |text|, in the form in which other files must contain them. The
-- form has no comments. Of make it has all words before a variable such as PREFIX=DIR, whose value
-- the reader fills in. Of other programs it has the first two words, because scripts call them with
-- other options.
local function commands(text)
  local list = {}
  for line in text:gmatch "[^\n]+" do
    local words = line:gsub("%s+#.*", ""):gsub(" %u+=DIR.*", "")
    list[#list + 1] = not words:find "^make" and words:match "^%S+ %S+" or words
  end
  return list
end

-- Returns the text that runs if |file| is run: all of it, or in a document the blocks that are run.
local function run_by(file)
  local text = assert(read_file(file))
  if not file:find "%.md$" then return text end
  local texts = {}
  for _, block in ipairs(documents.blocks_of(file, text)) do
    if block.kind == "sh" then texts[#texts + 1] = block.text end
  end
  return table.concat(texts)
end

describe("each block of the documents", function()
  it("runs, or says why not", function()
    for _, block in ipairs(documents.blocks()) do
      assert.is_truthy(block.kind, ("%s: what is done with a block of `%s`? See %s"):format(
        block.place, tostring(block.argument), "spec/support/harness/documents.lua"))
    end
  end)

  it("that is run elsewhere stands there", function()
    local elsewhere = documents.blocks "run elsewhere"
    assert.is_true(#elsewhere > 0)
    for _, block in ipairs(elsewhere) do
      local texts = {}
      for file in block.argument:gmatch "[^%s,]+" do texts[#texts + 1] = run_by(file) end
      for _, command in ipairs(commands(block.text)) do
        assert.is_truthy(table.concat(texts, "\n"):find(command, 1, true),
          block.place .. ": " .. command)
      end
    end
  end)

  it("is found with its kind, its chapter and its text", function()
    local list = documents.blocks_of("x.md", table.concat({
      "# Title", "```sh", "ls", "```", "## One", "```lua job.lua", "return 1", "```",
      "```text not run: it is told", "```", "```", "plain", "```", "```text not run:", "```", "",
    }, "\n"))
    assert.same({
      { kind = "sh", chapter = "", text = "ls\n", place = "x.md:2" },
      { kind = "file", argument = "job.lua", chapter = "One", text = "return 1\n",
        place = "x.md:6" },
      { kind = "not run", argument = "it is told", chapter = "One", text = "", place = "x.md:9" },
      { argument = "", chapter = "One", text = "plain\n", place = "x.md:11" },
      { argument = "text not run:", chapter = "One", text = "", place = "x.md:14" },
    }, list)
  end)
end)

-- Returns the anchor of a heading.
local function slug(heading) return (heading:lower():gsub("[^%w%s_-]", ""):gsub("%s", "-")) end

local function has_heading(file, anchor)
  for heading in assert(read_file(file)):gmatch "\n#+ ([^\n]*)" do
    if slug(heading) == anchor then return true end
  end
  return false
end

it("the documents' commands of make are targets", function()
  local makefile = assert(read_file "Makefile") .. assert(read_file ".ci/dev.mk")
  for _, file in ipairs(documents.FILES) do
    for target in assert(read_file(file)):gmatch "`make (%l[%l-]*)[^`]*`" do
      assert.is_truthy(makefile:find("\n" .. target .. ":", 1, true), file .. ": " .. target)
    end
  end
end)

describe("the documents' links", function()
  for _, file in ipairs(documents.FILES) do
    it("in " .. file .. " lead to what is there", function()
      for target in assert(read_file(file)):gmatch "%]%(([^)]+)%)" do
        if not target:find "^https?:" then
          local path, anchor = target:match "^([^#]*)#?(.*)$"
          path = path == "" and file or (file:match "^.*/" or "") .. path
          assert(uv.fs_stat(path))
          assert.is_true(anchor == "" or has_heading(path, anchor), target)
        end
      end
    end)
  end

  it("lead from README to every document", function()
    local readme = assert(read_file "README.md")
    for _, file in ipairs(documents.FILES) do
      assert.is_truthy(file == "README.md" or readme:find(("](%s)"):format(file), 1, true), file)
    end
  end)
end)
