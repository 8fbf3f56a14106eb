-- Tests that messages show no secret and no control character.

-- Regression 138. Messages that the core made had invalid UTF-8 and characters that set the
-- direction of writing, and tostring of a client had control characters. etcdlock doctor exited
-- with 0 if its output was lost.
after_each(function() etcd:del_all(prefix) end)

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
  it("a message of the core shows the name " .. name[2], function()
    etcd:put_entry(prefix .. name[1] .. "/77")
    local _, message = connect():lock(name[1], { timeout = 0.05 })
    assert.matches('lock "' .. prefix .. name[2] .. '" was not ', message, 1, true)
    etcd:revoke_all()
  end)
end

it("tostring of a client has no control character", function()
  local client = assert(etcdlock.connect { endpoints = "unix:/tmp/\27[31m", env = false })
  assert.is_nil(tostring(client):find "\27")
  client:close()
end)

-- Regression 200. etcdlock --version, --help and completion exited with 0 if their output was lost,
-- and ls if it was longer than a buffer.
for _, arguments in ipairs {
  "doctor --prefix " .. prefix, "ls " .. prefix, "--version", "--help", "ls --help",
  "completion bash",
} do
  it(("etcdlock %s exits with 1 if its output cannot be written"):format(arguments), function()
    local words, env = command.words()
    clients.keep(assert(connect():lock("a", { value = ("x"):rep(4096) })))
    local _, status = proc.run({ "sh", "-c", ("exec '%s' '%s' %s >/dev/full")
      :format(words[1], words[2], arguments) }, { env = env })
    assert.equal(1, status)
  end)
end

-- Regression 054. Messages of connect showed secrets that were given in the wrong place: the
-- password of user = "name:password", that of an endpoint "http://name:password@host:port", and the
-- beginning of a private key whose text was given where a file name is expected.
local SECRET = "hunter2"
local KEY = "-----BEGIN PRIVATE KEY-----\n" .. SECRET .. "\n-----END PRIVATE KEY-----\n"
-- The beginning of KEY in base64, with "hunter2" for the rest.
local ENCODED = "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCm" .. SECRET

-- Asserts that connect refuses |opts| with a message that starts with |field|, contains |fix|, and
-- shows no part of the secret.
local function assert_refused(opts, field, fix)
  opts.env = false
  local message = assert_fails("invalid", etcdlock.connect(opts))
  assert.equal("etcdlock.connect: " .. field, message:sub(1, #field + 18))
  assert.matches("(not shown)", message, 1, true)
  assert.matches(fix, message, 1, true)
  assert.is_nil(message:find("hun", 1, true), message)
  assert.is_nil(message:find("er2", 1, true), message)
end

describe("the message of connect does not show", function()
  it("the password in the option user", function()
    assert_refused({ user = "bob:" .. SECRET }, "user",
      "wanted a name alone; give the password as the option password")
    assert_refused({ user = "bob:" .. SECRET .. "\0", password = "p" }, "user", "without NUL")
  end)

  for _, endpoint in ipairs {
    "http://bob:hunter2@host:2379", "bob:hunter2@host:2379", "https://bob:hunter2@host:2379/",
    "http://bob:80/hunter2@host:2379", "ftp://bob:hunter2@host:2379", "bob:hunter2@host",
    "bob:hunter2@host:2379\0", "http://bob:hun,ter2@host:2379",
    "127.0.0.1:2379,bob:hunter2@host:2379",
  } do
    it("the password in the endpoint " .. endpoint:gsub("%z", "\\0"), function()
      for _, endpoints in ipairs { endpoint, { "unix:/tmp/socket", endpoint } } do
        if endpoint:find "," == nil or type(endpoints) == "string" then
          assert_refused({ endpoints = endpoints }, "endpoints",
            "give the options user and password")
        end
      end
    end)
  end

  for _, option in ipairs { "key", "cert", "cacert" } do
    it("a private key in the option " .. option, function()
      local fix = "is a text, but must be a file name; a text goes into " .. option .. "_pem"
      for _, text in ipairs { KEY, KEY:gsub("\n", "\r"), KEY:gsub("\n", " "), ENCODED } do
        assert_refused({ [option] = text }, option, fix)
        -- connect refuses the option even if no endpoint needs TLS.
        assert_refused({ [option] = text, endpoints = "http://127.0.0.1:2379" }, option, fix)
        assert_refused({ [option] = text, [option .. "_pem"] = text }, option, fix)
      end
      assert_refused({ [option] = KEY .. "\0" }, option, "without NUL")
      assert_refused({ [option .. "_pem"] = KEY .. "\0" }, option .. "_pem", "without NUL")
    end)
  end
end)

it('a unix socket may have "@" in its path', function()
  local client = assert(etcdlock.connect { endpoints = "unix:/tmp/a@b", env = false })
  assert.matches("unix:/tmp/a@b", tostring(client), 1, true)
  client:close()
end)

describe("etcdlock doctor does not show", function()
  -- Runs the command; asserts that its output names |field|, and does not contain the secret.
  local function assert_hidden(variables, field)
    local env = suite.variables()
    for name, value in pairs(variables) do env[name] = value end
    local out, code, err = proc.run_lua("bin/etcdlock", { "doctor" }, { env = env })
    assert.is_true(code ~= 0)
    assert.matches(field, out .. err, 1, true)
    assert.is_nil((out .. err):find("hun", 1, true), out .. err)
  end

  it("the password in ETCDCTL_ENDPOINTS", function()
    assert_hidden({ ETCDCTL_ENDPOINTS = "http://bob:hunter2@127.0.0.1:1" }, "ETCDCTL_ENDPOINTS")
  end)

  it("the private key in ETCDCTL_KEY", function()
    assert_hidden({ ETCDCTL_KEY = KEY }, "ETCDCTL_KEY")
  end)
end)
