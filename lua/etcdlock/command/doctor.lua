--- etcdlock doctor: checks the settings, the members of etcd and what the user of etcd may do. For
-- each problem it prints a remedy, if it knows one.
local uv = require "luv"
local connect_options = require "etcdlock.connect_options"
local core = require "etcdlock.core"
local etcdlock = require "etcdlock"
local report = require "etcdlock.command.report"
local settings = require "etcdlock.command.settings"
local terminal = require "etcdlock.command.terminal"
local escape = require("etcdlock.text").escape
local format_number = require("etcdlock.text").format_number
local quote = require("etcdlock.text").quote
local to_string = require("etcdlock.text").to_string

local M = {}

-- ---- remedies: doc/errors.md in short ----

-- Each row: a Lua pattern, and the remedy for a message that contains it. The first row whose
-- pattern matches counts. "%s" in a remedy stands for the prefix of the lock names, in quotes. A
-- message that ends with its own remedy, after a semicolon, needs no row.
local REMEDIES = {
  { "alarm:NOSPACE", "the quota of the member's database is used up: etcdctl compact, etcdctl"
    .. " defrag, then etcdctl alarm disarm" },
  { "alarm:CORRUPT", "the member's data differ from those of the other members: remove the member,"
    .. " and add it again" },
  { "no leader", "the member reaches no majority: start the members that are down" },
  { "[Cc]onnection refused", "start etcd there, or correct --endpoints (ETCDCTL_ENDPOINTS)" },
  { "cannot be resolved", "correct the name in --endpoints, or this machine's name server" },
  { "socket does not exist", "correct the path in --endpoints" },
  { "accepts connections, but has not answered", "the member hangs, or a firewall drops packets" },
  { "no connection in time", "the member is down, or a firewall drops packets" },
  { "too few streams", "raise --max-concurrent-streams of etcd, or the limit of the proxy" },
  { "no answer in time", "the member hangs or has no leader, or a firewall drops packets" },
  { "in place of etcd", "correct the proxy, or give the address of etcd itself" },
  { "not an etcd v3 client port", "give etcd's client port: 2379, not 2380" },
  { "is self%-signed", "give that certificate with --cacert, if it is etcd's" },
  { "signed by a CA that", "give the CA of etcd's certificate with --cacert" },
  { "expired on", "renew that certificate, and check this machine's clock" },
  { "is not valid before", "check this machine's clock, or wait until the certificate is valid" },
  { "rejects the client certificate", "give --cert a certificate signed by a CA that etcd trusts" },
  { "user name is empty", "give --user, and ETCDCTL_PASSWORD" },
  { "password is wrong", "correct --user or ETCDCTL_PASSWORD" },
  { "permission denied", "etcdctl role grant-permission --prefix=true ROLE readwrite %s" },
  { "answer.* cannot be read", "give the address of etcd itself, not of a proxy" },
  { "answer to Authenticate has no token", "give the address of etcd itself, not of a proxy" },
  { "cannot be read", "correct the path, or the permissions of the file" },
}

-- Remedy for missing rights if no prefix is given. It does not advise to grant rights, because
-- without a prefix these would be rights to all keys of etcd.
local GIVE_PREFIX = "give --prefix, below which this user has rights"

-- Returns the remedy for `message`, a message of the library or of etcd; nil if no remedy is known.
-- `prefix` is the prefix of the lock names; nil: the remedy shows "PREFIX" instead.
local function remedy_for(message, prefix)
  for _, row in ipairs(REMEDIES) do
    if message:find(row[1]) then
      if prefix == "" and row[2]:find("%s", 1, true) then
        return GIVE_PREFIX
      end
      return (row[2]:gsub("%%s", (report.quote_for_shell(prefix or "PREFIX"):gsub("%%", "%%%%"))))
    end
  end
end

-- Minor version of etcd -> its first patch version in which etcd's permissions protect leases (see
-- doc/production.md).
local LEASES_HAVE_RIGHTS = { ["3.4"] = 42, ["3.5"] = 28, ["3.6"] = 9 }

-- Returns a text about known bugs in the version `version` of etcd; nil if no bugs are known.
local function known_bugs(version)
  local minor, patch = version:match "^(%d+%.%d+)%.(%d+)"
  local fixed = LEASES_HAVE_RIGHTS[minor]
  if fixed and tonumber(patch) < fixed then
    return ("has known bugs that are fixed in %s.%d (doc/production.md)"):format(minor, fixed)
  end
end

-- The minor versions of etcd that etcdlock is tested with (`make test-etcd`).
local TESTED = { ["3.4"] = true, ["3.5"] = true, ["3.6"] = true, ["3.7"] = true }
local TESTED_RANGE = "3.4 to 3.7"

-- ---- output ----

local problems, has_heading = 0, false

local function print_line(label, colour, text)
  io.write("  ", terminal.paint(colour, label), (" "):rep(7 - #label), escape(text), "\n")
  io.flush()
end

local function print_heading(text)
  io.write(has_heading and "\n" or "", terminal.paint("bold", text), "\n")
  has_heading = true
end

local function print_ok(text)
  print_line("ok", "green", text)
end

local function print_note(text)
  print_line("note", "yellow", text)
end

-- Prints a problem and its remedy, and counts the problem. If `remedy` is nil, the remedy is the
-- part of `text` after its last semicolon, if it has one.
local function print_problem(text, remedy)
  problems = problems + 1
  if not remedy then
    local cause, advice = text:match "^(.*); ([^;]*)$"
    text, remedy = cause or text, advice
  end
  print_line("WRONG", "red", text)
  if remedy then
    io.write("         -> ", escape(remedy), "\n")
    io.flush()
  end
end

local function format_milliseconds(seconds)
  return format_number("%.1f ms", seconds * 1000)
end

local function format_megabytes(bytes)
  return format_number("%.1f MB", bytes / 1e6)
end

-- ---- settings ----

-- The settings that are printed, in this order.
local SETTINGS = {
  "endpoints", "cacert", "cert", "key", "server_name", "insecure_transport", "user", "password",
  "allow_plaintext_auth", "prefix",
}
local NOT_SHOWN = "(not shown)"

local function format_setting(field, value)
  if value == nil or value == "" then
    return "-"
  elseif field == "password" then
    return NOT_SHOWN
  elseif field == "user" then -- may contain a password, even if --password is given
    return (value:gsub(":.*", ":" .. NOT_SHOWN))
  end
  return type(value) == "table" and table.concat(value, ",") or to_string(value)
end

-- Prints each setting with its value and its source: an option, a variable or the default. `known`
-- is the result of connect_options.read.
local function print_settings(known, args)
  local rows = {}
  for i, field in ipairs(SETTINGS) do
    local option = "--" .. field:gsub("_", "-")
    local name = known.names[field]
    local source = name or "default"
    if name == field then
      source = field == "password" and not args.password and "--user" or option
    end
    rows[i] = { "  " .. option:sub(3), format_setting(field, known[field]), source }
  end
  io.write(table.concat(report.format_table({ "  SETTING", "VALUE", "FROM" }, rows, {}), "\n"),
    "\n")
end

-- Prints the settings and returns them, as connect_options.read does. If they are invalid, prints
-- the problem and returns nil.
local function check_settings(args)
  print_heading "Settings"
  local known, message = connect_options.read(settings.connect_options(args))
  if not known then
    print_problem(settings.translate(message), remedy_for(message))
    return nil
  end
  print_settings(known, args)
  return known
end

-- ---- members ----

-- Returns true if `member` answers, but does not show its state: etcd 3.5.30 shows it only to users
-- with the role root.
local function hides_state(member)
  return member.code == "denied"
end

-- Prints a table of `members`, the result of client:status.
local function print_members(members)
  local rows = {}
  for i, member in ipairs(members) do
    local role = member.is_leader and "leader" or member.is_learner and "learner"
      or member.leader_id and "follower" or "-"
    rows[i] = member.version and {
      "  " .. member.endpoint, member.version, role, format_milliseconds(member.seconds),
      format_megabytes(member.db_size), format_megabytes(member.db_in_use), "answers",
    } or { "  " .. member.endpoint, "-", "-", "-", "-", "-", hides_state(member) and "answers"
      or "no answer" }
  end
  local head = { "  ENDPOINT", "VERSION", "ROLE", "ROUND TRIP", "DB SIZE", "IN USE", "HEALTH" }
  local is_number = { [4] = true, [5] = true, [6] = true }
  io.write(table.concat(report.format_table(head, rows, is_number), "\n"), "\n")
end

-- Calls client:status twice and returns the second result. The times in the first result include
-- the time to connect to each member; those in the second result are round trips alone.
local function ask_members(client)
  local members, message, code = client:status()
  if not members then
    return nil, message, code
  end
  return client:status()
end

local function check_transport(member, known)
  if member.transport == "tls" then
    print_ok(("%s: TLS, verified with %s%s"):format(member.endpoint,
      known.cacert or "the system's CAs",
      known.cert and "; client certificate " .. known.cert or ""))
  elseif member.transport == "local" then
    print_ok(member.endpoint .. ": plain text, within this machine")
  else
    print_note(member.endpoint .. ": plain text, which the network can read and change")
  end
end

local function check_state(member)
  if not member.problems[1] then
    print_ok(member.endpoint .. ": no alarm")
  end
  for _, problem in ipairs(member.problems) do
    print_problem(member.endpoint .. ": " .. problem, remedy_for(problem))
  end
  if member.is_learner then
    print_problem(member.endpoint .. ": this member is a learner, which serves no clients",
      "promote it (etcdctl member promote), or remove it from --endpoints")
  end
  local bugs = known_bugs(member.version)
  if bugs then
    print_note(member.endpoint .. ": etcd " .. member.version .. " " .. bugs)
  end
end

-- Prints a note if the endpoint has port 2380, at which members talk to each other. Some versions
-- of etcd answer clients at this port, too, but with the certificates that are for other members.
local function check_port(member)
  if member.endpoint:find ":2380$" then
    print_note(member.endpoint .. ": 2380 is etcd's port for other members; clients use 2379")
  end
end

-- Prints whether etcdlock is tested with the versions of the members.
local function check_versions(members)
  local seen = {}
  for _, member in ipairs(members) do
    local minor = (member.version or ""):match "^%d+%.%d+"
    if minor and not seen[minor] then
      seen[minor] = true
      if TESTED[minor] then
        print_ok(("etcdlock %s is tested with etcd %s"):format(etcdlock._VERSION, minor))
      else
        print_note(("etcdlock %s is tested with etcd %s, not with %s"):format(etcdlock._VERSION,
          TESTED_RANGE, minor))
      end
    end
  end
end

-- Checks that all members belong to the same cluster. Otherwise two clients could hold one lock at
-- the same time, each in its own cluster.
local function compare_members(members)
  local leader, version
  local seen = {}
  for _, member in ipairs(members) do
    if member.version then
      if seen[member.id] then
        print_note(("%s is the same member as %s"):format(member.endpoint, seen[member.id]))
      end
      seen[member.id] = member.endpoint
      if leader and member.leader_id and leader ~= member.leader_id then
        print_problem("the members have different leaders: " .. leader .. ", " .. member.leader_id,
          "give members of one cluster only; etcdctl member list shows them")
      end
      if version and version ~= member.version then
        print_note(("the members have different versions: %s, %s"):format(version, member.version))
      end
      leader, version = leader or member.leader_id, version or member.version
    end
  end
end

-- Checks each member and prints the results. Returns true if at least one member answers.
local function check_members(client, known)
  print_heading "Members"
  local members, message = ask_members(client)
  if not members then
    print_problem(message)
    return false
  end
  local is_answered = false
  print_members(members)
  for _, member in ipairs(members) do
    is_answered = is_answered or member.version ~= nil or hides_state(member)
    if member.version then
      check_transport(member, known)
      check_state(member)
    elseif hides_state(member) then
      check_transport(member, known)
      print_note(member.endpoint
        .. ": shows its version and state only to users with the role root")
    else
      print_problem(settings.translate(member.message), remedy_for(member.message))
    end
    check_port(member)
  end
  check_versions(members)
  compare_members(members)
  return is_answered
end

-- ---- use ----

-- Name of the test lock, without the prefix.
local NAME = "etcdlock-doctor"
-- Seconds to wait for the test lock.
local LOCK_WAIT = 5
-- Seconds. With this TTL, a client renews its lease after 1 s; with the default, after 3.3 s. A
-- renewal extends a hold by about that time, and at least by RENEWED.
local TTL, RENEWED = 5, 0.1
-- WAIT_FIRST: seconds for which the second client waits before the first one releases the lock.
-- WAKE_WAIT: seconds to wait for the lock after the release. Behind an etcd grpc-proxy this is too
-- short: there the waiter gets the lock 6 to 10 s after the release.
local WAIT_FIRST, WAKE_WAIT = 0.3, 3
-- MANY_KEYS: a name is reported if this many other keys are below it, or more.
-- NAMES_SHOWN: the largest number of names that are reported one by one; the others are counted.
local MANY_KEYS, NAMES_SHOWN = 1000, 5
local SLOW_LOCK = "lock %s: %d other keys below its name slow each lock and unlock; give locks a"
  .. " prefix of their own"
local SLOW_NAME = "name %s: %d keys below it, which belong to no lock, slow a lock of this name and"
  .. " of each name above it; give locks a prefix of their own"
-- Seconds. With etcd's default cost, a login takes 0.05 s.
local SLOW_LOGIN = 1
-- A TTL should be this many answers: EL_TTL_ANSWERS in src/base/times.h. SHORTEST_TTL: seconds.
local ANSWERS_IN_TTL, SHORTEST_TTL = 4, 2
-- A create_revision that no key has.
local NO_REVISION = 2 ^ 52
-- Remedy for missing rights to a key of --data.
local GRANT_KEY = "etcdctl role grant-permission ROLE readwrite %s"
-- Seconds between two looks for clients that wait for each other.
local SECOND_LOOK = 1

local function connect(args)
  local opts = settings.connect_options(args)
  opts.ttl = TTL
  return etcdlock.connect(opts)
end

local function note_login(client)
  local seconds = client:stats().authentication_ms / 1000
  if seconds >= SLOW_LOGIN then
    print_note(("the login took %.1f s: etcd is busy with passwords, or its --bcrypt-cost is high;"
      .. " use certificates, or set the passwords again with a lower cost"):format(seconds))
  end
end

-- Notes the TTL that locks need here, if it is longer than the shortest one.
local function note_ttl(answer_time)
  local needed = math.ceil(ANSWERS_IN_TTL * answer_time)
  if needed > SHORTEST_TTL then
    print_note(("an answer takes %.2g s: give locks a ttl of at least %d s"):format(answer_time,
      needed))
  end
end

local function check_majority(client)
  local seconds, message = client:ping()
  if seconds then
    print_ok("a majority answers: " .. format_milliseconds(seconds))
    note_login(client)
    note_ttl(seconds)
  else
    print_problem(settings.translate(message), remedy_for(message))
  end
  return seconds
end

-- Waits until the client has renewed its lease, which extends the hold of `lock`. Returns true; or
-- nil, message if the hold is lost before, or a read of the lock's key fails.
local function await_renewal(lock)
  local is_held, reason = lock:check()
  local ends = core.now() + lock:remaining()
  while is_held and lock:held() and core.now() + lock:remaining() < ends + RENEWED do
    uv.sleep(10) -- ms
  end
  if is_held then
    return lock:check()
  end
  return nil, reason
end

-- Asks etcd for the right to write `key`, and changes nothing: etcd checks the rights to all
-- operations of a transaction first, and then a condition that is never true. Returns what
-- client:_run_txn returns.
local function ask_to_write(client, known, key)
  local txn = client._core:txn()
  txn:guard(known.prefix .. NAME, NO_REVISION)
  txn:put(key, "")
  return client:_run_txn(txn)
end

-- Prints the result of a request that needs the right to `what`, "read" or "write", for `key`.
local function print_right(is_granted, message, code, what, key)
  if is_granted then
    print_ok(("this user may %s the key %s"):format(what, quote(key)))
  elseif code == "denied" then
    print_problem(("this user may not %s the key %s: %s"):format(what, quote(key), message),
      GRANT_KEY:format(report.quote_for_shell(key)))
  else
    print_problem(message, remedy_for(message))
  end
end

-- Checks the rights to the keys of --data. The rights to the prefix of the locks do not include
-- them: lock:get and lock:put do not put the prefix in front of a key.
local function check_data(client, known, args)
  for _, key in ipairs(args.data) do
    local value, message, code = client:get(key)
    print_right(value ~= nil, message, code, "read", key)
    local ok
    ok, message, code = ask_to_write(client, known, key)
    print_right(ok, message, code, "write", key)
  end
  if known.user and not args.data[1] then
    print_note "the rights to the keys of lock:get and lock:put were not checked: give --data KEY"
  end
end

local function note_taken(name)
  print_note(("the test lock %s was not free within %d s; another doctor may hold it")
    :format(quote(name), LOCK_WAIT))
end

-- Acquires, keeps and releases the test lock, and prints the result. Returns a true value on
-- success; otherwise a false value and, if the lock was acquired but cannot be kept, the reason.
local function check_lock(client, known)
  local name = known.prefix .. NAME
  local failure
  local ok, message, code = client:with_lock(NAME, { timeout = LOCK_WAIT }, function(lock)
    local is_kept, reason = await_renewal(lock)
    failure = not is_kept and reason
  end)
  if failure then
    print_problem(("the test lock %s cannot be kept: %s"):format(quote(name), failure),
      remedy_for(failure, known.prefix))
  elseif ok then
    print_ok(("a lock can be acquired, kept and released: %s"):format(quote(name)))
  elseif code == "timeout" then
    note_taken(name)
  else
    print_problem(("no lock can be acquired: %s"):format(message),
      remedy_for(message, known.prefix))
  end
  return ok and not failure, failure
end

-- Waits up to `seconds` for the result of `pending`, which lock_async returned. Returns the lock;
-- or nil, message, code. Returns false if the lock is still pending after that time.
local function await(pending, seconds)
  local deadline = core.now() + seconds
  repeat
    local lock, message, code = pending:step()
    if lock ~= false then
      return lock, message, code
    end
    uv.sleep(1) -- ms
  until core.now() >= deadline
  return false
end

-- Checks that a second client that waits for the test lock gets the lock after its release.
local function check_wake_up(client, known, args)
  local first, pending
  local other, message, code = connect(args)
  if other then
    first, message, code = client:lock(NAME, { timeout = LOCK_WAIT })
  end
  if first then
    pending, message, code = other:lock_async(NAME, { timeout = LOCK_WAIT })
  end
  if pending then
    await(pending, WAIT_FIRST)
    local released_at = core.now() -- before unlock, which waits for etcd
    first:unlock()
    local lock
    lock, message, code = await(pending, WAKE_WAIT)
    if lock then
      print_ok("a waiter gets the lock after its release: "
        .. format_milliseconds(core.now() - released_at))
      lock:unlock()
    elseif lock == false then
      print_problem(("a waiter does not get the lock within %d s after its release")
        :format(WAKE_WAIT),
        "give the members themselves as --endpoints, not an etcd grpc-proxy (doc/production.md)")
      pending:cancel()
    end
  end
  if code == "timeout" then
    note_taken(known.prefix .. NAME)
  elseif message then
    print_problem(settings.translate(message), remedy_for(message))
  end
  if other then
    other:close()
  end
end

-- Returns `name` without its last part; nil if it has only one.
local function get_parent(name)
  return name:match "^(.*)/"
end

-- Returns true if `name`, or one of the names above it, is in the set `names`.
local function is_below(names, name)
  while name and not names[name] do
    name = get_parent(name)
  end
  return name ~= nil
end

-- Reports the names below which many other keys (user data) slow a lock. The name with the most
-- keys comes first. If no lock of such a name is in use, the name of the lock is not known: then
-- the longest name that has so many keys below it counts. `counts` is the second result of
-- _read_queues.
local function check_other_keys(queues, counts, known)
  local slow, in_use, has_heavy_below = {}, {}, {}
  for _, queue in ipairs(queues) do
    local full_name = known.prefix .. queue.name
    in_use[full_name] = true
    if queue.other_keys >= MANY_KEYS then
      slow[#slow + 1] = { text = SLOW_LOCK, name = full_name, keys = queue.other_keys }
    end
  end
  for name, keys in pairs(counts) do
    if keys >= MANY_KEYS then
      has_heavy_below[get_parent(name) or ""] = true
    end
  end
  for name, keys in pairs(counts) do
    if keys >= MANY_KEYS and not has_heavy_below[name] and not is_below(in_use, name) then
      slow[#slow + 1] = { text = SLOW_NAME, name = name, keys = keys }
    end
  end
  table.sort(slow, function(a, b) return a.keys > b.keys end)
  for i = 1, math.min(#slow, NAMES_SHOWN) do
    print_note(slow[i].text:format(quote(slow[i].name), slow[i].keys))
  end
  if #slow > NAMES_SHOWN then
    print_note(("%d more names have %d or more other keys below them")
      :format(#slow - NAMES_SHOWN, MANY_KEYS))
  end
end

local DEADLOCK, ORDER_REMEDY = "possible deadlock: ",
  "take these locks with one multi_lock, or everywhere in the same order"

-- Returns the words for the client of an entry.
local function name_process(entry)
  return entry.host and ("pid %.0f on %s"):format(entry.pid, entry.host) or "lease " .. entry.lease
end

-- Returns true if the entries `a` and `b` may belong to one owner of one client.
local function may_be_one_owner(a, b)
  return a.lease == b.lease and (not (a.owner and b.owner) or a.owner == b.owner)
end

-- Returns a list of waits, tables with the fields queue, holder and waiter: one for each holder and
-- each waiter of another client in the same queue. Candidates of an election wait while another one
-- leads, and a permit may come from any holder, so these waits do not count.
local function list_waits(queues)
  local waits = {}
  for _, queue in ipairs(queues) do
    for _, holder in ipairs(queue.entries) do
      for _, waiter in ipairs(holder.held and queue.entries or {}) do
        if waiter.held == false and waiter.lease ~= holder.lease and waiter.mode ~= "leader"
          and waiter.mode ~= "permit" then
          waits[#waits + 1] = { queue = queue, holder = holder, waiter = waiter }
        end
      end
    end
  end
  return waits
end

-- Returns the tokens of the entries in the waits path[first] to path[#path], and the text of a
-- problem. These waits are a circle: the waiter of each wait is the holder in the next wait.
local function describe_circle(path, first, known)
  local tokens, parts = {}, {}
  for i = #path, first, -1 do
    local wait, awaited = path[i], path[i > first and i - 1 or #path].queue
    parts[#parts + 1] = ("%s holds %s and waits for %s"):format(name_process(wait.holder),
      quote(known.prefix .. wait.queue.name), quote(known.prefix .. awaited.name))
    tokens[#tokens + 1] = ("%.0f %.0f"):format(wait.holder.token, wait.waiter.token)
  end
  table.sort(tokens)
  return table.concat(tokens, " "), DEADLOCK .. table.concat(parts, "; ")
end

-- Returns clients that wait for each other in a circle, a table: the tokens of their entries -> the
-- text of a problem. Of circles that overlap, it has at least one.
local function find_deadlocks(queues, known)
  local waits, by_lease, found = list_waits(queues), {}, {} -- by_lease: holder's lease -> waits
  for _, wait in ipairs(waits) do
    local list = by_lease[wait.holder.lease] or {}
    by_lease[wait.holder.lease], list[#list + 1] = list, wait
  end
  local path, index = {}, {} -- index: wait -> its index in `path`; 0 after its visit
  local function visit(wait)
    path[#path + 1], index[wait] = wait, #path + 1
    for _, next_wait in ipairs(by_lease[wait.waiter.lease] or {}) do
      if may_be_one_owner(wait.waiter, next_wait.holder) then
        if not index[next_wait] then
          visit(next_wait)
        elseif index[next_wait] > 0 then
          local tokens, text = describe_circle(path, index[next_wait], known)
          found[tokens] = text
        end
      end
    end
    path[#path], index[wait] = nil, 0
  end
  for _, wait in ipairs(waits) do
    if not index[wait] then
      visit(wait)
    end
  end
  return found
end

-- Reports clients that wait for each other, and still do at a second look. In a busy program, other
-- owners of the same clients often wait for each other for a moment.
local function check_lock_order(client, queues, known)
  local first = find_deadlocks(queues, known)
  if next(first) then
    uv.sleep(SECOND_LOOK * 1000)
    for tokens, text in pairs(find_deadlocks(client:queues() or {}, known)) do
      if first[tokens] then
        print_problem(text, ORDER_REMEDY)
      end
    end
  end
end

-- Reports the semaphores whose clients give different numbers of permits.
local function check_permits(queues, known)
  for _, queue in ipairs(queues) do
    local seen, parts = {}, {}
    for _, entry in ipairs(queue.entries) do
      if entry.permits and not seen[entry.permits] then
        seen[entry.permits] = true
        parts[#parts + 1] = ("%d by %s"):format(entry.permits, name_process(entry))
      end
    end
    if parts[2] then
      print_note(("semaphore %s: its clients give different numbers of permits: %s; the largest one"
        .. " is the limit"):format(quote(known.prefix .. queue.name), table.concat(parts, ", ")))
    end
  end
end

local function check_list(client, known)
  local queues, counts, code = client:_read_queues ""
  if queues then
    print_ok(("etcdlock ls may list the names below %s: %d lock%s"):format(quote(known.prefix),
      #queues, #queues == 1 and "" or "s"))
    check_other_keys(queues, counts, known)
    check_permits(queues, known)
    check_lock_order(client, queues, known)
  elseif code == "denied" then
    print_note(("etcdlock ls may not list the names below %s: %s"):format(quote(known.prefix),
      known.prefix == "" and "give it a PREFIX"
        or "this user may not read all keys there"))
  else
    print_problem(settings.translate(counts), remedy_for(counts)) -- the message
  end
end

local function check_use(client, known, args)
  print_heading "Use"
  if check_majority(client) then
    local is_usable, failure = check_lock(client, known)
    if is_usable then
      check_wake_up(client, known, args)
      check_data(client, known, args)
    end
    if not failure then -- otherwise further reads could fail for the same reason
      check_list(client, known)
    end
  end
end

--- Runs `etcdlock doctor`. Returns the exit status: 1 if there is a problem.
function M.doctor(args)
  -- Otherwise newer versions of gRPC write log lines of their own among those of doctor.
  uv.os_setenv("GRPC_VERBOSITY", os.getenv "GRPC_VERBOSITY" or "NONE")
  local known = check_settings(args)
  if known then
    local client, message = connect(args)
    if client then
      if check_members(client, known) then
        check_use(client, known, args)
      end
      client:close()
    else
      print_problem(settings.translate(message), remedy_for(message))
    end
  end
  local verdict = problems == 0 and "No problem found."
    or ("%d problem%s found."):format(problems, problems == 1 and "" or "s")
  io.write("\n", terminal.paint(problems == 0 and "green" or "red", verdict), "\n")
  return io.flush() and problems == 0 and report.EXIT.OK or report.EXIT.FAILED
end

return M
