-- Tests that docstrings describe every public function with its parameters, units, results and
-- errors, that the reference is what `make doc` makes from the docstrings, and that the annotations
-- for LuaLS describe each public function.
-- Needs: one plain member, no sanitizer.

local docstrings = require "doc.generate.model"
local faults = require "doc.generate.faults"
local reference = require "doc.generate.reference"
local types = require "doc.generate.types"

-- The public classes, by their names in docstrings, with their modules and source files.
local CLASSES = {
  etcdlock = { module = "etcdlock", files = "init" },
  client = { module = "etcdlock.client", files = "client queue once" },
  lock = { module = "etcdlock.lock", files = "lock guarded" },
  pending = { module = "etcdlock.pending", files = "pending" },
  semaphore = { module = "etcdlock.semaphore", files = "semaphore" },
  election = { module = "etcdlock.election", files = "election" },
  observer = { module = "etcdlock.observer", files = "observer" },
  resty_lock = { module = "resty.etcdlock", files = "../resty/etcdlock" },
  ["etcdlock.testing"] = { module = "etcdlock.testing", files = "testing" },
}

local model = docstrings.read()

-- Returns a set of the names of the public functions of |class|, without its constructors, which
-- only other modules call. (In resty_lock, `new` is public, and `connect` belongs to the module.)
local function public(class)
  local names = {}
  for name, value in pairs(require(CLASSES[class].module)) do
    if type(value) == "function" and not name:find "^_" then names[name] = true end
  end
  local inner = class == "resty_lock" and "connect" or "new"
  names[inner], names.new_reentrant = nil, nil
  return names
end

local function described(class)
  local names = {}
  for _, item in ipairs(model) do
    if item.class == class and not item.is_table then names[item.name] = true end
  end
  return names
end

-- Returns the parameters of the function |name| of |class| as its code has them, without self, or
-- nil if another function creates it.
local function written(class, name)
  for file in CLASSES[class].files:gmatch "%S+" do
    local text = assert(read_file("lua/etcdlock/" .. file .. ".lua"))
    local dot, list = text:match("\nfunction %a+([.:])" .. name .. "%(([^)]*)%)")
    if dot then return (list:gsub("^self,? ?", "")) end
  end
end

local function parameters(item)
  local names = {}
  for i, param in ipairs(item.params) do names[i] = param.name end
  return table.concat(names, ", ")
end

local function item_of(class, name)
  for _, item in ipairs(model) do
    if item.class == class and item.name == name and not item.is_table then return item end
  end
end

describe("the docstrings", function()
  it("describe every public function, and no other function", function()
    for class in pairs(CLASSES) do assert.same(public(class), described(class), class) end
    assert.same({ connect = true }, described "resty.etcdlock")
  end)

  it("state parameters, units, results and errors", function()
    for _, item in ipairs(model) do
      assert.same({}, faults.of(model, item), item.class .. ":" .. item.name)
    end
  end)

  it("give the parameters the same names as the code", function()
    local compared = 0
    for class in pairs(CLASSES) do
      for name in pairs(described(class)) do
        local list = written(class, name)
        if list then
          assert.equal(list, parameters(item_of(class, name)), class .. ":" .. name)
          compared = compared + 1
        end
      end
    end
    assert.is_true(compared > 57, compared)
  end)

  it("name exactly the options that connect and the lock calls accept", function()
    local options = {}
    for _, item in ipairs(model) do
      if item.is_table then
        local names = {}
        for _, field in ipairs(item.params) do names[field.name] = true end
        options[item.name] = names
      end
    end
    local taken = {}
    for name in pairs(require("etcdlock.connect_options").OPTIONS) do taken[name] = true end
    assert.same(taken, options.connect_options)
    taken = {}
    for name in pairs(require("etcdlock.lock_options").OPTIONS) do taken[name] = true end
    assert.same(taken, options.lock_options)
  end)
end)

describe("a docstring", function()
  local good = {
    class = "lock", name = "x", is_method = true, text = "Does it.", fail = "never",
    params = { { name = "wait", type = "seconds", text = "" } },
    results = { { { type = "true", text = "" } } },
  }

  local function lacking(changes)
    local item = {}
    for field, value in pairs(good) do item[field] = value end
    for field, value in pairs(changes) do item[field] = value ~= "" and value or nil end
    item.text = item.text or ""
    return faults.of(model, item)
  end

  it("is rejected without a text, a unit, a type, a result, or its failure codes", function()
    assert.same({}, faults.of(model, good))
    assert.same({ "it isn't said what it does" }, lacking { text = "" })
    assert.same({ "wait is of the type number, which tells no unit or isn't known" },
      lacking { params = { { name = "wait", type = "number", text = "" } } })
    assert.same({ "wait has no type" }, lacking { params = { { name = "wait", text = "" } } })
    assert.same({ "it has no results" }, lacking { results = {} })
    assert.same({ "result 1 is of the type number, which tells no unit or isn't known" },
      lacking { results = { { { type = "number" } } } })
    assert.same({ "it isn't said how it fails" }, lacking { fail = "" })
    assert.same({ "it fails with lsot, which is no code and no function" },
      lacking { fail = "timeout, lsot, or a request error: if so" })
    assert.same({}, lacking { fail = "as client:lock, lost" })
  end)
end)

describe("the reference", function()
  it("is what `make doc` makes from the docstrings", function()
    local text = assert(read_file(reference.FILE))
    assert.is_true(text == reference.text(model, text), "run `make doc`")
  end)

  it("has every public function and option table exactly once", function()
    local text = assert(read_file(reference.FILE))
    local names = {}
    for list in text:gmatch "<!%-%- docstrings: ([^\n]*) %-%->" do
      for name in list:gmatch "%S+" do
        assert.is_nil(names[name], name)
        names[name] = true
      end
    end
    local missing = {}
    for _, item in ipairs(model) do
      local name = item.is_table and item.name
        or item.class .. (item.is_method and ":" or ".") .. item.name
      if not names[name] then missing[#missing + 1] = name end
    end
    assert.are.same({}, missing, "names for a line <!-- docstrings: … --> of doc/reference.md")
  end)
end)

describe("the annotations for LuaLS", function()
  it("are files that Lua can load", function()
    for _, file in ipairs(types.FILES) do
      assert((loadstring or load)(types.text(model, file), file.path))
    end
  end)

  it("have every public function with the parameters of its docstring", function()
    local seen = {}
    for _, file in ipairs(types.FILES) do
      local text = types.text(model, file)
      for owner, name, list in text:gmatch "\nfunction ([%w_]+)[.:]([%w_]+)%((.-)%)" do
        local class = owner == "M" and file.class or owner
        local item = assert(item_of(class, name), class .. ":" .. name)
        assert.equal(parameters(item), list, class .. ":" .. name)
        seen[class] = seen[class] or {}
        seen[class][name] = true
      end
    end
    for class in pairs(CLASSES) do assert.same(public(class), seen[class], class) end
  end)

  -- Returns the annotations of the function |call|, such as "client:lock".
  local function annotations_of(call)
    for _, file in ipairs(types.FILES) do
      local lines = {}
      for line in types.text(model, file):gmatch "[^\n]+" do
        if line:sub(1, #call + 10) == "function " .. call .. "(" then
          return table.concat(lines, "\n")
        elseif line:find "^function " then
          lines = {}
        end
        lines[#lines + 1] = line
      end
    end
    error(call)
  end

  -- Regression 324. A checker did not notice a lock that is dropped at once, nor a write that may
  -- have failed.
  it("say that results must be used, except of calls whose failure loses nothing", function()
    for _, call in ipairs {
      "client:lock", "client:with_lock", "client:once", "semaphore:lock", "election:campaign",
      "lock:put", "lock:check", "lock:expire", "resty_lock:lock",
      "resty_lock:expire", -- the lock has ended if it fails
    } do
      assert.matches("\n---@nodiscard$", annotations_of(call))
    end
    for _, call in ipairs {
      "lock:unlock", "lock:resign", "pending:cancel", "client:close", "resty_lock:unlock",
    } do
      assert.is_nil(annotations_of(call):find "nodiscard", call)
    end
  end)

  it("allow that a function that is called with the lock returns anything", function()
    for _, call in ipairs {
      "client:with_lock", "client:once", "semaphore:with_lock", "election:with_leadership",
    } do
      local text = annotations_of(call)
      assert.matches("\n---@param fn fun%(lock: etcdlock.Lock%): any%.%.%. ", text)
      assert.matches("\n---@overload [^\n]*, fn: fun%(lock: etcdlock.Lock%): any%.%.%.%)", text)
    end
  end)
end)
