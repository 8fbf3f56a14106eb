/* test: functions for the specs only, in builds with EL_TEST. They call pure functions of the core,
 * and system calls that Lua's libraries lack. */
#ifdef EL_TEST
#include <unistd.h>

#include "base/error.h"
#include "lua/core.h"
#include "lua/util.h"

/* fork() returns 0 in the child, and the child's pid in the parent. */
static el_nret l_fork(lua_State *L) {
  lua_pushinteger(L, fork());
  return 1;
}

/* exit_now(code) ends the process without running finalizers. */
static el_nret l_exit_now(lua_State *L) { _exit((int)luaL_checkinteger(L, 1)); }

/* classify(status, details) returns fields of the el_error that a gRPC status becomes: code,
 * is_definite, is_retriable, is_lease_gone, text. */
static el_nret l_classify(lua_State *L) {
  el_error err;
  el_error_from_status(&err, (int)luaL_checkinteger(L, 1),
                       luaL_checkstring(L, 2), "127.0.0.1:2379");
  lua_pushstring(L, el_code_str(err.code));
  lua_pushboolean(L, err.is_definite);
  lua_pushboolean(L, err.is_retriable);
  lua_pushboolean(L, err.is_lease_gone);
  lua_pushstring(L, err.text);
  return 5;
}

void el_lua_open_test(lua_State *L) {
  static const luaL_Reg functions[] = {{"fork", l_fork},
                                       {"exit_now", l_exit_now},
                                       {"classify", l_classify},
                                       {NULL, NULL}};
  lua_newtable(L);
  el_lua_set_functions(L, functions);
  lua_setfield(L, -2, "test");
}
#endif
