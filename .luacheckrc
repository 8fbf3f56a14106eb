std = "min"
max_line_length = 100

-- Functions that only some of the supported Lua versions have.
read_globals = {
  "jit",
  "loadstring",
  "unpack",
  table = { fields = { "unpack" } },
}

files["spec"] = { std = "+busted" }
files["examples/openresty"] = { std = "+ngx_lua" }
files["lua/resty"] = { std = "+ngx_lua" }
files["spec/mutants/lua_coverage.lua"] = {
  globals = { "coroutine.create", "coroutine.wrap", "os.exit", "newproxy" },
}
