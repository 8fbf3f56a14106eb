-- The rows of the benchmark, in the order in which the reports show them. The first entrant of a
-- row is etcdlock. The others are compared with it.
--
--   id        the name of the row on the command line, and of its chart
--   title     the name of the row in the reports
--   short     the name of the row in the chart that compares etcdlock with Go
--   race      the file below races/ that runs the row
--   work      for the race `locks`: `processes`, their number; `owners` and `names`, their numbers
--             in each process; `hold`, seconds of each hold
--   entrants  ids: keys of entrants.lua, or of LABELS in the race
--   quick     the entrants in `make bench-quick`; nil: `make bench-quick` omits the row
--   holds     number of holds of each owner in a round; nil: a round is a window of time
--   rounds    number of rounds; nil: the default of run.lua
--   seconds   length of the window of a round; nil: the default of run.lua
--   limits    a list of fixed rates with which etcdlock is compared
--   promised  id of an entrant or a limit -> the target: the least value of the rate of etcdlock,
--             divided by the rate of that entrant or limit
--   figures   figures of the samples of etcdlock alone: the field of the sample, its label, and
--             `at_most`, the target, if there is one

return {
  {
    id = "uncontended",
    title = "lock + unlock of a free lock, one at a time",
    short = "free lock",
    race = "locks",
    work = { processes = 1, owners = 1, names = 1 },
    entrants = {
      "etcdlock", "etcdlock_put", "go", "go_put", "python", "node", "redis", "redis_fsync",
    },
    quick = { "etcdlock", "etcdlock_put", "go" },
    promised = { etcdlock_put = 0.95, go = 1 },
    -- More rounds than the default, because the speed of the disk varies more than the entrants
    -- differ.
    rounds = 15,
    seconds = 0.7,
  },
  {
    id = "names",
    title = "64 names at once in one process",
    short = "64 names at once",
    race = "locks",
    work = { processes = 1, owners = 64, names = 64 },
    entrants = { "etcdlock", "etcdlock_put", "go", "redis", "redis_fsync" },
    quick = { "etcdlock", "etcdlock_put", "go" },
    promised = { etcdlock_put = 0.9, go = 2 },
  },
  {
    id = "owners",
    title = "100 owners in one process, one name",
    short = "100 owners, one name",
    race = "locks",
    work = { processes = 1, owners = 100, names = 1 },
    entrants = { "etcdlock", "go", "redis" },
    quick = { "etcdlock", "go" },
    promised = { go = 20 },
  },
  {
    id = "processes_2",
    title = "2 processes, one name",
    short = "2 processes, one name",
    race = "locks",
    work = { processes = 2, owners = 1, names = 1 },
    entrants = { "etcdlock", "go", "python", "node", "redis" },
    quick = { "etcdlock", "go" },
    promised = { go = 5 },
    -- More rounds than the default, because the rate of Go depends on the phase of a timer of etcd
    -- (100 ms) at the time when the watch of Go begins.
    rounds = 15,
    seconds = 0.7,
  },
  {
    id = "processes_16",
    title = "16 processes, one name",
    short = "16 processes, one name",
    race = "locks",
    work = { processes = 16, owners = 1, names = 1 },
    entrants = { "etcdlock", "go", "redis" },
    promised = { go = 2 },
  },
  {
    id = "holds",
    title = "1,000 holds of 50 ms under one lock: 20 processes, 50 owners each, once",
    short = "1,000 holds of 50 ms",
    race = "locks",
    work = { processes = 20, owners = 50, names = 1, hold = 0.05 },
    holds = 1,
    entrants = { "etcdlock", "go" },
    limits = { { id = "limit", label = "20/s, more is not possible", rate = 20 } },
    promised = { limit = 0.98 },
  },
  {
    id = "retake",
    title = "taking a lingering lock again",
    short = "lingering lock",
    race = "locks",
    work = { processes = 1, owners = 1, names = 1 },
    entrants = { "etcdlock_linger", "etcdlock_released", "go" },
    limits = { { id = "limit", label = "50,000/s", rate = 50000 } },
    promised = { limit = 1 },
    figures = {
      { field = "requests", label = "requests about the lock, each", at_most = 0 },
    },
  },
  {
    id = "nginx",
    title = "one hot name in one nginx worker, 50 connections at once",
    short = "one name in nginx",
    race = "nginx",
    entrants = { "etcdlock", "shared_dict", "redis" },
    limits = { { id = "limit", label = "10,000 requests/s", rate = 10000 } },
    promised = { limit = 1 },
    figures = {
      { field = "tail", label = "p99 of a request beside its median, as wrk has it", at_most = 3 },
    },
  },
  {
    id = "sale",
    title = "make demo-openresty: its 500 requests with the lock",
    short = "the demo in nginx",
    race = "sale",
    entrants = { "etcdlock", "without" },
    promised = { without = 1 / 3 },
  },
  {
    id = "command",
    title = "a command under a free lock, one at a time",
    race = "command",
    entrants = { "etcdlock", "etcdctl" },
    quick = { "etcdlock", "etcdctl" },
    figures = {
      { field = "more_ms", label = "ms more than `etcdctl lock` needs", at_most = 60 },
    },
  },
  {
    id = "held",
    title = "10,000 locks held by one client",
    race = "held",
    seconds = 4,
    entrants = { "etcdlock" },
    figures = {
      { field = "core_bytes", label = "bytes of the core's structs, each", at_most = 1024 },
      { field = "bytes", label = "bytes of the process's memory, each" },
      { field = "lua_bytes", label = "bytes of them on Lua's heap" },
      { field = "cpu_percent", label = "% of a core while idle", at_most = 1 },
      { field = "requests", label = "requests to etcd per second while idle" },
    },
  },
}
