-- Tests that the layer check reports each broken rule, and nothing else. Each test adds a file to a
-- small tree that follows all rules.
-- Needs: one plain member, no sanitizer.

local HEADERS = {
  "base/alloc", "base/clock", "base/error", "base/hash", "tls/tls", "net/channel",
  "etcd/kv", "etcd/txn", "protocol/key", "lock/client", "nginx/server", "lua/core",
}

local C, KEY, LOCK = "src/base/new.c", "src/protocol/new.c", "src/lock/new.c"
local H, LUA = "src/base/new.h", "lua/etcdlock/new.lua"

-- A header with the comment |text| above a prototype.
local function prototype(text)
  return "/* new: a header. */\n" .. text .. "int el_new_get(int a,\n  int b);\n"
end

-- A source file that includes |header|.
local function including(header, name)
  return ("/* %s: a file. */\n#include %s\n"):format(name or "new", header)
end

-- What happens, the file that is added, its text, the message (nil: none), and other files that are
-- added before, by name.
local CASES = {
  { "accepts a file of a higher folder that includes lower ones", LOCK,
    including '"base/error.h"\n#include "lock/client.h"\n#include "base/hash.h"' },
  { "reports a source file that is in no folder of the layout", "src/new.c",
    "/* new: lost. */\n", "src/new.c:1: this is not a folder of src/README.md" },
  { "reports a header that is in no folder of the layout", "src/attic/new.h",
    "/* new: lost. */\n", "src/attic/new.h:1: this is not a folder of src/README.md" },
  { "reports a folder below a folder", "src/lock/deep/new.c",
    "/* new: lost. */\n", "src/lock/deep/new.c:1: this is not a folder of src/README.md" },
  { "reports a source file whose first line does not have its name", C,
    "/* old: another one. */\n", C .. ":1: must start with /* new: " },

  { "reports a folder that includes a higher one", C, including '"lock/client.h"',
    C .. ":2: base/ must not include lock/: base/new.c > lock/client.h" },
  { "reports a folder that includes a higher one through another header", KEY,
    including '"protocol/key.h"', KEY .. ":2: protocol/ must not include lock/: "
      .. "protocol/new.c > protocol/key.h > lock/client.h",
    { ["src/protocol/key.h"] = including('"lock/client.h"', "key") } },
  { "accepts transactions in protocol/", KEY, including '"etcd/txn.h"' },
  { "reports anything else of etcd/ in protocol/", KEY, including '"etcd/kv.h"',
    KEY .. ":2: protocol/ must not include etcd/" },
  { "accepts strings in protocol/", KEY, including "<string.h>" },
  { "reports a system header with a clock in protocol/", KEY, including "<time.h>",
    KEY .. ":2: protocol/ must not include time.h" },
  { "reports threads in protocol/", KEY, including "<pthread.h>",
    KEY .. ":2: protocol/ must not include pthread.h" },
  { "reports our clock in protocol/", KEY, including '"base/clock.h"',
    KEY .. ":2: protocol/ must not include base/: protocol/new.c > base/clock.h" },
  { "reports a clock in protocol/ through another header", KEY, including '"base/alloc.h"',
    KEY .. ":2: protocol/ must not include time.h: protocol/new.c > base/alloc.h > time.h",
    { ["src/base/alloc.h"] = including("<time.h>", "alloc") } },
  { "reports plain uthash instead of its wrapper", LOCK, including "<uthash.h>",
    LOCK .. ':2: include "base/hash.h" instead of uthash.h' },
  { "reports a header that does not exist", LOCK, including '"lock/nowhere.h"',
    LOCK .. ":2: there is no such header" },

  { "accepts a chain of includes", "src/lock/one.h", including('"lock/two.h"', "one"), nil,
    { ["src/lock/two.h"] = including('"lock/client.h"', "two") } },
  { "reports an include cycle, also through a source file and its header", LOCK,
    including '"lock/one.h"', "an include cycle: ", {
      ["src/lock/one.h"] = including('"lock/two.h"', "one"),
      ["src/lock/two.h"] = including('"lock/new.h"', "two"),
      ["src/lock/new.h"] = "/* new: a header. */\n",
    } },
  { "reports a header of gRPC that is not public", "src/net/new.h",
    including "<grpc/impl/grpc_types.h>",
    "src/net/new.h:2: grpc/impl/grpc_types.h is not a public header" },
  { "reports a foreign library that is included through another header", LOCK,
    including '"net/new.h"',
    LOCK .. ":2: gRPC belongs to net/ only: lock/new.c > net/new.h > grpc/grpc.h",
    { ["src/net/new.h"] = including "<grpc/grpc.h>" } },

  { "reports a prototype without @thread in the comment above it", H,
    prototype "/* The sum. */\n", H .. ":3: el_new_get: no @thread" },
  { "reports a prototype whose @thread is not in the comment directly above it", H,
    prototype "/* Apart. @thread io */\n\n", H .. ":4: el_new_get: no @thread" },
  { "reports an unknown @thread", H, prototype "/* The sum. @thread main */\n",
    H .. ":3: el_new_get: @thread must be io, lua or any, not main" },
  { "accepts the threads io, lua and any", H, [[
/* new: a header. */
/* The sum.
 * @thread io */
int el_new_one(void);
/* The sum. @thread lua */
int el_new_two(void);
/* The sum. @thread any */
int el_new_three(void);
]] },
  { "accepts types, macros and static functions without @thread", H, [[
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
]] },

  { "accepts a module of the library that loads another", LUA,
    'local lock = require "etcdlock.lock"\n' },
  { "reports argparse in the library", LUA, 'local argparse = require "argparse"\n',
    LUA .. ":1: argparse is only for lua/etcdlock/command/parser.lua" },
  { "reports luv in the library", LUA, "\nlocal uv = require('luv')\n",
    LUA .. ":2: luv is only for" },
  { "reports a module of the command in the library", LUA,
    'local report = require "etcdlock.command.report"\n',
    LUA .. ":1: etcdlock.command.report is only for" },
  { "accepts a comment of 100 columns", "src/base/new.h",
    "/* new: " .. ("é"):rep(89) .. " */\n" },
  { "reports a comment of 101 columns", "src/base/new.h", "/* new: " .. ("x"):rep(90) .. " */\n",
    "src/base/new.h:1: 101 columns, more than 100" },
  { "reports unfinished work", LUA, "-- TO" .. "DO\n", LUA .. ":1: unfinished" },
}

for _, library in ipairs {
  { "gRPC", "net", "grpc/grpc.h", "etcd" }, { "OpenSSL", "tls", "openssl/ssl.h", "net" },
  { "protobuf", "etcd", "etcd.pb-c.h", "lock" },
  { "protobuf", "etcd", "protobuf-c/protobuf-c.h", "net" },
  { "Lua", "lua", "lauxlib.h", "lock" },
} do
  local name, home, header, other = (table.unpack or unpack)(library)
  local text = including("<" .. header .. ">")
  table.insert(CASES, { ("accepts %s in %s/"):format(header, home), ("src/%s/new.h"):format(home),
    text })
  table.insert(CASES, { ("reports %s in %s/"):format(header, other),
    ("src/%s/new.h"):format(other), text,
    ("src/%s/new.h:2: %s belongs to %s/ only"):format(other, name, home) })
end

describe("the layer check", function()
  for _, case in ipairs(CASES) do
    local title, file, text, message, others = (table.unpack or unpack)(case, 1, 5)

    it(title, function()
      local tree, files = temporary.directory(), { [file] = text }
      for _, header in ipairs(HEADERS) do
        files["src/" .. header .. ".h"] = ("/* %s: a header. */\n"):format(header:match "[^/]+$")
      end
      for path, other in pairs(others or {}) do files[path] = other end
      local mkdir = { "mkdir", "-p" }
      for path in pairs(files) do mkdir[#mkdir + 1] = tree .. "/" .. path:match "^(.*)/" end
      proc.run(mkdir)
      for path, content in pairs(files) do write_file(tree .. "/" .. path, content) end
      local out, code, err = proc.run_lua("spec/lint/layers.lua", { tree })
      assert.equal("", err)
      assert.equal(message and 1 or 0, code, out)
      assert.matches(message or "^$", out, 1, message ~= nil)
    end)
  end
end)
