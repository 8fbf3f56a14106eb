/* lua_core: luaopen_etcdlock_core: the C half of etcdlock, as the Lua half
 * sees it. Facts and verbs only: options, defaults and reentrancy are Lua's.
 *
 * The module is linked with -z nodelete: lua_close unmaps C libraries after
 * the last finalizer, which would be too early for a thread that is just
 * returning. */
#include <locale.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/lock.h"
#include "lua/lua_client.h"
#include "lua/lua_types.h"

#define EXPORT __attribute__((visibility("default")))

/* now() -> seconds on the clock of all deadlines (CLOCK_BOOTTIME) */
static el_nret l_now(lua_State *L) {
  lua_pushnumber(L, (lua_Number)el_now_us() / 1e6);
  return 1;
}

/* host() -> this machine's name */
static el_nret l_host(lua_State *L) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  lua_pushstring(L, name);
  return 1;
}

/* pid() -> this process's id */
static el_nret l_pid(lua_State *L) {
  lua_pushinteger(L, getpid());
  return 1;
}

/* decimal_point() -> what the C library writes between the whole and the fraction of a
 * number in the current locale; LuaJIT's own formats don't show it */
static el_nret l_decimal_point(lua_State *L) {
  lua_pushstring(L, localeconv()->decimal_point);
  return 1;
}

EXPORT int luaopen_etcdlock_core(lua_State *L);

EXPORT int luaopen_etcdlock_core(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"connect", el_lua_connect},
      {"now", l_now},
      {"host", l_host},
      {"pid", l_pid},
      {"decimal_point", l_decimal_point},
      {"yieldable", el_lua_yieldable},
      {"call", el_lua_call},
      {NULL, NULL},
  };
  static const luaL_Reg *const methods[] = {
      el_lua_lock_methods,    el_lua_guarded_methods,
      el_lua_watcher_methods, el_lua_status_methods,
      el_lua_events_methods,  el_lua_wait_methods,
      el_lua_nginx_methods,   NULL};
  el_lua_open_client(L, methods);
  el_lua_open_lock(L);
  el_lua_open_guarded(L);
  el_lua_open_watcher(L);
  el_lua_open_status(L);
  lua_newtable(L);
  el_lua_set_functions(L, functions);
  el_lua_set_functions(L, el_lua_child_functions);
  el_lua_open_keys(L);
  lua_pushinteger(L, (lua_Integer)el_lock_size());
  lua_setfield(L, -2, "HOLD_SIZE");
#ifdef EL_TEST
  el_lua_open_test(L);
#endif
  return 1;
}
