/* Fuzz target label: the values of other clients' keys, which Lua reads as labels and prints. */
#include "fuzz.h"

#include <lauxlib.h>
#include <lualib.h>

static const char PROGRAM[] =
    "package.preload['etcdlock.core'] = function()"
    "  return { decimal_point = function() return '.' end,"
    "    is_name = function() return true end,"
    "    NAME_MAX = 512, MULTI_MAX = 60 }"
    " end\n"
    "local text = require 'etcdlock.text'\n"
    "local label = require 'etcdlock.label'\n"
    "local TYPES = { host = 'string', pid = 'number', since = 'number',"
    "  owner = 'string', value = 'string', lock_delay = 'number',"
    "  names = 'table', first = 'string' }\n"
    "return function(value)\n"
    "  for field, value in pairs(label.read(value)) do"
    "    assert(type(value) == TYPES[field], field) end\n"
    "  local shown = text.escape(value)\n"
    "  assert(not shown:find '[%z\\1-\\31\\127]' and not shown:find "
    "'\\194[\\128-\\159]')\n"
    "  assert(utf8.len(shown))\n"
    "  assert(text.quote(value):find '^\".*\"$')\n"
    "end\n";

static lua_State *start(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (luaL_dostring(L, PROGRAM) != LUA_OK) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    abort();
  }
  return L;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static lua_State *L;
  if (L == NULL) L = start();
  lua_pushvalue(L, 1);
  lua_pushlstring(L, (const char *)data, size);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    abort();
  }
  return 0;
}
