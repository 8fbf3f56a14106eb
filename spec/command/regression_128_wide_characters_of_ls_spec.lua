-- etcdlock ls counted each character as one column. Chinese, Japanese and Korean characters and
-- emoji take two columns, and combining characters take none. So columns were not aligned, and
-- --watch printed lines that were longer than the terminal, which then scrolled at each redraw. The
-- line for an empty list was never cut. On a dumb terminal --watch printed the control sequences
-- that redraw a screen.

local clients = require "spec.support.harness.clients"
local command = require "spec.support.programs.command"
local proc = require "spec.support.programs.proc"
local session = require "spec.support.programs.session"
local suite = require "spec.support.harness.suite"

local prefix, etcd = suite.prefix(), suite.etcd()
local connect = clients.connector { endpoints = etcd:endpoints(), prefix = prefix }
local WIDE, EMOJI, COMBINED = "漢字", "🔒", "e\204\129" -- 4, 2 and 1 columns

after_each(function()
  proc.destroy_children()
  clients.close_all()
end)

local function watch_at_terminal(columns, term)
  local words, env = command.words()
  env.TERM, env.NO_COLOR = term, "1"
  return proc.talk(session.at_terminal(("stty cols %d rows 24; exec %s %s --prefix %s ls --watch "
    .. "--interval 0.1"):format(columns, words[1], words[2], prefix)), env)
end

-- Returns |text| with each wide or combining character replaced by one letter for each column that
-- it takes.
local function as_letters(text)
  return (text:gsub("漢", "xx"):gsub("字", "xx"):gsub(EMOJI, "xx"):gsub(COMBINED, "x"):gsub("…", "x"))
end

describe("regression 128: etcdlock ls", function()
  it("aligns columns after characters of two columns and of none", function()
    for _, name in ipairs { "a", WIDE, EMOJI, COMBINED } do
      clients.keep(assert(connect():lock(name, { value = name })))
    end
    local head, rest = command.run({ "--prefix", prefix, "ls" }):match "^([^\n]+\n)(.*)$"
    local count = 0
    for line in rest:gmatch "[^\n]+" do
      assert.equal(head:find "MODE", (as_letters(line):find "lock"))
      count = count + 1
    end
    assert.equal(4, count)
  end)

  it("--watch cuts lines with wide characters to the terminal's width", function()
    clients.keep(assert(connect():lock(WIDE:rep(20), { value = WIDE:rep(40) })))
    for _, columns in ipairs { 300, 100, 41, 40, 10 } do
      local screen = watch_at_terminal(columns, "xterm")
      screen:expect "^\27%[H"
      for _ = 1, 3 do
        local line = as_letters(screen:expect "^(.*)\27%[K\r$"):gsub("\27%[[HJ]", "")
        assert.is_nil(line:find "[\128-\255]")
        assert.is_true(#line < columns, line)
      end
      screen.stdin:write "\3"
      assert.equal(130, (screen:wait()))
    end
  end)

  it("--watch cuts the line for an empty list, too", function()
    local screen = watch_at_terminal(10, "xterm")
    screen:expect "^No lock …\27%[K\r$"
    screen.stdin:write "\3"
    assert.equal(130, (screen:wait()))
  end)

  it("--watch prints list after list on a dumb terminal", function()
    clients.keep(assert(connect():lock "a"))
    local screen = watch_at_terminal(120, "dumb")
    for _ = 1, 2 do screen:expect "^a  +lock  +holds .* %-\r$" end
    assert.is_nil(screen.out.text:find "\27")
    screen.stdin:write "\3"
    assert.equal(130, (screen:wait()))
  end)
end)
