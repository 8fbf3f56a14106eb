--- The types that docstrings may use. There is no type `number`, because each numeric type tells
-- its unit.
--   luals    the type in LuaLS
--   shown    the type in the reference; nil: its name
--   plural   the plural in the reference; nil: `shown` and an "s"
--   number   the type in LuaLS of which `luals` is an alias; nil: no alias is made
--   says     the description of the alias
return {
  -- types of Lua
  string = { luals = "string" },
  boolean = { luals = "boolean" },
  ["true"] = { luals = "true" },
  ["false"] = { luals = "false" },
  ["nil"] = { luals = "nil" },
  any = { luals = "any" },
  value = { luals = "any", shown = "the value" },
  ["function"] = { luals = "function" },
  body = { luals = "fun(lock: etcdlock.Lock): any...", shown = "function" },
  listener = {
    luals = "fun(lock: etcdlock.Lock, reason: etcdlock.reason)", shown = "function",
  },
  logger = { luals = "fun(event: table)", shown = "function" },
  labels = { luals = "table<string, string>", shown = "table, name to value" },
  patterns = {
    luals = "true|string[]|fun(name: string, mode: etcdlock.mode): string?",
    shown = "true, list of strings or function",
  },
  owner = { luals = "string|number", shown = "string or number" },
  -- numbers, by unit
  seconds = { luals = "etcdlock.seconds", number = "number", says = "Fractions are allowed." },
  period = { luals = 'etcdlock.seconds|"ever"', shown = 'seconds or `"ever"`' },
  count = { luals = "integer", shown = "whole number" },
  token = {
    luals = "etcdlock.token", number = "integer", says = "It grows from holder to holder.",
  },
  revision = { luals = "integer", shown = "revision of etcd" },
  time = { luals = "integer", shown = "Unix time in seconds" },
  descriptor = { luals = "integer", shown = "file descriptor" },
  -- sets of words; a table in the docstrings describes each
  code = { luals = "etcdlock.code" },
  reason = { luals = "etcdlock.reason" },
  mode = { luals = "etcdlock.mode" },
  outcome = { luals = "etcdlock.testing.outcome" },
  -- objects and tables of etcdlock
  client = { luals = "etcdlock.Client" },
  lock = { luals = "etcdlock.Lock" },
  pending = { luals = "etcdlock.Pending" },
  semaphore = { luals = "etcdlock.Semaphore" },
  election = { luals = "etcdlock.Election" },
  observer = { luals = "etcdlock.Observer" },
  connect_options = { luals = "etcdlock.ConnectOptions", shown = "[options](#options-of-connect)" },
  lock_options = { luals = "etcdlock.LockOptions", shown = "[options](#options-of-a-lock)" },
  queues_options = { luals = "etcdlock.QueuesOptions", shown = "options as below" },
  metrics_options = { luals = "etcdlock.MetricsOptions", shown = "options as below" },
  stats = { luals = "etcdlock.Stats", shown = "table as below" },
  entry = { luals = "etcdlock.Entry", shown = "entry", plural = "entries" },
  queue = { luals = "etcdlock.Queue", shown = "queue", plural = "queues as below" },
  run = { luals = "etcdlock.Run", shown = "run as below", plural = "runs as below" },
  member = { luals = "etcdlock.Member", shown = "member", plural = "members as below" },
  operation = { luals = "string[]", shown = "table" },
  resty_module = { luals = "resty.etcdlock", shown = "module" },
  resty_lock = { luals = "resty.etcdlock.Lock", shown = "object" },
  resty_options = { luals = "resty.etcdlock.Options", shown = "options as below" },
}
