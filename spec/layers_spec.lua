-- The layer check goes red for every rule that is broken, and only then.

local uv = require "luv"
local proc = require "spec.support.proc"

local tree

-- Adds |text| as |file| to the copy of the tree and returns what the check
-- says about it, or nil if all is well.
local function check(file, text)
  if file then
    local handle = assert(io.open(tree .. "/" .. file, "w"))
    handle:write(text)
    handle:close()
  end
  local out, code, err = proc.run_lua("spec/lint/layers.lua", { tree })
  assert.equal("", err)
  if code == 0 then return nil end
  return out
end

local function assert_red(message, file, text)
  local out = check(file, text)
  assert.is_truthy(out, "the check is green")
  assert.is_truthy(out:find(message, 1, true), out)
end

local function prototype(comment)
  return "/* L3 new: a header. */\n" .. comment .. "int el_new_get(int a,\n  int b);\n"
end

describe("the layer check", function()
  before_each(function()
    tree = assert(uv.fs_mkdtemp((os.getenv "TMPDIR" or "/tmp") .. "/etcdlock-XXXXXX"))
    local _, code, err = proc.run {
      "cp", "-r", "src", "lua", "spec", "examples", "README.md", tree,
    }
    assert.equal(0, code, err)
    check("src/above.h", "/* L3 above: a header. */\n")
  end)

  after_each(function()
    proc.run { "rm", "-rf", tree }
  end)

  it("is green for the tree as it is", function()
    assert.is_nil(check())
  end)

  it("wants every source file to name its layer", function()
    assert_red("src/new.c:1: must start with its layer", "src/new.c",
      "/* new: which layer? */\n")
    assert_red("src/new.c:1: must start with its layer", "src/new.c",
      "/* L5 new: no such layer. */\n")
  end)

  it("keeps a layer from including one above it", function()
    assert_red("src/new.c:2: layer 0 includes above.h of layer 3", "src/new.c",
      '/* L0 new: too low. */\n#include "above.h"\n')
  end)

  it("lets a layer include its own and those below", function()
    assert.is_nil(check("src/new.c",
      '/* L3 new: fine. */\n#include "error.h"\n#include "above.h"\n'))
  end)

  it("wants a source file and its header in one layer", function()
    assert_red("src/above.c:1: layer 2, but its header is layer 3", "src/above.c",
      "/* L2 above: the wrong floor. */\n")
  end)

  it("keeps gRPC in layer 1", function()
    assert_red("src/new.c:2: gRPC belongs to layer 1 only", "src/new.c",
      "/* L2 new: too high. */\n#include <grpc/grpc.h>\n")
    assert.is_nil(check("src/new.c",
      "/* L1 new: fine. */\n#include <grpc/grpc.h>\n"))
  end)

  it("keeps OpenSSL in layer 1", function()
    assert_red("src/new.c:2: OpenSSL belongs to layer 1 only", "src/new.c",
      "/* L3 new: too high. */\n#include <openssl/ssl.h>\n")
  end)

  it("keeps protobuf in layer 2", function()
    assert_red("src/new.c:2: protobuf belongs to layer 2 only", "src/new.c",
      '/* L3 new: too high. */\n#include "etcd.pb-c.h"\n')
    assert_red("src/new.c:2: protobuf belongs to layer 2 only", "src/new.c",
      "/* L1 new: too low. */\n#include <protobuf-c/protobuf-c.h>\n")
    assert.is_nil(check("src/new.c",
      '/* L2 new: fine. */\n#include "etcd.pb-c.h"\n'))
  end)

  it("keeps Lua in the files that are named for it", function()
    assert_red("src/new.c:2: Lua belongs to lua_* files only", "src/new.c",
      "/* L4 new: the wrong name. */\n#include <lauxlib.h>\n")
    assert_red("src/lua_new.c:1: lua_* files are layer 4", "src/lua_new.c",
      "/* L3 lua_new: too low. */\n#include <lua.h>\n")
  end)

  it("wants the thread of every public function", function()
    assert_red("src/new.h:3: el_new_get: no @thread", "src/new.h",
      prototype "/* The sum. */\n")
    assert_red("src/new.h:4: el_new_get: no @thread", "src/new.h",
      prototype "/* Apart. @thread io */\n\n")
    assert_red("src/new.h:3: el_new_get: @thread must be io, lua or any, not main",
      "src/new.h", prototype "/* The sum. @thread main */\n")
  end)

  it("accepts each of the three threads", function()
    for _, thread in ipairs { "io", "lua", "any" } do
      assert.is_nil(check("src/new.h",
        prototype("/* The sum.\n * @thread " .. thread .. " */\n")))
    end
  end)

  it("asks no thread of types, macros and static functions", function()
    assert.is_nil(check("src/new.h", [[
/* L0 new: nothing public. */
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

  it("wants files that hold one idea", function()
    assert_red("src/new.c:451: 451 lines", "src/new.c",
      "/* L0 new: long. */\n" .. ("\n"):rep(450))
  end)

  it("finds unfinished work", function()
    assert_red("lua/etcdlock/new.lua:1: unfinished", "lua/etcdlock/new.lua",
      "-- TO" .. "DO\n")
  end)

  it("wants README to describe every public method", function()
    assert_red("lua/etcdlock/new.lua:1: README.md does not describe lock:shine()",
      "lua/etcdlock/new.lua", "function Lock:shine()\nend\n")
    assert.is_nil(check("lua/etcdlock/new.lua", "function Lock:_inner()\nend\n"))
  end)
end)
