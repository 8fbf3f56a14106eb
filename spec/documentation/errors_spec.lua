-- Tests that doc/errors.md lists every code, and only messages that etcdlock has.
-- Needs: one plain member, no sanitizer.

-- Returns the sorted keys of |set|.
local function sorted(set)
  local list = {}
  for key in pairs(set) do list[#list + 1] = key end
  table.sort(list)
  return list
end

-- Returns the codes that the core and the Lua library can return.
local function defined_codes()
  local names = assert(read_file "src/base/error.c"):match "names%[[^%]]*%] = {(.-)};"
  local codes = { premature = true, unread = true } -- the codes that the core does not return
  for code in assert(names):gmatch '%] = "([%l_]+)"' do codes[code] = true end
  codes.ok = nil
  return sorted(codes)
end

-- Calls visit(path) for each file below |directory| whose name fits |pattern|.
local function each_file(directory, pattern, visit)
  for name, kind in uv.fs_scandir_next, assert(uv.fs_scandir(directory)) do
    local path = directory .. "/" .. name
    if kind == "directory" then
      each_file(path, pattern, visit)
    elseif name:find(pattern) then
      visit(path)
    end
  end
end

-- Returns all source files as one text, in which the parts of each string that is split are joined.
local function read_sources()
  local texts = {}
  local function add(path)
    texts[#texts + 1] = assert(read_file(path)):gsub('"%s*%.%.%s*"', ""):gsub('"\n%s*"', "")
      :gsub('\\"', '"')
  end
  each_file("src", "%.[ch]$", add)
  each_file("lua", "%.lua$", add)
  return table.concat(texts, "\n")
end

-- Returns the rows of the table of doc/errors.md with the line |head|: lists of cells.
local function rows(head)
  local list = {}
  local _, last = assert(read_file "doc/errors.md"):find("\n" .. head .. "\n", 1, true)
  for line in read_file("doc/errors.md"):sub(assert(last, head) + 1):gmatch "([^\n]*)\n" do
    if not line:find "^|" then break end
    local cells = {}
    for cell in line:sub(2):gmatch "%s*(.-)%s*|" do cells[#cells + 1] = cell end
    list[#list + 1] = cells
  end
  return list
end

local HEAD = "| code | message | cause and remedy |"
local HEAD_WITHOUT_CODE = "| message | cause and remedy |"

describe("doc/errors.md", function()
  it("has every code that a call can return, and no other code", function()
    local codes = {}
    for _, row in ipairs(rows(HEAD)) do
      local code = row[1]:match "^`(.*)`$"
      if code then
        assert.is_nil(codes[code], code)
        codes[code] = true
      end
    end
    assert.same(defined_codes(), sorted(codes))
  end)

  it("has the codes that the docstrings describe", function()
    local codes = {}
    local docstring = assert(read_file "lua/etcdlock/init.lua"):match "@table code\n(.-)\n\n"
    for code in docstring:gmatch "@field ([%l_]+)" do codes[code] = true end
    assert.same(defined_codes(), sorted(codes))
  end)

  it("has only messages of etcdlock, except for those of etcd, Lua and the loader", function()
    local sources, count = read_sources(), 0
    local function assert_known(cell)
      if cell:find "^Lua: " or cell:find "^the loader: " then return end
      for message in cell:gmatch "`([^`]+)`" do
        for words in (message .. "…"):gmatch "(.-)…" do
          local part = words:match "^[%s:;,]*(.-)[%s:;,]*$"
          if part ~= "" and not part:find "^etcdserver:" then
            count = count + 1
            assert.is_truthy(sources:find(part, 1, true), message)
          end
        end
      end
    end
    for _, row in ipairs(rows(HEAD)) do assert_known(row[2]) end
    for _, row in ipairs(rows(HEAD_WITHOUT_CODE)) do assert_known(row[1]) end
    assert.is_true(count > 90, count)
  end)
end)
