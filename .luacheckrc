std = "min"
max_line_length = 100

-- Functions that only some of the supported Lua versions have.
read_globals = {
  "jit",
  "loadstring",
  "unpack",
  coroutine = { fields = { "close" } },
  table = { fields = { "unpack" } },
}

files["spec"] = { std = "+busted" }
-- The globals of spec/support/harness/fixture.lua.
files["spec/**/*_spec.lua"] = {
  read_globals = {
    "Certs", "Etcd", "NONE", "Nginx", "Stage", "Swallow", "assert_fails",
    "client_options", "clients", "cluster", "command", "connect", "documents",
    "error_rows", "etcd", "etcdlock", "exposition", "go_programs", "http",
    "json", "leaks", "loops", "make", "matrix",
    "port", "prefix", "proc", "protobuf", "read_file", "releases", "remote", "rounds", "sale",
    "scripted_client", "secured", "server", "session", "stories", "suite", "tasks", "temporary",
    "third", "tls", "uv", "variables", "wait", "wakings",
    "clear_etcd", "core", "cqueues", "nginx", "start_nginx",
    "with_nginx", "write_file",
    client = { other_fields = true, fields = { _run_txn = { read_only = false } } },
    other = { other_fields = true, fields = { _run_txn = { read_only = false } } },
  },
}
files["examples/openresty"] = { std = "+ngx_lua" }
files["examples/flash_sale/shop.lua"] = { std = "+ngx_lua" }
files["bench/peers/nginx_redis.lua"] = { std = "+ngx_lua" }
files["lua/resty"] = { std = "+ngx_lua" }
files["spec/mutants/lua_coverage.lua"] = {
  globals = { "coroutine.create", "coroutine.wrap", "os.exit", "newproxy" },
}
