-- Tests the comparison with other lock clients in bench/: it counts holds, detects two holders at
-- once, and reports what it has measured. The tests measure no speed.
-- Needs: one plain member, cqueues.

local Crowd = require "bench.crowd"
local Race = require "bench.races.locks"
local compare = require "bench.compare"
local draw = require "bench.draw"
local entrants = require "bench.entrants"
local report = require "bench.report"
local rows = require "bench.rows"
local timeline = require "bench.family.timeline"

local function crowd_of(entrant, work, name)
  local crowd = assert(Crowd.start(entrant, work, suite.endpoint(), "bench_spec/" .. name))
  finally(function() crowd:stop() end)
  return crowd
end

-- An entrant of the comparison that does its work without taking a lock.
local RECKLESS = {
  argv = { uv.exepath(), "spec/support/programs/child.lua", [[
    local job = require("dkjson").decode((...))
    require("bench.peers.owners").serve(job, function()
      return function(work) work() end
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

describe("the timeline of a lock mode", function()
  local function any() return true end

  it("has each hold by time and by name, and the first failed call", function()
    local holds, failure = timeline.read {
      "ready", "in 1.5 0.25 7 a b", "out 2.5", "failed lock: gone", "in 3 0 9 c" }
    assert.same({
      { from = 1.5, waited = 0.25, token = 7, what = "a b", to = 2.5 },
      { from = 3, waited = 0, token = 9, what = "c" },
    }, holds)
    assert.equal("failed lock: gone", failure)
    local lists = timeline.by_name(holds)
    assert.same({ { holds[1] }, { holds[1] }, { holds[2] } }, { lists.a, lists.b, lists.c })
  end)

  it("counts overlapping holds, but no hold that begins when another ends", function()
    local holds = { { from = 1, to = 2 }, { from = 2, to = 4 }, { from = 3, to = 5 } }
    assert.equal(2, timeline.most(holds))
    assert.equal(1, timeline.overlaps(holds, any))
    assert.equal(0, timeline.overlaps(holds, function(new) return new.from < 3 end))
    holds[3].from = 4
    assert.equal(1, timeline.most(holds))
    assert.equal(0, timeline.overlaps(holds, any))
  end)
end)

describe("an entrant of the comparison", function()
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
    local requests = crowd_of(entrants.etcdlock, work, "asked"):window { holds = 50 }.requests
    assert.is_true(requests >= 2 and requests < 3, requests)
    -- The client watches a lingering key, to learn of contenders and of the deletion of the key. It
    -- sends the requests for this watch only once. On a busy machine that may be later than in the
    -- first window.
    local lingering = crowd_of(entrants.etcdlock_linger, work, "lingering")
    wait.eventually(function()
      local sent = lingering:window { holds = 1000 }.requests
      return sent == 0, sent
    end, 5, "a window without a request")
  end)

  it("that measures a bare put and delete reports a rate and leaves no key", function()
    local crowd = crowd_of(entrants.etcdlock_put, { processes = 1, owners = 2, names = 2 }, "put")
    await_some("rate", function() return crowd:window { seconds = 0.3 } end)
    assert.same({}, suite.etcd():keys "bench_spec/put/0/floor")
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

  it("is left out with the reason if it cannot start or cannot continue", function()
    local excuses = {}
    local row = { id = "bench_spec", work = { processes = 1, owners = 1, names = 1 } }
    local others = {
      absent = { label = "nobody", argv = {}, needs = "build/nowhere" },
      broken = { label = "fails", argv = { "sh", "-c", "echo out of order >&2" } },
      weak = { label = "gives up", argv = { "sh", "-c", "echo ready; read a; echo tired >&2" } },
    }
    for id, entrant in pairs(others) do entrants[id] = entrant end
    finally(function()
      for id in pairs(others) do entrants[id] = nil end
    end)
    local race = Race.start(row, { "etcdlock", "absent", "broken", "weak" }, function(label, why)
      excuses[label] = why
    end)
    finally(function() race:stop() end)
    assert.same({
      nobody = "there is no build/nowhere", fails = "out of order", ["gives up"] = "tired",
    }, excuses)
    assert.same({ "etcdlock" }, race.ids)
    await_some("rate", function() return race:round(1, { seconds = 0.2 }).etcdlock end)
  end)
end)

-- ---- the report ------------------------------------------------------------------------

local function samples(values, field)
  local list = {}
  for i, value in ipairs(values) do
    list[i] = { [field or "rate"] = value, least = 0.5, broken = 0 }
  end
  return list
end

local function results_of(row)
  return {
    about = {
      date = "2026-01-31", etcdlock = "1.0", rounds = 3, seconds = 2, cores = 2, etcd = "3.4",
      lua = "Lua",
    },
    rows = { row }, excuses = {},
  }
end

local function row_of(changes)
  local row = {
    id = "row", title = "the work", short = "work", processes = 2, figures = {},
    limits = { { id = "limit", label = "a limit", rate = 100 } },
    promised = { go = 8, limit = 1 },
    entrants = {
      { id = "etcdlock", label = "etcdlock", samples = samples { 100, 10, 90 } },
      { id = "go", label = "Go", samples = samples { 10, 2, 10 } },
    },
  }
  for field, value in pairs(changes or {}) do row[field] = value end
  return row
end

describe("the report of the comparison", function()
  it("compares within each round, and has the median and range of the ratios", function()
    local go, limit = (table.unpack or unpack)(compare.comparisons(row_of()))
    assert.same({ median = 9, low = 5, high = 10 }, go.ratio)
    assert.same({ median = 0.9, low = 0.1, high = 1 }, limit.ratio)
    assert.equal(0.5, go.least)
  end)

  it("draws charts without inf and nan if an entrant did no work in a round", function()
    local row, charts = row_of(), {}
    row.entrants[1].samples[1].rate = 0
    row.entrants[2].samples = samples { 0, 0, 10 }
    local go = compare.comparisons(row)[1]
    assert.same({ median = 9, low = 1, high = math.huge }, go.ratio)
    draw(results_of(row), function(name, svg) charts[name] = svg end)
    for _, svg in pairs(charts) do
      assert.is_nil(svg:find '"%-?inf"' or svg:find "[MH]%-?inf" or svg:find "[MH\"]%-?nan")
    end
  end)

  it("states which targets are reached and which are missed", function()
    local text = report.text(results_of(row_of()))
    assert.matches("Go +9.00 × %(5.00 to 10.0%), target 8.00: reached", text)
    assert.matches("a limit +0.90 × %(0.10 to 1.00%), target 1.00: MISSED", text)
  end)

  it("fails, and says so, if etcdlock had two holders at once", function()
    local row = row_of()
    assert.is_true(compare.is_exclusive(results_of(row)))
    row.entrants[1].samples[2].broken = 3
    assert.is_false(compare.is_exclusive(results_of(row)))
    assert.matches("etcdlock: TWO HELD IT AT ONCE, 3 times", report.text(results_of(row)))
  end)

  it("states the figures that only etcdlock has", function()
    local row = row_of {
      entrants = { { id = "etcdlock", label = "etcdlock", samples = samples({ 3, 1, 2 }, "cpu") } },
      limits = {}, figures = { { field = "cpu", label = "% of a core", at_most = 1 } },
    }
    assert.matches("%% of a core +2.00 +%(1.00 to 3.00%), target at most 1.00: MISSED",
      report.text(results_of(row)))
  end)

  it("draws a bar for each entrant and each limit", function()
    local charts = {}
    draw(results_of(row_of()), function(name, svg) charts[name] = svg end)
    assert.matches(">work</text>.*>9.00 ×</text>.*>1.00 ×</text>", charts.beside_go)
    assert.matches(">etcdlock</text>.*>Go</text>.*>a limit</text>.*</svg>\n$", charts.row)
  end)

  it("labels the axis, and draws a bar of a visible length for etcdlock in each group", function()
    local charts = {}
    draw(results_of(row_of()), function(name, svg) charts[name] = svg end)
    assert.matches(">times as fast as Go's clientv3 %(logarithmic%)</text>", charts.beside_go)
    assert.matches(">times as fast as etcdlock %(logarithmic%)</text>", charts.row)
    for _, svg in pairs(charts) do
      assert.matches(">1</text>.*>2</text>", svg)
      local bars = 0
      for width in svg:gmatch 'width="([%d.]+)" height="16" fill="#1f6feb"' do
        assert.is_true(tonumber(width) > 20, width)
        bars = bars + 1
      end
      assert.equal(1, bars)
    end
  end)

  it("calls a missed target missed", function()
    local charts = {}
    local row = row_of { promised = { go = 10 } }
    draw(results_of(row), function(name, svg) charts[name] = svg end)
    assert.matches(">9.00 × missed</text>", charts.beside_go)
    assert.is_truthy(report.markdown(results_of(row)):find("| ≥ 10.0, **missed** |", 1, true))
  end)

  it("replaces only the marked parts of the pages, also if published twice", function()
    local directory, here = temporary.directory(), uv.cwd()
    local bench_page = directory .. "/bench/README.md"
    local other_page = directory .. "/doc/performance.md"
    proc.run { "mkdir", "-p", directory .. "/bench/out/all", directory .. "/doc" }
    write_file(directory .. "/bench/out/all/results.json", json.encode(results_of(row_of())))
    write_file(directory .. "/bench/out/scale.md", "| new |\n")
    write_file(bench_page,
      "before\n<!-- figures of make bench -->\nold\n<!-- end of the figures -->\nafter\n")
    write_file(other_page, "<!-- figures of make profile -->\nkept\n<!-- end of the figures -->\n"
      .. "<!-- figures of make scale -->\nold\n<!-- end of the figures -->\nafter\n")
    for _ = 1, 2 do
      local out, code, err = proc.run_lua(here .. "/bench/publish.lua", {}, {
        cwd = directory, env = { LUA_PATH = here .. "/?.lua;;" },
      })
      assert.same({ 0, "" }, { code, err })
      assert.matches("nothing of make profile: run it first", out)
    end
    local page = read_file(bench_page)
    assert.matches("^before\n<!%-%- figures of make bench %-%->\n!.*\nMedians", page)
    assert.matches(" etcdlock 1.0 on 2026-01-31, 2 cores, etcd 3.4, Lua.\n", page, 1, true)
    assert.matches("\n<!%-%- end of the figures %-%->\nafter\n$", page)
    assert.is_nil(page:find "old")
    assert.matches("| the work | Go | **9.00** | 5.00 to 10.0 | ≥ 8.00, reached |", page, 1, true)
    assert.matches("</svg>", read_file(directory .. "/bench/charts/beside_go.svg"))
    assert.equal("<!-- figures of make profile -->\nkept\n<!-- end of the figures -->\n"
      .. "<!-- figures of make scale -->\n| new |\n<!-- end of the figures -->\nafter\n",
      read_file(other_page))
  end)
end)

describe("the rows of the comparison", function()
  -- Returns a set of the titles of the rows on |page| that miss a target.
  local function missed(page)
    local titles, title = {}, nil
    for line in page:gmatch "\n| ([^\n]*)" do
      title = line:match "^([^|]-) |" ~= "" and line:match "^([^|]-) |" or title
      if line:find("**missed**", 1, true) then titles[title] = true end
    end
    return titles
  end

  it('that miss a target are listed in "Missed targets"', function()
    local told = read_file "doc/performance.md":match "\n## Missed targets\n(.-)\n## "
    local reasons, shorts = "", {}
    for reason in told:gmatch "\n|[^\n]*" do reasons = reasons .. reason end
    for _, row in ipairs(rows) do shorts[row.title] = row.short or row.title end
    local titles = missed(read_file "bench/README.md")
    assert.is_truthy(next(titles))
    for title in pairs(titles) do
      assert.is_truthy(reasons:find(shorts[title], 1, true), title)
    end
  end)

  it("name only entrants and limits that exist", function()
    for _, row in ipairs(rows) do
      local known = {}
      for _, id in ipairs(row.entrants) do known[id] = row.race ~= "locks" or entrants[id] end
      for _, limit in ipairs(row.limits or {}) do known[limit.id] = true end
      for id in pairs(row.promised or {}) do assert.is_truthy(known[id], row.id .. ": " .. id) end
      for _, id in ipairs(row.quick or {}) do assert.is_truthy(known[id], row.id .. ": " .. id) end
      for _, id in ipairs(row.entrants) do assert.is_truthy(known[id], row.id .. ": " .. id) end
    end
  end)
end)
