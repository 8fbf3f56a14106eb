-- The layer check goes red for every rule that is broken, and only then.

local proc = require "spec.support.programs.proc"
local uv = require "luv"

local tree

-- Adds |text| as |file| to the copy of the tree.
local function add(file, text)
  local handle = assert(io.open(tree .. "/" .. file, "w"))
  handle:write(text)
  handle:close()
end

-- What the check says about the tree |root|; nil if all is well.
local function said_of(root)
  local out, code, err = proc.run_lua("spec/lint/layers.lua", { root })
  assert.equal("", err)
  if code == 0 then return nil end
  return out
end

-- The same of the copy, with |text| as |file|.
local function check(file, text)
  add(file, text)
  return said_of(tree)
end

local function assert_red(message, file, text)
  local out = check(file, text)
  assert.is_truthy(out, "the check is green")
  assert.is_truthy(out:find(message, 1, true), out)
end

local function prototype(comment)
  return "/* new: a header. */\n" .. comment .. "int el_new_get(int a,\n  int b);\n"
end

describe("the layer check", function()
  before_each(function()
    tree = assert(uv.fs_mkdtemp((os.getenv "TMPDIR" or "/tmp") .. "/etcdlock-XXXXXX"))
    local _, code, err = proc.run { "cp", "-r", "src", "lua", "bin", tree }
    assert.equal(0, code, err)
    add("src/lock/above.h", "/* above: a header. */\n")
  end)

  after_each(function()
    proc.run { "rm", "-rf", tree }
  end)

  it("is green for the tree as it is", function()
    assert.is_nil(said_of ".")
  end)

  it("wants every source file in a folder of the house", function()
    for _, file in ipairs { "src/new.c", "src/new.h" } do
      assert_red(file .. ":1: it is in no folder of the house", file, "/* new: lost. */\n")
      os.remove(tree .. "/" .. file)
    end
    proc.run { "mkdir", "-p", tree .. "/src/attic", tree .. "/src/lock/deep" }
    assert_red("src/attic/new.c:1: it is in no folder", "src/attic/new.c", "/* new: lost. */\n")
    os.remove(tree .. "/src/attic/new.c")
    assert_red("src/lock/deep/new.c:1: it is in no folder", "src/lock/deep/new.c",
      "/* new: too deep. */\n")
  end)

  it("wants every source file to say what it is", function()
    assert_red("src/base/new.c:1: must start with /* new: ", "src/base/new.c",
      "/* old: another one. */\n")
  end)

  it("keeps a folder from including one above it", function()
    assert_red("src/base/new.c:2: base/ must not see lock/: base/new.c > lock/above.h",
      "src/base/new.c", '/* new: too low. */\n#include "lock/above.h"\n')
  end)

  it("keeps it from doing so through others", function()
    add("src/rules/key.h", '/* key: broken. */\n\n#include "lock/above.h"\n')
    assert_red("src/rules/new.c:2: rules/ must not see lock/: "
      .. "rules/new.c > rules/key.h > lock/above.h",
      "src/rules/new.c", '/* new: innocent. */\n#include "rules/key.h"\n')
  end)

  it("lets a folder include its own headers and those below", function()
    assert.is_nil(check("src/lock/new.c",
      '/* new: fine. */\n#include "base/error.h"\n#include "lock/above.h"\n'))
  end)

  it("lets rules/ speak of transactions, and of nothing else of etcd/", function()
    assert.is_nil(check("src/rules/new.c", '/* new: fine. */\n#include "etcd/txn.h"\n'))
    assert_red("src/rules/new.c:2: rules/ must not see etcd/", "src/rules/new.c",
      '/* new: impure. */\n#include "etcd/kv.h"\n')
  end)

  it("keeps clocks and threads from rules/, also through others", function()
    assert.is_nil(check("src/rules/new.c", "/* new: fine. */\n#include <string.h>\n"))
    for _, header in ipairs { "time.h", "pthread.h", "unistd.h" } do
      assert_red("src/rules/new.c:2: rules/ must not see " .. header, "src/rules/new.c",
        "/* new: impure. */\n#include <" .. header .. ">\n")
    end
    assert_red("src/rules/new.c:2: rules/ must not see base/: rules/new.c > base/clock.h",
      "src/rules/new.c", '/* new: impure. */\n#include "base/clock.h"\n')
    add("src/base/bytes.h", "/* bytes: broken. */\n#include <time.h>\n")
    assert_red("src/rules/new.c:2: rules/ must not see time.h: "
      .. "rules/new.c > base/bytes.h > time.h",
      "src/rules/new.c", '/* new: innocent. */\n#include "base/bytes.h"\n')
  end)

  it("wants uthash with our own end of a lack of memory", function()
    assert_red('src/lock/new.c:2: include "base/hash.h" instead of uthash.h', "src/lock/new.c",
      "/* new: ends the process. */\n#include <uthash.h>\n")
    assert.is_nil(check("src/lock/new.c", '/* new: fine. */\n#include "base/hash.h"\n'))
  end)

  it("wants a header that is included to be there", function()
    assert_red("src/lock/new.c:2: there is no such header", "src/lock/new.c",
      '/* new: lost. */\n#include "lock/nowhere.h"\n')
  end)

  it("finds circles, also of several files", function()
    add("src/lock/three.h", '/* three: c. */\n')
    add("src/lock/two.h", '/* two: b. */\n#include "lock/three.h"\n')
    assert.is_nil(check("src/lock/one.h", '/* one: a. */\n#include "lock/two.h"\n'))
    assert_red("a circle: ", "src/lock/three.c", '/* three: c. */\n#include "lock/one.h"\n')
  end)

  it("takes a source file and its header for one", function()
    add("src/lock/new.h", "/* new: a header. */\n")
    add("src/lock/other.h", '/* other: a header. */\n#include "lock/new.h"\n')
    assert_red("a circle: ", "src/lock/new.c",
      '/* new: asks who asks it. */\n#include "lock/other.h"\n')
  end)

  -- Two files that share a header, of which the second has |rest|.
  local function check_two(rest)
    add("src/lock/new_int.h", [[
/* new_int: shared. */
/* The first's. @thread io */
void el_new_first(void);

/* The second's. @thread io */
void el_new_second(
    void (*done)(void));
]])
    add("src/lock/new.c", [[
/* new: the first. */
#include "lock/new_int.h"

static void on_done(void) { el_new_first(); }

void el_new_first(void) { el_new_second(on_done); }
]])
    return check("src/lock/new_second.c",
      '/* new_second: the second. */\n#include "lock/new_int.h"\n\n' .. rest)
  end

  it("finds files that call each other, also behind one header", function()
    assert.is_nil(check_two [[
/* The first calls us: el_new_first(). */
static void count(void) {}

void el_new_second(
    void (*done)(void)) {
  count();
  done();
}
]])
    local circle = "a circle: lock/new.c > lock/new_second.c > lock/new.c"
    for _, call in ipairs { "el_new_first();", "done = el_new_first;" } do
      local out = check_two(
        "void el_new_second(\n    void (*done)(void)) {\n  " .. call .. "\n}\n")
      assert.is_truthy(out, "the check is green")
      assert.is_truthy(out:find(circle, 1, true), out)
    end
  end)

  it("finds what calls itself through files of several modules", function()
    add("src/base/new.h", "/* new: a header. */\n/* A. @thread any */\nvoid el_new_a(void);\n")
    add("src/base/new.c", '/* new: below. */\n#include "base/new.h"\n'
      .. "void el_new_b(void);\nvoid el_new_a(void) { el_new_b(); }\n")
    add("src/lock/new.h", "/* new: a header. */\n/* B. @thread any */\nvoid el_new_b(void);\n")
    assert_red("a circle: base/new.c > lock/new.c > base/new.c", "src/lock/new.c",
      '/* new: above. */\n#include "base/new.h"\n\nvoid el_new_b(void) { el_new_a(); }\n')
  end)

  it("wants what a header declares to be defined", function()
    assert_red("src/base/new.h:3: el_new_get is defined nowhere", "src/base/new.h",
      prototype "/* The sum. @thread any */\n")
    assert_red("src/base/new.h:3: el_new_get is defined nowhere", "src/base/new.c",
      "/* new: keeps it. */\nstatic int el_new_get(int a, int b) { return a + b; }\n")
  end)

  it("prints who includes whom, and who calls whom", function()
    local out, code = proc.run_lua("spec/lint/layers.lua", { tree, "graph" })
    assert.equal(0, code, out)
    assert.matches("\nrules/session +> base/error rules/retry\n", out)
    assert.matches("\nrules/session%.c +> base/error%.c rules/retry%.c\n", out)
  end)

  for _, world in ipairs {
    { "gRPC", "net", "grpc/grpc.h", "etcd" }, { "OpenSSL", "tls", "openssl/ssl.h", "net" },
    { "protobuf", "etcd", "etcd.pb-c.h", "lock" },
    { "protobuf", "etcd", "protobuf-c/protobuf-c.h", "net" },
    { "Lua", "lua", "lauxlib.h", "lock" },
  } do
    local name, home, header, stranger = world[1], world[2], world[3], world[4]

    it(("keeps %s in %s/, of which the others see nothing (%s)"):format(name, home, header),
      function()
        local text = "/* new: a stranger. */\n#include <" .. header .. ">\n"
        assert_red(("src/%s/new.h:2: %s belongs to %s/ only"):format(stranger, name, home),
          ("src/%s/new.h"):format(stranger), text)
        os.remove(("%s/src/%s/new.h"):format(tree, stranger))
        assert.is_nil(check(("src/%s/new.h"):format(home), text))
      end)
  end

  it("keeps a foreign world from being seen through others", function()
    add("src/net/new.h", "/* new: a header. */\n#include <grpc/grpc.h>\n")
    assert_red("src/lock/new.c:2: gRPC belongs to net/ only: "
      .. "lock/new.c > net/new.h > grpc/grpc.h", "src/lock/new.c",
      '/* new: innocent. */\n#include "net/new.h"\n')
  end)

  it("wants the thread of every public function", function()
    assert_red("src/base/new.h:3: el_new_get: no @thread", "src/base/new.h",
      prototype "/* The sum. */\n")
    assert_red("src/base/new.h:4: el_new_get: no @thread", "src/base/new.h",
      prototype "/* Apart. @thread io */\n\n")
    assert_red("src/base/new.h:3: el_new_get: @thread must be io, lua or any, not main",
      "src/base/new.h", prototype "/* The sum. @thread main */\n")
  end)

  it("accepts each of the three threads", function()
    add("src/base/new.c",
      "/* new: the sum. */\n\nint el_new_get(int a,\n  int b) { return a + b; }\n")
    for _, thread in ipairs { "io", "lua", "any" } do
      assert.is_nil(check("src/base/new.h",
        prototype("/* The sum.\n * @thread " .. thread .. " */\n")))
    end
  end)

  it("asks no thread of types, macros and static functions", function()
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

  it("keeps from the library what only the command may load", function()
    assert_red("lua/etcdlock/new.lua:1: argparse is only for lua/etcdlock/command/parser.lua",
      "lua/etcdlock/new.lua", 'local argparse = require "argparse"\n')
    assert_red("lua/etcdlock/new.lua:2: luv is only for", "lua/etcdlock/new.lua",
      "\nlocal uv = require('luv')\n")
    assert_red("lua/etcdlock/new.lua:1: etcdlock.command.texts is only for", "lua/etcdlock/new.lua",
      'local texts = require "etcdlock.command.texts"\n')
    assert.is_nil(check("lua/etcdlock/new.lua", 'local lock = require "etcdlock.lock"\n'))
  end)

  it("wants files that hold one idea", function()
    assert_red("src/base/new.c:451: 451 lines", "src/base/new.c",
      "/* new: long. */\n" .. ("\n"):rep(450))
  end)

  it("finds unfinished work", function()
    assert_red("lua/etcdlock/new.lua:1: unfinished", "lua/etcdlock/new.lua",
      "-- TO" .. "DO\n")
  end)
end)
