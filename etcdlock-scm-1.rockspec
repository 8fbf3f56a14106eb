rockspec_format = "3.0"
package = "etcdlock"
version = "scm-1" -- `make dist` makes the rockspec of a release from this file
-- etcdlock has no public server yet. No host exists below .example (RFC 2606).
source = {
  url = "git+https://etcdlock.example/etcdlock.git",
}
description = {
  summary = "A distributed lock for Lua, kept by etcd",
  detailed = [[
    Fair, fenced, reentrant locks, released when their holder dies and honest
    about being lost. To build it needs, beside what stands below, a C compiler,
    GNU make and pkg-config.
  ]],
  homepage = "https://etcdlock.example",
  license = "MIT",
}
supported_platforms = { "linux" }
-- To install without a network, install Debian's packages lua-dkjson, lua-argparse and lua-luv, and
-- call luarocks with --deps-mode=none (see doc/install.md).
dependencies = {
  "lua >= 5.1",
  "dkjson",
  "argparse", -- for the command etcdlock
  "luv", -- for the command etcdlock
}
external_dependencies = {
  GRPC = { header = "grpc/grpc.h", library = "grpc" },
  PROTOBUF_C = { header = "protobuf-c/protobuf-c.h", library = "protobuf-c" },
  PROTOC_C = { program = "protoc-c" },
  OPENSSL = { header = "openssl/ssl.h", library = "ssl" },
  UTHASH = { header = "uthash.h" },
}
build = {
  type = "make",
  variables = {
    LUA = "$(LUA)",
    LUA_VERSION = "$(shell $(LUA) -e 'print(_VERSION:sub(5))')",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    PROTOC_C = "$(PROTOC_C_BINDIR)/protoc-c",
    CFLAGS = "$(CFLAGS)",
    CPPFLAGS = "-I$(GRPC_INCDIR) -I$(PROTOBUF_C_INCDIR) -I$(OPENSSL_INCDIR) -I$(UTHASH_INCDIR)",
    LDFLAGS = "-L$(GRPC_LIBDIR) -L$(PROTOBUF_C_LIBDIR) -L$(OPENSSL_LIBDIR)",
  },
  install_variables = {
    PREFIX = "$(PREFIX)", -- the directory of the rock; the annotations for LuaLS go there
    LUADIR = "$(LUADIR)",
    LIBDIR = "$(LIBDIR)",
    BINDIR = "$(BINDIR)",
    IS_ROCK = "1",
  },
}
-- No wrapper script, because the wrapper of LuaRocks would load its own modules from the current
-- directory.
deploy = { wrap_bin_scripts = false }
