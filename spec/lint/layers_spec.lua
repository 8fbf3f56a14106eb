-- Tests that the layer check reports each broken rule, and nothing else. Each test adds a file to a
-- small tree that follows all rules.
-- Needs: one plain member, no sanitizer.

local HEADERS = {
  "base/alloc", "base/clock", "base/error", "base/hash", "tls/tls", "net/channel",
  "etcd/kv", "etcd/txn", "protocol/key", "lock/client", "nginx/server", "lua/core",
}

local tree

local function add(file, text) write_file(tree .. "/" .. file, text) end

-- Adds |text| as |file|. Returns what the check reports; nil if it reports nothing.
local function check(file, text)
  add(file, text)
  local out, code, err = proc.run_lua("spec/lint/layers.lua", { tree })
  assert.equal("", err)
  if code == 0 then return nil end
  return out
end

local function assert_reports(message, file, text)
  local out = check(file, text)
  assert.is_string(out)
  assert.matches(message, out, 1, true)
end

local function prototype(comment)
  return "/* new: a header. */\n" .. comment .. "int el_new_get(int a,\n  int b);\n"
end

describe("the layer check", function()
  before_each(function()
    tree = temporary.directory()
    local mkdir = { "mkdir", "-p", tree .. "/lua/etcdlock/command", tree .. "/bin" }
    for _, header in ipairs(HEADERS) do
      mkdir[#mkdir + 1] = tree .. "/src/" .. header:match "^[^/]+"
    end
    proc.run(mkdir)
    for _, header in ipairs(HEADERS) do
      add("src/" .. header .. ".h", ("/* %s: a header. */\n"):format(header:match "[^/]+$"))
    end
  end)

  it("accepts a tree that follows all rules", function()
    assert.is_nil(check("src/lock/new.c",
      '/* new: fine. */\n#include "base/error.h"\n#include "lock/client.h"\n'))
  end)

  it("reports a source file that is in no folder of the layout", function()
    proc.run { "mkdir", "-p", tree .. "/src/attic", tree .. "/src/lock/deep" }
    for _, file in ipairs { "src/new.c", "src/new.h", "src/attic/new.c", "src/lock/deep/new.c" } do
      assert_reports(file .. ":1: this is not a folder of src/README.md", file,
        "/* new: lost. */\n")
    end
  end)

  it("reports a source file whose first line does not have its name", function()
    assert_reports("src/base/new.c:1: must start with /* new: ", "src/base/new.c",
      "/* old: another one. */\n")
  end)

  it("reports a folder that includes a higher one", function()
    assert_reports("src/base/new.c:2: base/ must not include lock/: base/new.c > lock/client.h",
      "src/base/new.c", '/* new: too low. */\n#include "lock/client.h"\n')
  end)

  it("reports a folder that includes a higher one through another header", function()
    add("src/protocol/key.h", '/* key: broken. */\n\n#include "lock/client.h"\n')
    assert_reports("src/protocol/new.c:2: protocol/ must not include lock/: "
      .. "protocol/new.c > protocol/key.h > lock/client.h",
      "src/protocol/new.c", '/* new: innocent. */\n#include "protocol/key.h"\n')
  end)

  it("accepts transactions in protocol/, and nothing else of etcd/", function()
    assert.is_nil(check("src/protocol/new.c", '/* new: fine. */\n#include "etcd/txn.h"\n'))
    assert_reports("src/protocol/new.c:2: protocol/ must not include etcd/", "src/protocol/new.c",
      '/* new: impure. */\n#include "etcd/kv.h"\n')
  end)

  it("reports a clock or a thread in protocol/, also through another header", function()
    assert.is_nil(check("src/protocol/new.c", "/* new: fine. */\n#include <string.h>\n"))
    for _, header in ipairs { "time.h", "pthread.h", "unistd.h" } do
      assert_reports("src/protocol/new.c:2: protocol/ must not include " .. header,
        "src/protocol/new.c",
        "/* new: impure. */\n#include <" .. header .. ">\n")
    end
    assert_reports("src/protocol/new.c:2: protocol/ must not include base/: "
      .. "protocol/new.c > base/clock.h",
      "src/protocol/new.c", '/* new: impure. */\n#include "base/clock.h"\n')
    add("src/base/alloc.h", "/* alloc: broken. */\n#include <time.h>\n")
    assert_reports("src/protocol/new.c:2: protocol/ must not include time.h: "
      .. "protocol/new.c > base/alloc.h > time.h",
      "src/protocol/new.c", '/* new: innocent. */\n#include "base/alloc.h"\n')
  end)

  it("reports plain uthash instead of its wrapper", function()
    assert_reports('src/lock/new.c:2: include "base/hash.h" instead of uthash.h', "src/lock/new.c",
      "/* new: ends the process. */\n#include <uthash.h>\n")
    assert.is_nil(check("src/lock/new.c", '/* new: fine. */\n#include "base/hash.h"\n'))
  end)

  it("reports a header that does not exist", function()
    assert_reports("src/lock/new.c:2: there is no such header", "src/lock/new.c",
      '/* new: lost. */\n#include "lock/nowhere.h"\n')
  end)

  it("reports an include cycle of several files", function()
    add("src/lock/three.h", '/* three: c. */\n')
    add("src/lock/two.h", '/* two: b. */\n#include "lock/three.h"\n')
    assert.is_nil(check("src/lock/one.h", '/* one: a. */\n#include "lock/two.h"\n'))
    assert_reports("an include cycle: ", "src/lock/three.c",
      '/* three: c. */\n#include "lock/one.h"\n')
  end)

  it("treats a source file and its header as one module", function()
    add("src/lock/new.h", "/* new: a header. */\n")
    add("src/lock/other.h", '/* other: a header. */\n#include "lock/new.h"\n')
    assert_reports("an include cycle: ", "src/lock/new.c",
      '/* new: a cycle. */\n#include "lock/other.h"\n')
  end)

  for _, library in ipairs {
    { "gRPC", "net", "grpc/grpc.h", "etcd" }, { "OpenSSL", "tls", "openssl/ssl.h", "net" },
    { "protobuf", "etcd", "etcd.pb-c.h", "lock" },
    { "protobuf", "etcd", "protobuf-c/protobuf-c.h", "net" },
    { "Lua", "lua", "lauxlib.h", "lock" },
  } do
    local name, home, header, other = library[1], library[2], library[3], library[4]

    it(("accepts %s in %s/, and reports it elsewhere"):format(header, home), function()
      local text = "/* new: a header. */\n#include <" .. header .. ">\n"
      assert_reports(("src/%s/new.h:2: %s belongs to %s/ only"):format(other, name, home),
        ("src/%s/new.h"):format(other), text)
      os.remove(("%s/src/%s/new.h"):format(tree, other))
      assert.is_nil(check(("src/%s/new.h"):format(home), text))
    end)
  end

  it("reports a header of gRPC that is not public", function()
    assert_reports("src/net/new.h:2: grpc/impl/grpc_types.h is not a public header",
      "src/net/new.h", "/* new: a header. */\n#include <grpc/impl/grpc_types.h>\n")
  end)

  it("reports a foreign library that is included through another header", function()
    add("src/net/new.h", "/* new: a header. */\n#include <grpc/grpc.h>\n")
    assert_reports("src/lock/new.c:2: gRPC belongs to net/ only: "
      .. "lock/new.c > net/new.h > grpc/grpc.h", "src/lock/new.c",
      '/* new: innocent. */\n#include "net/new.h"\n')
  end)

  it("reports a prototype without @thread in the comment directly above it", function()
    assert_reports("src/base/new.h:3: el_new_get: no @thread", "src/base/new.h",
      prototype "/* The sum. */\n")
    assert_reports("src/base/new.h:4: el_new_get: no @thread", "src/base/new.h",
      prototype "/* Apart. @thread io */\n\n")
  end)

  it("accepts the threads io, lua and any, and reports others", function()
    for _, thread in ipairs { "io", "lua", "any" } do
      assert.is_nil(check("src/base/new.h", prototype("/* The sum.\n * @thread " .. thread
        .. " */\n")))
    end
    assert_reports("src/base/new.h:3: el_new_get: @thread must be io, lua or any, not main",
      "src/base/new.h", prototype "/* The sum. @thread main */\n")
  end)

  it("accepts types, macros and static functions without @thread", function()
    assert.is_nil(check("src/base/new.h", [[
/* new: nothing public. */
#ifndef EL_NEW_H
#define EL_NEW_H
#define EL_NEW(a) \
  ((a) + 1)
struct el_new {
  void (*done)(struct el_new *nw); /* called once; then free */
};
typedef void (*el_new_fn)(int a);
extern const char *const el_new_str[];
static inline int el_new_one(void) {
  if (1) {
    return 1;
  }
  return 0;
}
#endif
]]))
  end)

  it("reports a module of the library that loads what only the command may load", function()
    assert_reports("lua/etcdlock/new.lua:1: argparse is only for lua/etcdlock/command/parser.lua",
      "lua/etcdlock/new.lua", 'local argparse = require "argparse"\n')
    assert_reports("lua/etcdlock/new.lua:2: luv is only for", "lua/etcdlock/new.lua",
      "\nlocal uv = require('luv')\n")
    assert_reports("lua/etcdlock/new.lua:1: etcdlock.command.report is only for",
      "lua/etcdlock/new.lua", 'local report = require "etcdlock.command.report"\n')
    assert.is_nil(check("lua/etcdlock/new.lua", 'local lock = require "etcdlock.lock"\n'))
  end)

  it("reports unfinished work", function()
    assert_reports("lua/etcdlock/new.lua:1: unfinished", "lua/etcdlock/new.lua",
      "-- TO" .. "DO\n")
  end)
end)
