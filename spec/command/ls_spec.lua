-- Tests etcdlock ls, which lists holders and waiters, and etcdlock break, which takes a lock from
-- its holder. etcdlock ls --runs lists the last runs of jobs.

local HOST, PID = core.host(), core.pid()

-- Lists the locks of this file; |below|: those whose names begin with it.
local function ls(below, ...)
  return command.run { "ls", prefix .. (below or ""), ... }
end

-- The line that is printed if no lock of this file is in use.
local NO_LOCK = ('No lock whose name begins with "%s" is held or waited for.'):format(prefix)

-- Returns the lines of the table |out|, with single blanks, and WHEN instead of times.
local function rows_of(out)
  local rows = {}
  for line in out:gmatch "([^\n]*)\n" do
    rows[#rows + 1] = (line:gsub("%d+%-%d%d%-%d%d %d%d:%d%d:%d%d +%d+s", "WHEN"):gsub(" +", " "))
  end
  return rows
end

-- Starts `etcdlock ls --watch` at a terminal with |columns| and |rows|, with the environment
-- variables |extra| and the arguments |arguments| (default: for the locks of this file).
local function watch_at_terminal(columns, rows, extra, arguments)
  local words, env = command.words()
  env.TERM = "xterm"
  for name, value in pairs(extra or {}) do env[name] = value end
  return proc.talk(session.at_terminal(("stty cols %d rows %d; exec %s %s ls %s --watch "
    .. "--interval 0.1"):format(columns, rows, words[1], words[2], arguments or prefix)), env)
end

local function press_ctrl_c(screen)
  screen.stdin:write "\3"
  assert.equal(130, (screen:wait()))
end

describe("etcdlock ls", function()
  it("prints that there is no lock, or [] with --json, if there is none", function()
    assert.equal(NO_LOCK .. "\n", (ls()))
    assert.equal("[]\n", (ls("", "--json")))
    local etcd = Etcd.start()
    local out = command.run { "ls", "--endpoints", etcd:endpoints() }
    etcd:stop()
    assert.equal("No lock is held or waited for.\n", out)
  end)

  it("lists holders and waiters with mode, token, host, pid, time and value", function()
    local held = clients.keep(assert(client:lock("stock/1", { value = "order 4711" })))
    local reader = clients.keep(assert(client:read_lock("b", { owner = "me" })))
    local waiting = clients.ask(other, "write", "b")
    etcd:await_keys(prefix .. "b/", 2)
    local theirs = other:queue "b"[2].token
    local out, status, err = ls()
    assert.same({ 0, "" }, { status, err })
    local function row(...) return table.concat({ ... }, " ") end
    assert.same({
      "NAME MODE STATE TOKEN HOST PID QUEUED AGE VALUE",
      row(prefix .. "b", "read", "holds", reader:token(), HOST, PID, "WHEN", "me:"),
      row("", "write", "waits", theirs, HOST, PID, "WHEN", "-"),
      row(prefix .. "stock/1", "lock", "holds", held:token(), HOST, PID, "WHEN", "order 4711"),
    }, rows_of(out))
    assert.equal(2, #rows_of(ls "stock/"))
    waiting:cancel()
  end)

  it("lists the key of another client program with token and value, and - for the rest", function()
    local lease = etcd:grant(60)
    etcd:put(prefix .. "theirs/" .. lease, "10.0.0.1:80", lease)
    local _, token = etcd:get(prefix .. "theirs/" .. lease)
    assert.equal(("%stheirs leader holds %d - - - - 10.0.0.1:80"):format(prefix, token),
      rows_of((ls()))[2])
    etcd:revoke(lease)
  end)

  -- Regression 175. An election had the mode "multi", the name " " looked like one more row of the
  -- lock above it, and the n of a semaphore was not shown.
  it("shows elections as such, the n of a semaphore, and quotes a blank name", function()
    clients.keep(assert(client:election "e":campaign "me"))
    clients.keep(assert(client:semaphore("s", 3):lock()))
    for _, name in ipairs { " ", "a " } do clients.keep(assert(client:lock(name))) end
    local rows = rows_of((ls()))
    for i, start in ipairs {
      ('"%s " lock '):format(prefix), ('"%sa " lock '):format(prefix), prefix .. "e leader ",
      prefix .. "s permit/3 ",
    } do
      assert.equal(start, rows[i + 1]:sub(1, #start))
    end
  end)

  it("prints the result of client:queues as one line of JSON with --json", function()
    local held = clients.keep(assert(client:multi_lock({ "b", "a" }, { value = "v", owner = 7 })))
    local out, status = ls("", "--json")
    assert.equal(0, status)
    assert.is_nil(out:find "\n.")
    assert.same(connect { prefix = NONE }:queues(prefix), json.decode(out))
    assert.equal(held:token(), json.decode(out)[2].entries[1].token)
  end)

  it("prints the names alone with --names, one on each line", function()
    clients.keep(assert(client:multi_lock { "b", "a\n" }))
    clients.keep(assert(client:semaphore("s", 3):lock()))
    local out, status = ls("", "--names")
    assert.same({ ("%sa\\x0a\n%sb\n%ss\n"):format(prefix, prefix, prefix), 0 }, { out, status })
    assert.equal("", (ls("none", "--names")))
  end)

  it("escapes control characters and invalid UTF-8 in names and values", function()
    local value = "\27[31mred\r\n\7\127 \194\155 \226\128\174 größe 锁 \255\192\175"
    clients.keep(assert(client:lock("a\27]0;x\7", { value = value })))
    local out = ls()
    assert.matches("a\\x1b]0;x\\x07", out, 1, true)
    assert.is_truthy(out:find("\\x1b[31mred\\x0d\\x0a\\x07\\x7f \\xc2\\x9b \\xe2\\x80\\xae größe 锁 "
      .. "\\xff\\xc0\\xaf\n", 1, true), out)
    local list = ls("", "--json")
    assert.is_nil(list:gsub("\n$", ""):find "%c")
    assert.is_nil(list:find "\194\155")
    assert.equal("\27[31mred\r\n\7\127 \194\155 \226\128\174 größe 锁 " .. ("\239\191\189"):rep(3),
      json.decode(list)[1].entries[1].value)
    local _, _, err = command.run { "break", "\27[2J", "1" }
    assert.matches('^etcdlock: lock "\\x?%d%l?%d?%[2J" is not held with token 1\n$', err)
  end)

  it("prints the list repeatedly with --watch, until SIGINT", function()
    local watch = command.start { "ls", prefix, "--json", "--watch", "--interval=0.1" }
    watch:expect "^%[%]$"
    local lock = assert(client:lock "a")
    watch:expect('^%[{"name":"' .. prefix .. 'a"')
    assert(lock:unlock())
    watch:expect "^%[%]$"
    watch:kill "sigint"
    assert.equal(130, (watch:wait()))
    assert.equal("", watch:errors())
  end)

  local CLOCK = "%d%d:%d%d:%d%d  "

  it("redraws a terminal with --watch, with a clock and counts, until Ctrl-C", function()
    local screen = watch_at_terminal(120, 24)
    screen:expect("^\27%[H" .. CLOCK .. "0 locks, 0 waiters\27%[K\r$")
    screen:expect("^" .. NO_LOCK:gsub("%.$", "%%.") .. "\27%[K\r$")
    clients.keep(assert(client:lock "a"))
    local waiting = clients.ask(other, "write", "a")
    screen:expect("^\27%[J\27%[H" .. CLOCK .. "1 lock, 1 waiter\27%[K\r$")
    screen:expect "^NAME .*\27%[K\r$"
    screen:expect("^" .. prefix .. "a  +lock  +\27%[32mholds\27%[0m .*\27%[K\r$")
    screen:expect "^  +write  +\27%[33mwaits\27%[0m .*\27%[K\r$"
    press_ctrl_c(screen)
    waiting:cancel()
  end)

  it("uses no colour at a terminal if NO_COLOR is set", function()
    clients.keep(assert(client:lock "a"))
    local screen = watch_at_terminal(120, 24, { NO_COLOR = "1" })
    screen:expect("^" .. prefix .. "a  +lock  +holds .*\27%[K\r$")
    press_ctrl_c(screen)
  end)

  it("cuts values, names and lines to the terminal's width, and counts other lines", function()
    local long = "größe/" .. ("n"):rep(60)
    clients.keep(assert(client:lock("b", { value = ("v"):rep(200) })))
    clients.keep(assert(client:lock(long)))
    local screen = watch_at_terminal(160, 24)
    screen:expect("^" .. prefix .. "b  .*  vvv+…\27%[K\r$")
    screen:expect("^" .. prefix .. long .. "  ")
    press_ctrl_c(screen)
    screen = watch_at_terminal(100, 24)
    screen:expect("^" .. prefix .. "größe/nnn+…  lock  ")
    press_ctrl_c(screen)
    screen = watch_at_terminal(100, 3)
    screen:expect "^3 more lines\27%[K\r$"
    press_ctrl_c(screen)
  end)
end)

describe("etcdlock ls --runs", function()
  after_each(function() etcd:del_all(prefix) end)

  local function list_runs(...)
    return command.run { "--prefix", prefix, "ls", "--runs", ... }
  end

  -- Writes the record of a run of |name| that ended |seconds| ago and took |took| seconds. Returns
  -- the time of its end.
  local function record_run(name, seconds, took)
    local ended = os.time() - seconds
    etcd:put(prefix .. name .. ".last-run", json.encode {
      started = ended - 100, ended = ended, seconds = took, host = "web-9", pid = 4711,
    })
    return ended
  end

  it("prints that no run is recorded, or [] with --json, if there is none", function()
    assert.equal("No run is recorded.\n", (list_runs()))
    assert.equal("[]\n", (list_runs("--json")))
    assert.equal('No run whose name begins with "none" is recorded.\n', (list_runs("none")))
  end)

  it("lists the last runs: name, end, age, duration, host and pid", function()
    record_run("a%2Fnightly", 26 * 3600, 725.4)
    record_run(" ", 3, nil)
    assert.is_true(client:once("weekly", 86400, function() end))
    local out, status, err = list_runs()
    assert.same({ 0, "" }, { status, err })
    local rows = rows_of(out)
    local age = out:match "nightly +%S+ %S+ +(%S+)"
    assert.same({ "26h00m", "NAME ENDED AGE TOOK HOST PID" }, { age, rows[1] })
    assert.equal('" " WHEN - web-9 4711', rows[2])
    assert.matches("^a/nightly %S+ %S+ 26h00m 12m05s web%-9 4711$", rows[3])
    assert.equal(("weekly WHEN 0s %s %d"):format(HOST, PID), rows[4])
    assert.equal(4, #rows)
    assert.same({ rows[1], rows[3] }, rows_of(list_runs("a/")))
  end)

  it("prints the result of client:runs as one line of JSON with --json", function()
    local ended = record_run("a%2Fb", 5, 1.25)
    record_run("c", 7, nil)
    local out, status = list_runs("--json")
    assert.equal(0, status)
    assert.is_nil(out:find "\n.")
    assert.same(client:runs(), json.decode(out))
    assert.same({
      name = "a/b", started = ended - 100, ended = ended, seconds = 1.25, host = "web-9",
      pid = 4711,
    }, json.decode(out)[1])
  end)

  it("escapes control characters in hosts", function()
    etcd:put(prefix .. "a.last-run", '{"started":1,"host":"\\u001b[31m","pid":1}')
    assert.matches("\\x1b[31m", (list_runs()), 1, true)
  end)

  it("repeats the list with --watch, at a terminal with a clock and a count", function()
    local watch = command.start { "--prefix", prefix, "ls", "--runs", "--json", "--watch",
      "--interval=0.1" }
    watch:expect "^%[%]$"
    record_run("a", 5, 1)
    watch:expect '^%[{.*"name":"a"'
    watch:kill "sigint"
    assert.equal(130, (watch:wait()))
    local screen = watch_at_terminal(40, 24, { NO_COLOR = "1" }, "--runs --prefix " .. prefix)
    screen:expect("^\27%[H%d%d:%d%d:%d%d  1 run\27%[K\r$")
    screen:expect "^NAME  ENDED .*\27%[K\r$"
    screen:expect "^a     %d+%-%d%d%-%d%d %d%d:%d%d:%d%d .*\27%[K\r$"
    press_ctrl_c(screen)
  end)

  -- The line of doc/command.md for monitors.
  it("has what a monitor needs to find a job without a recent success", function()
    local line = assert(read_file "doc/command.md"):match "\n(etcdlock ls %-%-runs [^\n]*jq[^\n]*)"
    local words, env = command.words()
    env.ETCDLOCK = words[1] .. " " .. words[2] .. " --prefix " .. prefix
    local function status_of(variables)
      for name, value in pairs(variables or {}) do env[name] = value end
      local script = line:gsub("^etcdlock", "$ETCDLOCK")
      local _, status = proc.run({ "sh", "-c", script }, { env = env })
      return status
    end
    assert.equal(1, status_of())
    record_run("nightly2", 5, 1)
    record_run("nightly", 26 * 3600, 1)
    assert.equal(1, status_of())
    record_run("nightly", 24 * 3600, 1)
    assert.equal(0, status_of())
    assert.is_true(status_of { ETCDCTL_ENDPOINTS = "127.0.0.1:1" } > 0)
  end)
end)

describe("etcdlock break", function()
  it("ends the hold with the given token, and exits with 1 for any other token", function()
    local lock = assert(client:lock "a")
    local out, status, err = command.run { "break", prefix .. "a", lock:token() - 1 }
    assert.same({ "", 1 }, { out, status })
    assert.matches('^etcdlock: lock "' .. prefix .. 'a" is not held with token %d+\n$', err)
    assert.is_true(lock:check())
    assert.equal(0, command.status { "break", prefix .. "a", lock:token() })
    assert.equal("deleted", lock:wait_lost(5))
  end)

end)

-- Regression 115. If the argument PREFIX of `etcdlock ls` was invalid, the message named the option
-- --prefix, which the user had not given.
it("etcdlock ls names its argument PREFIX if that is too long", function()
  local long = ("x"):rep(600)
  local out, status, err = command.run { "ls", long }
  assert.same({ "", 64 }, { out, status })
  assert.matches("^etcdlock: PREFIX = ", err)
end)

-- Regression 270. Messages, the log, metrics and the page /locks named locks without the prefix of
-- the client. `etcdlock ls` and `etcdlock break` with such a name found no lock.
it("a name in a message of a client with a prefix can be given to ls and break, which show it",
  function()
    clients.keep(assert(other:lock "a"))
    local name = assert_fails("locked", client:try_lock "a"):match '"(.*)"'
    local token = other:queue "a"[1].token
    local rows = rows_of((command.run { "ls", name }))
    assert.equal(("%s lock holds %.0f "):format(name, token):sub(1, 20), rows[2]:sub(1, 20))
    local _, status, err = command.run { "break", name, ("%.0f"):format(token) }
    assert.same({ 0, "" }, { status, err })
  end)

-- Regression 128. etcdlock ls counted each character as one column. Chinese, Japanese and Korean
-- characters and emoji take two columns, and combining characters take none. So columns were not
-- aligned, and --watch printed lines that were longer than the terminal, which then scrolled at
-- each redraw. The line for an empty list was never cut. On a dumb terminal --watch printed the
-- control sequences that redraw a screen.
describe("etcdlock ls", function()
  local WIDE, EMOJI, COMBINED = "漢字", "🔒", "e\204\129" -- 4, 2 and 1 columns
  local PLAIN = { NO_COLOR = "1" }

  -- Returns |text| with each wide or combining character replaced by one letter for each column
  -- that it takes.
  local function as_letters(text)
    return (text:gsub("漢", "xx"):gsub("字", "xx"):gsub(EMOJI, "xx"):gsub(COMBINED, "x")
      :gsub("…", "x"))
  end

  it("aligns columns after characters of two columns and of none", function()
    for _, name in ipairs { "a", WIDE, EMOJI, COMBINED } do
      clients.keep(assert(connect():lock(name, { value = name })))
    end
    local head, rest = ls():match "^([^\n]+\n)(.*)$"
    local count = 0
    for line in rest:gmatch "[^\n]+" do
      assert.equal(head:find "MODE", (as_letters(line):find "lock"))
      count = count + 1
    end
    assert.equal(4, count)
  end)

  it("--watch cuts lines with wide characters to the terminal's width", function()
    clients.keep(assert(connect():lock(WIDE:rep(20), { value = WIDE:rep(40) })))
    for _, columns in ipairs { 300, 100, 41, 40, 10, 5 } do
      local screen = watch_at_terminal(columns, 24, PLAIN)
      screen:expect "^\27%[H"
      for _ = 1, 3 do
        local line = as_letters(screen:expect "^(.*)\27%[K\r$"):gsub("\27%[[HJ]", "")
        assert.is_nil(line:find "[\128-\255]")
        assert.is_true(#line < columns, line)
      end
      press_ctrl_c(screen)
    end
  end)

  it("--watch cuts the line for an empty list, too", function()
    local screen = watch_at_terminal(10, 24, PLAIN)
    screen:expect "^No lock …\27%[K\r$"
    press_ctrl_c(screen)
  end)

  it("--watch prints list after list on a dumb terminal", function()
    clients.keep(assert(connect():lock "a"))
    local screen = watch_at_terminal(120, 24, { TERM = "dumb", NO_COLOR = "1" })
    for _ = 1, 2 do screen:expect("^" .. prefix .. "a  +lock  +holds .* %-\r$") end
    assert.is_nil(screen.out.text:find "\27")
    press_ctrl_c(screen)
  end)
end)
