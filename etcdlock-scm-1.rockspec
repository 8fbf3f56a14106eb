rockspec_format = "3.0"
package = "etcdlock"
version = "scm-1"
source = {
  url = "git+file://.", -- built from a checkout: `luarocks make`
}
description = {
  summary = "A distributed lock for Lua, kept by etcd",
  detailed = [[
    Fair, fenced, reentrant locks, released when their holder dies and honest
    about being lost. Needs a C compiler, make, pkg-config, protoc-c and the
    headers of gRPC core, protobuf-c and uthash; at run time lua-cjson, which
    distributions package too (Debian: lua-cjson).
  ]],
  license = "MIT",
}
dependencies = {
  "lua >= 5.1",
}
build = {
  type = "make",
  variables = {
    LUA_VERSION = "$(shell $(LUA) -e 'print(_VERSION:sub(5))')",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    CFLAGS = "$(CFLAGS)",
  },
  install_variables = {
    PREFIX = "$(PREFIX)", -- of the rock: the annotations for LuaLS
    LUADIR = "$(LUADIR)",
    LIBDIR = "$(LIBDIR)",
  },
}
