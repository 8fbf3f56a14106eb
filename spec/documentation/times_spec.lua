-- Tests that the documents tell the times that the code uses.
-- Needs: no sanitizer.

local core = {}
for name, value in assert(read_file "src/base/times.h"):gmatch "\n  (EL_[%u_]+) = (%d+)" do
  core[name] = tonumber(value)
end

-- Returns the number that the Lua file `path` gives to the local variable `name`.
local function lua(path, name)
  local text = assert(read_file("lua/etcdlock/" .. path))
  for names, values in text:gmatch "\nlocal ([%u_, ]+) = ([%d., ]+)" do
    local next_value = values:gmatch "[%d.]+"
    for each in names:gmatch "[%u_]+" do
      local value = next_value()
      if each == name then return tonumber(value) end
    end
  end
  error(path .. " has no " .. name)
end

local CALL = lua("client.lua", "REQUEST_TIMEOUT")
-- how long a connection that no call waits for may be silent
local SILENT = core.EL_PING_EVERY_MS + core.EL_BUSY_MS
-- the TTL in seconds from which on a hold with a keepalive every TTL/3 outlives an election: then
-- TTL - TTL/10 (the margin) - TTL/3 is as long as the election
local OFTEN_BELOW = math.floor(
  core.EL_ELECTION_MS / (1 - 1 / core.EL_MARGIN_DIVISOR - 1 / core.EL_RENEW_DIVISOR) / 1000)

-- The text with one number, which a document contains, and that number.
local TOLD = {
  ["doc/README.md"] = {
    { "at least ([%d.]+) s, and 1.2 s until the first answer", core.EL_ANSWER_MS / 1000 },
    { "and ([%d.]+) s until the first answer", core.EL_FIRST_ANSWER_MS / 1000 },
    { "with one endpoint (%d+) times as long", core.EL_ALONE_FACTOR },
    { "as long, up to ([%d.]+) s", core.EL_ALONE_MOST_MS / 1000 },
    { "it doubles: at most (%d+) times", core.EL_ANSWER_DOUBLINGS },
    { "| TTL / (%d+), at least 0.2 s", core.EL_MARGIN_DIVISOR },
    { "| TTL / 10, at least ([%d.]+) s", core.EL_MARGIN_LEAST_MS / 1000 },
    { "| TTL / 10, at least 0.2 s, at most (%d+) s", core.EL_MARGIN_MOST_MS / 1000 },
  },
  ["doc/production.md"] = {
    { "The client renews its lease every `ttl` / (%d+)%.", core.EL_RENEW_DIVISOR },
    { "a hold outlives an election of (%d+) s", core.EL_ELECTION_MS / 1000 },
    { "less than about (%d+) s, it renews more often", OFTEN_BELOW },
    { "of 4 s: up to every `ttl` / (%d+)%.", core.EL_RENEW_OFTEN_DIVISOR },
    { "On a slow network it renews every `ttl` / (%d+)%.", core.EL_RENEW_SLOW_DIVISOR },
    { "asks the next member after ([%d.]+) s,", core.EL_FIRST_ANSWER_MS / 1000 },
    { "pings, and for at most (%d+) s if it", SILENT / 1000 },
    { "later by up to `ttl` / 3, at most (%d+) s", SILENT / 1000 },
    { "From `ttl` / (%d+) on, keepalives", 4 * core.EL_SLOW_DIVISOR }, -- 4 SRTT reach TTL/4
    { "lock later, by up to ([%d.]+) s, if the lock is released", core.EL_PAUSE_LAST_MS / 1000 },
    { "Waiters read again every (%d+) s", core.EL_REREAD_MS / 1000 },
  },
  ["doc/observability.md"] = {
    { "still waits for a lock after ([%d.]+) s | info", lua("acquire.lua", "LOG_WAIT_AFTER") },
    { "still waits for a lock after ([%d.]+) s, or after `ttl` %+ 0.5 s",
      lua("client.lua", "LONG_WAIT") + lua("client.lua", "LONG_WAIT_SPARE") },
    { "for each cause at most once in (%d+) s", lua("outages.lua", "RETRY_EVERY") },
  },
  ["doc/performance.md"] = {
    { "a keepalive every `ttl` / (%d+), for", core.EL_RENEW_DIVISOR },
    { "the TTL is under (%d+) s, up to", OFTEN_BELOW },
    { "up to every `ttl` / (%d+); if", core.EL_RENEW_OFTEN_DIVISOR },
    { "a quarter of the TTL, every `ttl` / (%d+)%.", core.EL_RENEW_SLOW_DIVISOR },
    { "One read ([%d.]+) s after it begins to wait", core.EL_FIRST_READ_MS / 1000 },
    { "then one every (%d+) s, or every TTL", core.EL_REREAD_MS / 1000 },
    { "more if etcd takes longer than ([%d.]+) s", core.EL_BATCH_WAIT_MS / 1000 },
  },
  ["doc/reference.md"] = {
    { "if etcd does not answer within (%d+) s %(`unlock`", CALL },
    { "within 5 s %(`unlock`: (%d+) s%)", lua("lock.lua", "RELEASE_TIMEOUT") },
    { "refuses, the first lock comes ([%d.]+) s later", core.EL_FIRST_ANSWER_MS / 1000 },
    { "if etcd has not answered within (%d+) s; `deadlock`", lua("acquire.lua", "TRY_TIMEOUT") },
    { "0: try once, which takes up to (%d+) s", lua("acquire.lua", "TRY_TIMEOUT") },
    { "fails with `unavailable`: after (%d+) s or later", core.EL_CALL_MS / 1000 },
    { "at the latest after (%d+) s", core.EL_FIRST_CONTACT_MS / 1000 },
    { "The call waits up to (%d+) s for etcd's confirmation", lua("lock.lua", "RELEASE_TIMEOUT") },
    { "Waits at most about ([%d.]+) s for etcd", lua("client.lua", "CLOSE_TIMEOUT") },
    { "until all attempts to connect have ended: for at most (%d+) s",
      math.ceil(core.EL_CONNECT_MOST_MS / 1000 + lua("client.lua", "CLOSE_TIMEOUT")) },
    { "If the member has not answered within (%d+) s", lua("client.lua", "STATUS_TIMEOUT") },
    { "`lock:put` (%d+) s for example", CALL },
  },
  ["doc/command.md"] = {
    { "without a limit ends after (%d+) s if the cause is known", core.EL_CALL_MS / 1000 },
    { "is known, at the latest after (%d+) s", core.EL_FIRST_CONTACT_MS / 1000 },
  },
  ["doc/nginx.md"] = {
    { "until etcd answers: at most ([%d.]+) s", lua("acquire.lua", "SHORT_TRY_TIMEOUT") },
    { "or ([%d.]+) s if the client has no lease", lua("acquire.lua", "FIRST_SHORT_TRY_TIMEOUT") },
  },
  ["doc/embedding.md"] = {
    { "waits at most about ([%d.]+) s for", lua("client.lua", "CLOSE_TIMEOUT") },
  },
  ["doc/errors.md"] = {
    { "After a wait of ([%d.]+) s or more, the message names", core.EL_FIRST_READ_MS / 1000 },
    { "`unlock` waited (%d+) s", lua("lock.lua", "RELEASE_TIMEOUT") },
  },
  ["src/README.md"] = {
    { "at most ([%d.]+) s for all of them", core.EL_DIAGNOSES_STOP_MS / 1000 },
    { "the loop stays undriven for (%d+) to 4 ms", core.EL_RELEASED_MS },
    { "the loop stays undriven for 2 to (%d+) ms", 2 * core.EL_RELEASED_MS },
    { "reads every max%(TTL, (%d+) s%)", core.EL_REREAD_MS / 1000 },
    { "10 s%), first after ([%d.]+) s", core.EL_FIRST_READ_MS / 1000 },
    { "sends a keepalive at least every TTL/(%d+)", core.EL_RENEW_DIVISOR },
    { "move the hold deadline%. After (%d+) ms", core.EL_WATCH_HOLD_MS },
  },
}

it("a call of Lua without a timeout takes as long as one of the core", function()
  assert.equal(core.EL_CALL_MS / 1000, CALL)
end)

it("doctor counts the answers in a TTL as the core does", function()
  assert.equal(core.EL_TTL_ANSWERS, lua("command/doctor.lua", "ANSWERS_IN_TTL"))
end)

for path, list in pairs(TOLD) do
  for _, told in ipairs(list) do
    local pattern, number = told[1], told[2]
    it(path .. " tells the time that the code uses: " .. pattern, function()
      local text = read_file(path):gsub("%s+", " ")
      local found = assert(text:match(pattern), "the document does not contain this text")
      assert.equal(number, tonumber(found))
    end)
  end
end
