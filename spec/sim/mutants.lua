-- Does the simulator see? Breaks the rules (src/rules) in one place at a time and
-- asks that some history goes red:
--
--   lua spec/sim/mutants.lua [COUNT [PATTERN]]
--
-- runs up to COUNT histories (25,000) per mutant, or per one whose name or file
-- matches PATTERN, from the project's root, and fails if a mutant survives or can't
-- be made any more.

local COUNT = tonumber(arg[1]) or 25000
local PATTERN = arg[2] or ""
local CC = os.getenv "CC" or "cc"

-- name, file, what is there, what is there instead
local MUTANTS = {
  { "claim counted from the answer", "rules/session.c",
    "return renewal->sent_ms + renewal->ttl_ms - margin;",
    "return renewal->answered_ms + renewal->ttl_ms - margin;" },
  { "no margin", "rules/session.c",
    "return renewal->sent_ms + renewal->ttl_ms - margin;",
    "return renewal->sent_ms + renewal->ttl_ms - 0 * margin;" },
  { "proof of another term", "rules/session.c",
    "proof->term == renewal->term;",
    "proof->term != 0;" },
  { "proof older than the renewal", "rules/session.c",
    "proof->outcome.sent_ms >= renewal->answered_ms &&",
    "proof->outcome.sent_ms != 0 &&" },
  { "a keepalive is proof enough", "rules/session.c",
    "  ses->attempts = 0;\n  ses->renewing_since = 0;",
    "  ses->claim_until = claim_of(&ses->last);\n  ses->renewing_since = 0;" },
  { "a claim never lapses", "rules/session.c",
    "if (ses->claim_until != 0 && now_ms >= ses->claim_until) {",
    "if (false && now_ms >= ses->claim_until) {" },
  { "a lapse is not told", "rules/session.c",
    "      push(out, EL_SESSION_LAPSED);",
    "      (void)out;" },
  { "a lease that is gone lives on", "rules/session.c",
    "    push(out, EL_SESSION_REVOKE)->id = ses->id;\n    lose_lease(ses, now_ms, out);",
    "    ses->renewing_since = 0;" },
  { "every lease has ended in its time", "rules/session.c",
    "bool is_early = now_ms < ses->last.sent_ms + ses->last.ttl_ms;",
    "bool is_early = now_ms < 0;" },
  { "no audit", "rules/session.c",
    "  ses->unsure = true;\n  ses->audit_every = AUDIT_FIRST_MS;",
    "  ses->unsure = true;\n  return;" },
  { "each new doubt puts the audit off", "rules/session.c",
    "      (ses->audit_at == 0 || ses->audit_at > now_ms + AUDIT_FIRST_MS)) {",
    "      now_ms != 0) {" },
  { "one audit is enough", "rules/session.c",
    "    ses->audit_failures = 0;\n    ses->audit_at = now_ms + ses->audit_every;",
    "    ses->audit_failures = 0;" },
  { "an audit that fails is the last", "rules/session.c",
    "    ses->audit_at =\n retry_at(",
    "    ses->renew_at =\n retry_at(" },
  { "an unused lease that may get keys lives on", "rules/session.c",
    "  if (ses->unsure) {\n    push(out, EL_SESSION_REVOKE)",
    "  if (ses->unsure && ses->holds < 0) {\n    push(out, EL_SESSION_REVOKE)" },
  { "no probe after a renewal", "rules/session.c",
    "    note_renewal(ses, event, now_ms);\n    probe(ses, out);",
    "    note_renewal(ses, event, now_ms);" },
  { "silent keepalive stream kept", "rules/session.c",
    "if (ses->renewing_since != 0 && now_ms >= ses->renewing_since + patience) {",
    "if (ses->renewing_since != 0 && now_ms < 0) {" },
  { "no look after the watch is created", "rules/entry.c",
    "    entry->watch_rev = event->rev;\n    look_soon(entry, true, out);",
    "    entry->watch_rev = event->rev;" },
  { "a serializable look wins", "rules/entry_answer.c",
    "(event->older.rev == 0 && event->serializable)",
    "(event->older.rev == 0 && false)" },
  { "a stale look is believed", "rules/entry_answer.c",
    "  return event->serializable &&\n",
    "  return event->serializable && entry->rev < 0 &&\n" },
  { "an event during a look is forgotten", "rules/entry_answer.c",
    "} else if (entry->again || (event->older.rev == 0",
    "} else if ((event->older.rev == 0" },
  { "an unsure enqueue wins", "rules/entry_answer.c",
    "  } else if (event->unsure) {\n    entry->state = EL_ENTRY_WAITING;",
    "  } else if (event->unsure && entry->rev < 0) {\n"
      .. "    entry->state = EL_ENTRY_WAITING;" },
  { "an unsure look wins", "rules/entry_answer.c",
    "} else if (event->unsure) {\n    el_entry_send_look(entry, out, false, true);",
    "} else if (event->unsure && entry->rev < 0) {\n"
      .. "    el_entry_send_look(entry, out, false, true);" },
  { "a locked try goes on", "rules/entry_answer.c",
    "} else if (event->locked) {",
    "} else if (event->locked && entry->bound < 0) {" },
  { "a look that shows another's key wins", "rules/entry_answer.c",
    "} else if (event->older.rev == 0) {\n    win(",
    "} else if (event->older.rev != entry->ahead.rev) {\n    win(" },
  { "an enqueue of unknown fate is forgotten", "rules/entry_answer.c",
    "    el_entry_push(out, EL_ENTRY_UNSURE);",
    "    (void)now_ms;" },
  { "a key that an audit finds is nobody's", "rules/entry.c",
    "if (entry->state == EL_ENTRY_IDLE && entry->busy == EL_REQUEST_NONE) {\n"
      .. "    entry->state = EL_ENTRY_SWEEPING;",
    "if (false) {\n    entry->state = EL_ENTRY_SWEEPING;" },
  { "a release dies with its session", "rules/entry.c",
    "if (entry->state == EL_ENTRY_RELEASING && entry->owed && !entry->orphaned) {",
    "if (entry->state == EL_ENTRY_RELEASING && entry->owed && false) {" },
  { "a release without a session is done", "rules/entry.c",
    "    entry->orphaned = true;\n",
    "    entry->orphaned = true;\n"
      .. "    el_entry_push(out, EL_ENTRY_RELEASED)->found = true;\n"
      .. "    entry->state = EL_ENTRY_DEAD;\n" },
  { "a lease that was cut short confirms a release", "rules/entry_answer.c",
    "(entry->maybe_deleted && !entry->cut_short)",
    "entry->maybe_deleted" },
  { "a lost delete is taken for done", "rules/entry_answer.c",
    "  if (!event->outcome.done) {\n    on_delete_failed(",
    "  if (!event->outcome.done && event->outcome.definite) {\n    on_delete_failed(" },
  { "a release that is refused after a silence is not told", "rules/entry_answer.c",
    "} else if (is_refused && entry->owed) {",
    "} else if (is_refused && entry->attempts == 0) {" },
  { "a delete is not repeated", "rules/entry_answer.c",
    "    entry->state = EL_ENTRY_DEAD;\n  } else {\n"
      .. "    el_entry_retry_later(entry, event, now_ms);",
    "    entry->state = EL_ENTRY_DEAD;\n  } else {\n    (void)now_ms;" },
  { "a delete of nothing", "rules/entry_moves.c",
    "send(entry, out, EL_REQUEST_DELETE)->guard = entry->rev;",
    "send(entry, out, EL_REQUEST_DELETE)->guard = 0;" },
  { "an old deletion ends a hold", "rules/entry.c",
    "    if (event->rev > entry->rev) {\n      el_entry_lose(EL_LOSS_DELETED, out);",
    "    if (event->rev > 0) {\n      el_entry_lose(EL_LOSS_DELETED, out);" },
  { "no own watch while holding", "rules/entry.c",
    "    entry->wake_at = now_ms + WATCH_HOLD_AFTER_MS;",
    "    entry->wake_at = 0;" },
  { "an overwritten key stays a hold", "rules/entry.c",
    "  } else if (held && event->rev > entry->rev &&",
    "  } else if (held && event->rev < 0 &&" },
  { "an overwritten key is overlooked", "rules/entry_answer.c",
    "} else if (event->mine.lease != entry->lease) {\n    el_entry_lose(EL_LOSS_REPLACED",
    "} else if (event->mine.lease != entry->lease && entry->rev < 0) {\n"
      .. "    el_entry_lose(EL_LOSS_REPLACED" },
  { "an unsure try gives up", "rules/entry_answer.c",
    "  } else if (event->unsure) {\n    el_entry_send_try(entry, out, true);",
    "  } else if (event->unsure) {\n"
      .. "    el_entry_refuse(entry, EL_ENTRY_LOCKED, out);" },
  { "no safety look", "rules/entry_answer.c",
    "  el_entry_watch(entry, out, place);\n  entry->wake_at = now_ms + entry->reread_ms;",
    "  el_entry_watch(entry, out, place);\n  entry->wake_at = 0 * now_ms;" },
  { "no safety look after a look", "rules/entry_answer.c",
    "entry->ahead.rev) {\n    entry->wake_at = now_ms + entry->reread_ms;",
    "entry->ahead.rev) {\n    entry->wake_at = 0 * now_ms;" },
  { "a lapsed hold is not told", "rules/entry.c",
    "      on_loss(entry, EL_LOSS_EXPIRED, out);",
    "      el_entry_take_out(entry, out);" },
  { "a lapsed hold keeps its key", "rules/entry.c",
    "  el_entry_lose(loss, out);\n  el_entry_take_out(entry, out);",
    "  el_entry_lose(loss, out);\n  entry->state = EL_ENTRY_IDLE;\n"
      .. "  entry->wanted = (entry->rev < 0);" },
  { "a dead session restarts nobody", "rules/entry.c",
    "    el_entry_push(out, EL_ENTRY_RESTART);",
    "    entry->wanted = false;" },
  { "a place is lost in silence", "rules/entry_answer.c",
    "} else if (event->mine.rev != entry->rev) {\n    el_entry_push(out, EL_ENTRY_PLACE_LOST);",
    "} else if (event->mine.rev != entry->rev) {" },
  { "the next starts before the key is out", "rules/entry.c",
    "(entry->state == EL_ENTRY_IDLE || entry->state == EL_ENTRY_SWEEPING);",
    "entry->busy == EL_REQUEST_NONE && entry->state != EL_ENTRY_DEAD;" },
  { "a stale answer is granted", "rules/entry.c",
    "  if (entry->fresh) {\n    entry->state = EL_ENTRY_HELD;",
    "  if (now_ms != 0) {\n    entry->state = EL_ENTRY_HELD;" },
  { "granted before the lease is proven", "rules/entry_answer.c",
    "  entry->state = EL_ENTRY_PROVING;\n  entry->fresh = true;",
    "  entry->state = EL_ENTRY_HELD;\n  entry->fresh = true;\n"
      .. "  el_entry_push(out, EL_ENTRY_GRANTED)->place.rev = entry->rev;" },
  { "a key without a lease", "rules/recipe.c",
    ".value = value,\n .lease = keys->lease};",
    ".value = value};" },
  { "a key that overwrites", "rules/recipe.c",
    "to->compare = (el_compare){\n .test = EL_CREATE_REV_IS, .key = el_keys_own(keys), .rev = 0};",
    "to->compare = (el_compare){.test = EL_CREATE_REV_BELOW,"
      .. " .key = el_keys_own(keys), .rev = INT64_MAX};" },
  { "the enqueue sees only itself", "rules/recipe.c",
    "to->then[1] = list(keys, EL_SORT_YOUNGEST, 2);",
    "to->then[1] = list(keys, EL_SORT_YOUNGEST, 1);" },
  { "a repeated enqueue is sure", "rules/recipe.c",
    "event->mine = place_of_own(&answer->results[0]);\n event->unsure = true;",
    "event->mine = place_of_own(&answer->results[0]);" },
  { "a repeated enqueue is blind to its key", "rules/recipe.c",
    "event->mine = place_of_own(&answer->results[0]);\n event->unsure = true;",
    "event->unsure = true;" },
  { "a try looks at its own key only", "rules/recipe.c",
    "el_keys_range(keys, &to->compare.key, &to->compare.range_end);",
    "to->compare.key = el_keys_own(keys);" },
  { "a try is bound by nothing", "rules/recipe.c",
    ".rev = action->bound};",
    ".rev = INT64_MAX};" },
  { "a try takes what is locked for free", "rules/recipe.c",
    "event->locked = event->older.rev != 0;",
    "event->locked = false;" },
  { "a try is always sure", "rules/recipe.c",
    "event->unsure =\n !action->all && others && !event->locked && answer->results[1].more;",
    "event->unsure = others && event->rev < 0;" },
  { "the look sees who is younger", "rules/recipe.c",
    "to->then[1].max_create_rev = rev - 1;",
    "to->then[1].max_create_rev = INT64_MAX;" },
  { "the look is never linearizable", "rules/recipe.c",
    "to->then[0].serializable = to->then[1].serializable = action->serializable;",
    "to->then[0].serializable = to->then[1].serializable = true;" },
  { "the look is always sure", "rules/recipe.c",
    "event->unsure = !action->all && others && event->older.rev == 0 &&"
      .. "\n answer->results[1].more;",
    "event->unsure = others && event->rev < 0;" },
  { "a delete without a guard", "rules/recipe.c",
    "to->compare = (el_compare){\n .test = EL_CREATE_REV_IS,"
      .. " .key = el_keys_own(keys), .rev = guard};",
    "to->compare = (el_compare){.test = EL_CREATE_REV_BELOW, .key = el_keys_own(keys),"
      .. " .rev = INT64_MAX - 0 * guard};" },
  { "a delete that found nothing found it", "rules/recipe.c",
    "event->deleted = answer->succeeded;",
    "event->deleted = true;" },
  { "every key below the name counts", "rules/recipe.c",
    "if (counts(keys, kv, &place)) {",
    "if (counts(keys, kv, &place) || kv->create_rev > 0) {" },
  { "an overwritten key looks like ours", "rules/recipe.c",
    ".lease = result->kvs[0].lease};",
    ".lease = result->kvs[0].lease != 0 ? result->kvs[0].lease : 1};" },
}

-- ---- files and commands -----------------------------------------------------

local function read(file)
  local handle = assert(io.open(file, "rb"))
  local text = handle:read "*a"
  handle:close()
  return text
end

local function write(file, text)
  local handle = assert(io.open(file, "wb"))
  handle:write(text)
  handle:close()
end

-- What the command prints, and an empty string if it can't be run.
local function run(command, ...)
  local pipe = assert(io.popen(command:format(...) .. " 2>&1"))
  local text = pipe:read "*a"
  pipe:close()
  return text
end

local function shell(command, ...)
  local text = run(command .. " && echo ok-so-far", ...)
  if not text:find "ok%-so%-far\n$" then error(text, 0) end
end

-- The text with the one place changed, however it is laid out.
local function replace(text, what, by)
  local pattern = what:gsub("%p", "%%%0"):gsub("%s+", "%%s+")
  local first, last = text:find(pattern)
  if not first then return nil, "it is not in the source any more" end
  if text:find(pattern, last + 1) then return nil, "it is there twice" end
  return text:sub(1, first - 1) .. by .. text:sub(last + 1)
end

-- ---- building and judging ---------------------------------------------------

local dir = os.tmpname()
os.remove(dir)

local function prepare()
  shell("mkdir -p '%s/src/base' '%s/src/etcd' && cp -r src/rules '%s/src'", dir, dir, dir)
  shell("cp src/base/*.h src/base/error.c src/base/alloc.c '%s/src/base'", dir)
  shell("cp src/etcd/txn.h '%s/src/etcd'", dir)
  shell("for c in spec/sim/*.c; do %s -std=c11 -D_GNU_SOURCE -O2 -Isrc"
    .. " -c $c -o '%s'/$(basename $c .c).o || exit 1; done", CC, dir)
end

-- The first violation, nil if there is none.
local function judge()
  local text, seed, violation
  shell("%s -std=c11 -D_GNU_SOURCE -O2 -I'%s/src' '%s'/*.o '%s'/src/*/*.c"
    .. " -o '%s/sim'", CC, dir, dir, dir, dir)
  text = run("'%s/sim' --first --count %d", dir, COUNT)
  seed, violation = text:match "FAIL seed (%d+): ([^:\n]+)"
  if not seed and not text:find ", 0 failed\n$" then return "?", text end
  return seed, violation
end

local function try(mutant)
  local name, file, what, by = mutant[1], mutant[2], mutant[3], mutant[4]
  local original = read("src/" .. file)
  local text, why = replace(original, what, by)
  if not text then return false, name .. ": " .. why end
  write(dir .. "/src/" .. file, text)
  local seed, violation = judge()
  write(dir .. "/src/" .. file, original)
  if not seed then return false, name end
  return true, ("%-40s %-16s seed %s"):format(name, violation, seed)
end

local function judge_all()
  local caught, survived = 0, 0
  local function judge_one(mutant)
    local ok, text = try(mutant)
    print((ok and "caught    " or "SURVIVED  ") .. text)
    io.stdout:flush()
    if ok then caught = caught + 1 else survived = survived + 1 end
  end
  for _, mutant in ipairs(MUTANTS) do
    if mutant[1]:find(PATTERN) or mutant[2]:find(PATTERN) then judge_one(mutant) end
  end
  print(("%d caught, %d survived"):format(caught, survived))
  return survived == 0
end

local function main()
  prepare()
  local seed, violation = judge()
  if not seed then return judge_all() end
  print(("not even mutated: seed %s, %s"):format(seed, violation))
  return false
end

local ok, result = pcall(main)
run("rm -rf '%s'", dir)
if not ok then io.stderr:write(tostring(result), "\n") end
os.exit(ok and result and 0 or 1)
