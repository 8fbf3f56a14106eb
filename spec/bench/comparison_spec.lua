-- Tests the benchmark in bench/: it counts holds, detects two holders at once, and reports what it
-- has measured. The tests measure no speed.
-- Needs: one plain member, cqueues.

local Crowd = require "bench.crowd"
local bench = require "bench.run"
local charts = require "bench.charts"
local entrants = require "bench.entrants"
local faults = require "bench.faults"
local measure = require "bench.measure"
local report = require "bench.report"
local rows = require "bench.rows"
local servers = require "bench.servers"

local SERVER = {
  endpoint = suite.endpoint(), pids = function() return {} end, stop = function() end,
}

local function crowd_of(entrant, work, name)
  work.id = "bench_spec/" .. name
  local crowd = assert(Crowd.start(entrant, work, SERVER))
  finally(function() crowd:stop() end)
  return crowd
end

-- An entrant that does its work without taking a lock.
local RECKLESS = {
  label = "reckless",
  argv = { uv.exepath(), "spec/support/programs/child.lua", [[
    local job = require("dkjson").decode((...))
    require("bench.peers.owners").serve(job, function()
      return function(work)
        work()
        require("cqueues").sleep(0)
      end
    end)
  ]] },
}

-- Calls |work| until it returns a sample with a |field| above 0, and returns that sample: on a busy
-- machine a short window may contain no hold.
local function await_some(field, work)
  return wait.eventually(function()
    local sample = work()
    return sample[field] > 0 and sample
  end)
end

describe("an entrant of the benchmark", function()
  it("reports a rate of lock and unlock pairs, and no two holders at once", function()
    for _, work in ipairs {
      { processes = 1, owners = 1, names = 1 },
      { processes = 1, owners = 8, names = 8 },
      { processes = 2, owners = 4, names = 1, hold = 0.001 },
    } do
      local crowd = crowd_of(entrants.etcdlock, work, "lock")
      for _ = 1, 2 do
        local sample = await_some("rate", function() return crowd:window { seconds = 0.3 } end)
        assert.equal(0, sample.broken)
      end
    end
  end)

  it("ends a window after the given number of holds for each owner", function()
    local crowd = crowd_of(entrants.etcdlock,
      { processes = 2, owners = 5, names = 1, hold = 0.02 }, "holds")
    local sample = crowd:window { holds = 2 }
    assert.is_true(sample.rate > 0 and sample.rate <= 50, sample.rate)
    assert.equal(1, sample.least)
  end)

  it("reports 2 to 3 requests for each lock and unlock, and 0 with linger", function()
    local work = { processes = 1, owners = 1, names = 1 }
    local function requests_of(crowd, holds)
      return crowd:window({ holds = holds }).figures.requests[1]
    end
    local requests = requests_of(crowd_of(entrants.etcdlock, work, "asked"), 50)
    assert.is_true(requests >= 2 and requests < 3, requests)
    -- The client watches a lingering key, to learn of contenders and of the deletion of the key. It
    -- sends the requests for this watch only once. On a busy machine that may be later than in the
    -- first window.
    local lingering = crowd_of(entrants.etcdlock_linger, work, "lingering")
    wait.eventually(function()
      local sent = requests_of(lingering, 1000)
      return sent == 0, sent
    end, 5, "a window without a request")
  end)

  it("reports the times of handoffs between processes", function()
    local crowd = crowd_of(entrants.etcdlock, { processes = 2, owners = 1, names = 1 }, "handoff")
    local times = crowd:window({ holds = 20 }).figures.handoff
    assert.is_true(#times >= 1 and #times < 40, #times)
    for _, time in ipairs(times) do assert.is_true(time > 0, time) end
  end)

  it("that measures a bare put and delete reports a rate and leaves no key", function()
    local crowd = crowd_of(entrants.bare, { processes = 1, owners = 2, names = 2 }, "put")
    await_some("rate", function() return crowd:window { seconds = 0.3 } end)
    for _, key in ipairs(etcd:keys "bench_spec/put/") do assert.is_nil(key:find "floor") end
  end)

  it("is reported if it has two holders at once, in one process or in two", function()
    for _, work in ipairs {
      { processes = 1, owners = 2, names = 1, hold = 0.005 },
      { processes = 2, owners = 1, names = 1, hold = 0.005 },
    } do
      local crowd = crowd_of(RECKLESS, work, "reckless")
      await_some("broken", function() return crowd:window { seconds = 0.3 } end)
    end
  end)

  it("is left out with one line for all rows if it is not prepared", function()
    entrants.absent = { label = "the absent one", needs = "build/nowhere" }
    entrants.missing = { label = "the missing one", needs = "build/nowhere" }
    finally(function() entrants.absent, entrants.missing = nil, nil end)
    local list, excuses = {
      { entrants = { "etcdlock", "absent", "missing" } }, { entrants = { "bare", "absent" } },
    }, {}
    bench.choose(list, nil, function(who, why) table.insert(excuses, who .. ": " .. why) end)
    assert.same({ "the absent one; the missing one: there is no build/nowhere" }, excuses)
    assert.same({ { entrants = { "etcdlock" } }, { entrants = { "bare" } } }, list)
    bench.choose(list, { bare = true }, error)
    assert.same({ { entrants = {} }, { entrants = { "bare" } } }, list)
  end)

  it("is left out with the reason if it cannot start or cannot continue", function()
    local excuses, row = {}, { id = "bench_spec", processes = 1, owners = 1, names = 1 }
    local others = {
      broken = { label = "fails", argv = { "sh", "-c", "echo out of order >&2" } },
      weak = { label = "gives up", argv = { "sh", "-c", "echo ready; read a; echo tired >&2" } },
    }
    for id, entrant in pairs(others) do entrants[id] = entrant end
    local start = servers.etcd
    servers.etcd = function() return SERVER end
    finally(function()
      servers.etcd = start
      for id in pairs(others) do entrants[id] = nil end
    end)
    local race = bench.race(row, { "etcdlock", "broken", "weak" }, function(label, why)
      excuses[label] = why
    end)
    finally(function() race:stop() end)
    assert.same({ fails = "out of order" }, excuses)
    race:round(1, { seconds = 0.2 })
    assert.equal("tired", excuses["gives up"])
    assert.same({ "etcdlock" }, race.ids)
    race:round(2, { seconds = 0.2 })
    assert.equal(2, #race.samples.etcdlock)
  end)
end)

-- ---- the report ------------------------------------------------------------------------

local function samples(rates, figure)
  local list = {}
  for i, rate in ipairs(rates) do
    list[i] = {
      rate = rate, least = 0.5, broken = 0, asked = 2, server_us = 30, client_us = 40, memory = 1,
      figures = { cpu_percent = figure and { figure[i] } },
    }
  end
  return list
end

local function results_of(row)
  return {
    about = {
      date = "2026-01-31", etcdlock = "1.0", cores = 2, system = "Debian", lua = "Lua",
      grpc = "29",
    },
    rows = { row },
    excuses = {
      { who = "Java", why = "no Java" }, { who = "Go", row = "the work", why = "tired" },
    },
  }
end

local function row_of(changes)
  local row = {
    id = "free", title = "the work", group = "main", processes = 2, figures = {},
    limits = { "100/s" }, promised = { go = 8, ["100/s"] = 1 },
    entrants = {
      {
        id = "etcdlock", label = "etcdlock", versions = { "etcd 3.4" },
        samples = samples { 100, 10, 90 },
      },
      { id = "go", label = "Go Mutex", versions = { "etcd 3.4", "client 3, go1" },
        samples = samples { 10, 2, 10 } },
    },
  }
  for field, value in pairs(changes or {}) do row[field] = value end
  return row
end

describe("the report of the benchmark", function()
  it("compares within each round, and has the median and range of the ratios", function()
    local go, limit = (table.unpack or unpack)(report.comparisons(row_of()))
    assert.same({ median = 9, low = 5, high = 10 }, go.ratio)
    assert.same({ median = 0.9, low = 0.1, high = 1 }, limit.ratio)
    assert.same({ 10, 0.5 }, { go.rate, go.least })
  end)

  it("prints numbers with three digits, and percentiles", function()
    assert.same({ "0.012", "0.12", "12.3", "1,234", "1,234,567" }, {
      measure.number(0.0123), measure.number(0.123), measure.number(12.34), measure.number(1234.4),
      measure.number(1234567),
    })
    assert.same({ median = 9, low = 1, high = 10 },
      measure.spread({ 10, 9, 8, 7, 6, 5, 4, 3, 2, 1 }, 90))
  end)

  it("states which targets are reached and which are missed", function()
    local text = report.text(row_of())
    assert.matches("Go Mutex +9.00 × %(5.00 to 10.0%); 10.0 per second; target 8.00: reached",
      text)
    assert.matches("rate of 100/s +0.90 × %(0.10 to 1.00%).-target 1.00: MISSED", text)
  end)

  it("fails, and says so, if etcdlock had two holders at once", function()
    local row = row_of()
    assert.is_true(report.is_exclusive(results_of(row)))
    row.entrants[1].samples[2].broken = 3
    assert.is_false(report.is_exclusive(results_of(row)))
    assert.matches("etcdlock: TWO HELD IT AT ONCE, 3 times", report.text(row))
  end)

  it("states the figures that only etcdlock has", function()
    local row = row_of {
      figures = { { field = "cpu_percent", percent = 50, at_most = 1 } },
      entrants = {
        { id = "held", label = "etcdlock", samples = samples({ 1, 1, 1 }, { 3, 1, 2 }) },
      },
    }
    assert.matches("%% of a core while idle: 2.00 %(1.00 to 3.00%); target at most 1.00: MISSED",
      report.text(row))
  end)

  it("draws charts, also if an entrant did no work in a round", function()
    if select(2, proc.run { "sh", "-c", "command -v gnuplot" }) ~= 0 then
      return pending "gnuplot is not installed: run make bench-quick"
    end
    local row, directory = row_of(), temporary.directory()
    row.entrants[1].samples[1].rate = 0
    row.entrants[2].samples = samples { 0, 0, 10 }
    charts(results_of(row), directory)
    for _, name in ipairs { "beside_go", "free" } do
      local svg = read_file(("%s/%s.svg"):format(directory, name))
      assert.matches("</svg>", svg)
      assert.is_nil(svg:find "[\"%s,]%-?inf" or svg:find "[\"%s,]%-?nan")
    end
    assert.matches("the work", read_file(directory .. "/beside_go.svg"))
    assert.matches("Go Mutex", read_file(directory .. "/free.svg"))
  end)

  it("replaces only the marked parts of the page, also if published twice", function()
    local directory, here = temporary.directory(), uv.cwd()
    proc.run { "mkdir", "-p", directory .. "/bench/out/all" }
    write_file(directory .. "/bench/out/all/results.json", json.encode(results_of(row_of())))
    local function marked(name, text)
      return ("<!-- figures of %s -->\n%s<!-- end of the figures -->\n"):format(name, text)
    end
    write_file(directory .. "/bench/README.md",
      "before\n" .. marked("make bench", "stale\n") .. "after\n" .. marked("a hold", "stale\n")
        .. "end\n")
    for _ = 1, 2 do
      local _, code, err = proc.run_lua(here .. "/bench/publish.lua", {}, {
        cwd = directory, env = { LUA_PATH = here .. "/?.lua;;" },
      })
      assert.same({ 0, "" }, { code, err })
    end
    local page = read_file(directory .. "/bench/README.md")
    for _, text in ipairs {
      "before\n<!-- figures of make bench -->\n![", "\n<!-- end of the figures -->\nafter\n",
      "\netcdlock 1.0 on 2026-01-31: 2 cores, Debian, Lua, gRPC core 29, client 3, "
        .. "etcd 3.4, go1.\n",
      "\n| holds per second | the work |\n| --- | --: |\n| etcdlock | 90.0 (0.50) |\n"
        .. "| Go Mutex | 10.0 (0.50) |\n",
      "| the work | times as fast as Go Mutex | **9.00** | 5.00 to 10.0 | ≥ 8.00, reached |",
      "| the work | times as fast as a rate of 100/s | **0.90** | 0.10 to 1.00 |",
      "\nNot in this run: Java: no Java.\n", "\nNot in this run: Go (the work): tired.\n",
    } do
      assert.is_truthy(page:find(text, 1, true), text)
    end
    local cost = "| the work | Go Mutex | 10.0 | 2.00 | 30.0 | 40.0 | 1.00 |"
    assert.is_truthy(page:find(cost, 1, true))
    assert.is_truthy(page:find("\nend\n", 1, true))
    assert.is_nil(page:find "stale")
  end)
end)

describe("the rows of the benchmark", function()
  it('that miss a target are listed in "Missed targets"', function()
    local told = read_file "bench/README.md":match "\n## Missed targets\n(.-)\n## "
    local count, title = 0, nil
    local figures = read_file "bench/README.md":match "^(.-)<!%-%- end of the figures"
    for line in figures:gmatch "\n| ([^\n]*)" do
      local work = line:match "^([^|]-) |"
      title = work ~= "" and work or title
      if line:find("**missed**", 1, true) then
        count = count + 1
        assert.is_truthy(told:find("\n| " .. title, 1, true), title)
      end
    end
    assert.is_true(count > 0)
  end)

  it("have a target each", function()
    for _, row in ipairs(rows.list) do
      local has_target = next(row.promised) ~= nil
      for _, figure in ipairs(row.figures) do has_target = has_target or figure.at_most ~= nil end
      assert.is_true(has_target, row.id)
    end
  end)

  it("name only entrants, figures and faults that exist", function()
    for _, row in ipairs(rows.list) do
      for _, id in ipairs(row.entrants) do assert.is_truthy(entrants[id], row.id .. ": " .. id) end
      for _, limit in ipairs(row.limits) do assert.matches("^%d+/s$", limit) end
      for _, figure in ipairs(row.figures) do
        assert.is_truthy(rows.FIGURES[figure.field], row.id .. ": " .. figure.field)
      end
      assert.is_truthy(not row.fault or faults[row.fault], row.id)
    end
  end)
end)
