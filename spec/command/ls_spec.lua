-- etcdlock ls and break: who holds and who waits, and to take a lock from its holder.

local cjson = require "cjson"
local clients = require "spec.support.harness.clients"
local command = require "spec.support.programs.command"
local core = require "etcdlock.core"
local proc = require "spec.support.programs.proc"
local session = require "spec.support.programs.session"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix }
local client, other
local HOST, PID = core.host(), core.pid()

before_each(function()
  client, other = connect(), connect { elsewhere = true }
end)

after_each(function()
  proc.destroy_children()
  clients.close_all()
end)

local function ls(...)
  return command.run { "--prefix", prefix, "ls", ... }
end

-- The words of each line of a table, without when it was.
local function rows_of(out)
  local rows = {}
  for line in out:gmatch "([^\n]*)\n" do
    rows[#rows + 1] = (line:gsub("%d+%-%d%d%-%d%d %d%d:%d%d:%d%d +%d+s", "WHEN"):gsub(" +", " "))
  end
  return rows
end

describe("etcdlock ls", function()
  it("says that there is nobody", function()
    assert.equal("Nobody holds a lock, or waits for one.\n", (ls()))
    assert.equal("[]\n", (ls "--json"))
  end)

  it("shows who holds and who waits, since when and from where", function()
    local held = clients.keep(assert(client:lock("stock/1", { value = "order 4711" })))
    local reader = clients.keep(assert(client:read_lock("b", { owner = "me" })))
    local waiting = clients.ask(other, "write", "b")
    etcd:await_keys(prefix .. "b/", 2)
    local theirs = other:queue "b"[2].token
    local out, status, err = ls()
    assert.same({ 0, "" }, { status, err })
    local function row(...) return (" "):rep(select("#", ...)):gsub(".", "%%s ") :format(...) end
    assert.same({
      "NAME MODE STATE TOKEN HOST PID ASKED FOR SAYS",
      row("b", "read", "holds", reader:token(), HOST, PID, "WHEN", "me:"):sub(1, -2),
      row("", "write", "waits", theirs, HOST, PID, "WHEN", "-"):sub(1, -2),
      row("stock/1", "lock", "holds", held:token(), HOST, PID, "WHEN", "order", "4711"):sub(1, -2),
    }, rows_of(out))
    assert.equal(2, #rows_of(ls "stock/"))
    waiting:cancel()
  end)

  it("has columns", function()
    clients.keep(assert(client:lock "größe"))
    clients.keep(assert(client:lock "a"))
    local head, first, second = ls():match "^([^\n]*)\n([^\n]*)\n([^\n]*)\n"
    local at = head:find("MODE", 1, true)
    assert.equal(at, (first:find("lock", 1, true)))
    assert.equal(at + 2, (second:find("lock", 1, true))) -- two of its letters are two bytes
  end)

  it("knows nothing of others' clients but that they are there", function()
    local lease = etcd:ctl("lease", "grant", "60"):match "lease 0*(%x+) granted"
    etcd:ctl("put", "--lease=" .. lease, prefix .. "theirs/" .. lease, "10.0.0.1:80")
    local _, token = etcd:get(prefix .. "theirs/" .. lease)
    assert.equal(("theirs lock holds %d - - - - 10.0.0.1:80"):format(token), rows_of((ls()))[2])
    etcd:revoke(lease)
  end)

  it("tells programs the same", function()
    local held = clients.keep(assert(client:multi_lock({ "b", "a" }, { value = "v", owner = 7 })))
    local out, status = ls "--json"
    assert.equal(0, status)
    assert.is_nil(out:find "\n.")
    assert.same(client:queues(), cjson.decode(out))
    assert.equal(held:token(), cjson.decode(out)[2].places[1].token)
  end)

  it("shows no terminal what could steer it", function()
    local value = "\27[31mred\r\n\7\127 \194\155 \226\128\174 größe 锁 \255\192\175"
    clients.keep(assert(client:lock("a\27]0;x\7", { value = value })))
    local out = ls()
    assert.matches("a\\x1b]0;x\\x07", out, 1, true)
    assert.is_truthy(out:find("\\x1b[31mred\\x0d\\x0a\\x07\\x7f \\xc2\\x9b \\xe2\\x80\\xae größe 锁 "
      .. "\\xff\\xc0\\xaf\n", 1, true), out)
    local json = ls "--json"
    assert.is_nil(json:gsub("\n$", ""):find "%c")
    assert.is_nil(json:find "\194\155")
    assert.equal("\27[31mred\r\n\7\127 \194\155 \226\128\174 größe 锁 " .. ("\239\191\189"):rep(3),
      cjson.decode(json)[1].places[1].value)
    local _, _, err = command.run { "--prefix", prefix, "break", "\27[2J", "1" }
    assert.matches('^etcdlock: lock "\\x?%d%l?%d?%[2J" is not held with token 1\n$', err)
  end)

  it("looks again and again", function()
    local watch = command.start { "--prefix", prefix, "ls", "--json", "--watch", "--interval=0.1" }
    watch:expect "^%[%]$"
    local lock = assert(client:lock "a")
    watch:expect '^%[{"name":"a"'
    assert(lock:unlock())
    watch:expect "^%[%]$"
    watch:kill "sigint"
    assert.equal(130, (watch:wait()))
    assert.equal("", watch:errors())
  end)

  it("draws on a terminal's screen, until Ctrl-C", function()
    local words, env = command.words()
    local line = ("exec %s %s --prefix %s ls --watch --interval 0.1"):format(words[1], words[2],
      prefix)
    local screen = proc.talk(session.at_terminal(line), env)
    screen:expect "^\27%[HNobody holds a lock, or waits for one%.\27%[K\r$"
    clients.keep(assert(client:lock "a"))
    screen:expect "^\27%[J\27%[HNAME .*\27%[K\r$"
    screen:expect "^a .*\27%[K\r$"
    screen.stdin:write "\3"
    assert.equal(130, (screen:wait()))
  end)

  it("tells that etcd is away", function()
    local out, status, err = command.run { "--endpoints", "127.0.0.1:1", "ls" }
    assert.same({ "", 69 }, { out, status })
    assert.matches("^etcdlock: .*127%.0%.0%.1:1", err)
  end)
end)

describe("etcdlock break", function()
  local function break_lock(...)
    return command.run { "--prefix", prefix, "break", ... }
  end

  it("takes a lock from the holder with that token, and from no other", function()
    local lock = assert(client:lock "a")
    local out, status, err = break_lock("a", lock:token() - 1)
    assert.same({ "", 1 }, { out, status })
    assert.matches('^etcdlock: lock "a" is not held with token %d+\n$', err)
    assert.is_true(lock:check())
    assert.equal(0, (select(2, break_lock("a", lock:token()))))
    assert.equal("deleted", lock:wait_lost(5))
  end)

  it("wants a token", function()
    for _, token in ipairs { "x", "0", "1.5", "" } do
      local _, status, err = break_lock("a", token)
      assert.equal(64, status)
      assert.matches("^etcdlock: TOKEN: '" .. token .. "', wanted a whole number", err)
    end
  end)
end)
