-- Messages contained the system's texts for errors in the language and encoding of the program's
-- locale. Operators searched for the English texts in vain, and the client did not recognize a
-- refused connection.

local clients = require "spec.support.harness.clients"
local locales = require "spec.support.programs.locales"
local proc = require "spec.support.programs.proc"
local temporary = require "spec.support.harness.temporary"

after_each(clients.close_all)
teardown(temporary.remove_all)

local german, missing = locales.compile("de_DE", "UTF-8")

-- Runs |source| in a program with a German locale and returns its output. Returns nil if the C
-- library has no German texts.
local function run_in_german(source)
  local out, code, err = proc.run_lua("spec/support/programs/child.lua", { [[
    local etcdlock = require "etcdlock"
    assert(os.setlocale "de_DE")
    if select(2, io.open "/no/such"):find "No such file" then return io.write "english" end
  ]] .. source }, { env = { LOCPATH = german, LANGUAGE = false } })
  assert.equal(0, code, err)
  return out ~= "english" and out or nil
end

local function test(name, source, expected)
  it("regression 075: " .. name, function()
    if missing then return pending(missing) end
    local out = run_in_german(source)
    if not out then return pending "the C library has no German words (Debian: libc-l10n)" end
    assert.matches(expected, out, 1, true)
  end)
end

test("the message about a missing file is the same in every locale", [[
  io.write((select(2, etcdlock.connect { endpoints = "https://127.0.0.1:1", cacert = "/no/such",
    env = false })))
]], 'cacert "/no/such" cannot be read: No such file or directory')

for _, driver in ipairs { "the caller", "the I/O thread" } do
  test("a refused connection is called so in every locale, if driven by " .. driver, ([[
    local client = assert(etcdlock.connect { endpoints = "127.0.0.1:1", env = false })
    if %q == "the caller" then
      io.write((select(2, client:lock("a", { timeout = 1 }))))
    else
      local pending = assert(client:lock_async("a", { timeout = 1 }))
      local ok, message
      repeat ok, message = pending:step() until ok ~= false
      io.write(message)
    end
    client:close()
  ]]):format(driver), "etcd 127.0.0.1:1: Connection refused")
end
