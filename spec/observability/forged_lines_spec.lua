-- Tests messages and events that show text which an attacker may choose.

-- Regression 058. A program may take a lock's name, an owner or a value from an HTTP request.
-- Messages and events showed a newline in such a text unchanged, so the rest of the text became a
-- log line of its own.
local prefix = "058/" -- a short one: only the first 80 bytes of a name are shown
client_options { endpoints = suite.endpoint(), prefix = prefix, env = false }

-- Text that an HTTP request may contain: the end of a line and a line that looks like nginx's, a
-- carriage return, an escape sequence, a control character in UTF-8, Unicode's line end, and a byte
-- that is not UTF-8.
local FORGED = 'a"\n2026/01/01 [alert] forged\r\27[2J\t\127\194\133\226\128\168\255'
local SHOWN = [[a\"\x0a2026/01/01 [alert] forged\x0d\x1b[2J\x09\x7f\xc2\x85]]

-- Asserts that |text| is one line, without control characters, and shows FORGED.
local function assert_one_line(text)
  assert.is_nil(text:find "[%z\1-\31\127]", text)
  assert.is_nil(text:find("\194\133", 1, true), text)
  assert.matches(SHOWN, text, 1, true)
end

it("an event shows the name of a lock on one line", function()
  local lines = {}
  local client = connect { log = function(event) lines[#lines + 1] = tostring(event) end }
  local lock = assert(client:lock(FORGED))
  assert_fails("deadlock", client:lock(FORGED, { owner = FORGED }))
  assert.is_true(lock:unlock())
  assert.is_true(#lines >= 3)
  for _, line in ipairs(lines) do
    assert_one_line(line)
    assert.is_nil(line:find("\226\128\168", 1, true), line)
    assert.is_nil(line:find("\255", 1, true), line)
  end
end)

it("a message shows names, owners and values on one line", function()
  local client, other = connect(), connect()
  local lock = assert(client:lock(FORGED, { owner = FORGED }))
  assert_one_line(assert_fails("deadlock", client:lock(FORGED)))
  assert_one_line(assert_fails("locked", client:try_lock(FORGED)))
  assert_one_line(assert_fails("locked", other:try_lock(FORGED)))
  assert_one_line(assert_fails("timeout", lock:wait_lost(0)))
  assert_one_line(assert_fails("invalid", client:lock(FORGED .. "\0")))
  assert_one_line(assert_fails("not_held", client:break_lock(FORGED, 1)))
  assert.is_true(lock:unlock())
  assert_one_line(select(2, lock:unlock()))
  for _, options in ipairs { { endpoints = FORGED }, { loop = FORGED }, { cacert = FORGED } } do
    options.env = false
    local message = assert_fails("invalid", etcdlock.connect(options))
    assert.is_nil(message:find "[%z\1-\31\127]", message)
  end
end)

it("an error for a wrong option or argument shows it on one line", function()
  local odd = setmetatable({}, { __tostring = function() return FORGED end })
  for _, call in ipairs {
    function() client:lock("a", { [FORGED] = true }) end,
    function() client:lock("a", { timeout = FORGED }) end,
    function() client:multi_lock(FORGED) end,
    function() client:metrics { labels = { [FORGED] = "a" } } end,
    function() client:lock("a", { linger = odd }) end,
  } do
    local ok, message = pcall(call)
    assert.is_false(ok)
    assert.is_nil(message:find "[%z\1-\31\127]", message)
  end
end)

it("tostring of each object shows its name on one line", function()
  local election = assert(client:election(FORGED))
  local lock = assert(client:lock "a")
  for _, object in ipairs {
    election, assert(client:semaphore(FORGED, 1)), assert(client:lock(FORGED)), election:observe(),
  } do
    assert_one_line(tostring(object))
  end
  assert.is_true(lock:unlock())
end)

it("the error of a log is shown on one line", function()
  local _, err = variables.outputs(suite.variables(), [[
    local prefix, text = ...
    local client = assert(require("etcdlock").connect { prefix = prefix,
      log = function() error(text) end })
    assert(client:lock "a"):unlock()
    client:close()
  ]], prefix, FORGED)
  assert.equal(1, select(2, err:gsub("\n", "")))
  assert.matches([[a"\x0a2026/01/01 [alert] forged\x0d\x1b]], err, 1, true)
end)
