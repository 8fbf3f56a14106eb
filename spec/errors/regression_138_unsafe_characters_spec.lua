-- Messages that the core made had invalid UTF-8 and characters that set the direction of writing,
-- and tostring of a client had control characters. etcdlock doctor exited with 0 if its output was
-- lost.

local clients = require "spec.support.harness.clients"
local command = require "spec.support.programs.command"
local etcdlock = require "etcdlock"
local proc = require "spec.support.programs.proc"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = suite.endpoints(), prefix = prefix }

after_each(function()
  clients.close_all()
  etcd:del_all(prefix)
end)

-- Names, and how messages show them.
local NAMES = {
  { "a\255b", "a\\xffb" },
  { "a\226\128\174b", "a\\xe2\\x80\\xaeb" }, -- U+202E
  { "a\216\156b", "a\\xd8\\x9cb" }, -- U+061C
  { "a\194\155b", "a\\xc2\\x9bb" }, -- U+009B
  { "a\237\160\128b", "a\\xed\\xa0\\x80b" }, -- a surrogate
  { "a\240\157\132\158b\195\164", "a\240\157\132\158b\195\164" }, -- U+1D11E, U+00E4
}

for _, name in ipairs(NAMES) do
  it("regression 138: a message of the core shows the name " .. name[2], function()
    etcd:put_entry(prefix .. name[1] .. "/77")
    local _, message = connect():lock(name[1], { timeout = 0.05 })
    assert.matches('lock "' .. prefix .. name[2] .. '" was not ', message, 1, true)
    etcd:revoke_all()
  end)
end

it("regression 138: tostring of a client has no control character", function()
  local client = assert(etcdlock.connect { endpoints = "unix:/tmp/\27[31m", env = false })
  assert.is_nil(tostring(client):find "\27")
  client:close()
end)

it("regression 138: etcdlock doctor exits with 1 if its output cannot be written", function()
  local words, env = command.words()
  local _, status = proc.run({ "sh", "-c",
    ("exec '%s' '%s' doctor --prefix '%s' >/dev/full"):format(words[1], words[2], prefix) },
    { env = env })
  assert.equal(1, status)
end)
