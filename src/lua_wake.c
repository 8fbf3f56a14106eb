/* L4 lua_wake: how Lua waits without blocking. */
#include "lua_wake.h"

#include "lock.h"
#include "lua_client.h"

enum { WOKEN_MAX = 256 };

static el_client *check_client(lua_State *L) {
  return el_lua_check_box(L, 1, EL_LUA_CLIENT);
}

uint64_t el_lua_check_id(lua_State *L, int arg) {
  lua_Number id = luaL_checknumber(L, arg);
  luaL_argcheck(L, id >= 1 && id < 9007199254740992.0, arg, "not a wait");
  return (uint64_t)id;
}

el_wake *el_lua_check_wake(lua_State *L, int arg, el_client *cl) {
  el_error err;
  el_wake *wake = lua_toboolean(L, arg) ? el_client_served_wake(cl)
                                        : el_client_wake(cl, &err);
  if (wake == NULL) {
    luaL_error(L, "this client can't be waited for in that way");
  }
  return wake;
}

/* client:wake_fd() -> descriptor: readable while waits have ended
 *                   | nil, message, code */
el_nret el_lua_client_wake_fd(lua_State *L) {
  el_error err;
  el_client *cl = check_client(L);
  el_wake *wake = el_client_wake(cl, &err);
  if (wake == NULL || !el_client_is_usable(cl, &err)) {
    return el_lua_fail(L, &err);
  }
  lua_pushinteger(L, el_wake_fd(wake));
  return 1;
}

/* client:alarm(seconds): number 0 will be among those woken -> true | false: the
 * client is closed */
el_nret el_lua_client_alarm(lua_State *L) {
  lua_pushboolean(L, el_client_alarm(check_client(L), el_lua_check_ms(L, 2)));
  return 1;
}

/* client:woken() -> the numbers of the waits that have ended, a list */
el_nret el_lua_client_woken(lua_State *L) {
  uint64_t ids[WOKEN_MAX];
  el_error err;
  el_wake *wake = el_client_wake(check_client(L), &err);
  int n = 0;
  size_t taken = WOKEN_MAX;
  lua_newtable(L);
  while (wake != NULL && taken == WOKEN_MAX) {
    taken = el_wake_take(wake, ids, WOKEN_MAX);
    for (size_t i = 0; i < taken; i++) {
      lua_pushnumber(L, (lua_Number)ids[i]);
      lua_rawseti(L, -2, ++n);
    }
  }
  return 1;
}

/* client:serve() -> the path of a socket | nil, message, code */
el_nret el_lua_client_serve(lua_State *L) {
  el_error err;
  el_wake_server *server = el_client_wake_server(check_client(L), &err);
  if (server == NULL) return el_lua_fail(L, &err);
  lua_pushstring(L, el_wake_server_path(server));
  return 1;
}

/* client:next_fd() -> the number of the descriptor that is made next | -1 */
el_nret el_lua_client_next_fd(lua_State *L) {
  el_error err;
  el_wake_server *server = el_client_wake_server(check_client(L), &err);
  lua_pushinteger(L, server != NULL ? el_wake_server_next_fd(server) : -1);
  return 1;
}

/* client:seal(next_fd): programs that this process starts shall not have its end
 * of the connection to serve()'s path that was made just now */
el_nret el_lua_client_seal(lua_State *L) {
  el_error err;
  int next_fd = (int)luaL_checkinteger(L, 2);
  el_wake_server *server = el_client_wake_server(check_client(L), &err);
  if (server != NULL) {
    el_wake_server_seal(server, next_fd);
  }
  return 0;
}

/* Nothing is to be done for a mere look that nobody waits for any more. */
static void on_gone(void *arg) { (void)arg; }

/* client:expect(id, [lock]): wait |id| will be asked for over the socket; with
 * a lock, that is released if the connection ends before taken(id)
 * -> true | nil, message, code */
el_nret el_lua_client_expect(lua_State *L) {
  el_error err;
  uint64_t id = el_lua_check_id(L, 2);
  el_lock *lk =
      lua_isnoneornil(L, 3) ? NULL : el_lua_check_box(L, 3, EL_LUA_LOCK);
  el_wake_server *server = el_client_wake_server(check_client(L), &err);
  if (server == NULL) return el_lua_fail(L, &err);
  if (lk != NULL) {
    el_lock_leash(lk, server, id);
  } else {
    el_wake_server_expect(server, id, on_gone, NULL);
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* client:taken(id): the connection may end, or serve another wait
 * -> was it still there? */
el_nret el_lua_client_taken(lua_State *L) {
  el_error err;
  el_client *cl = check_client(L);
  uint64_t id = el_lua_check_id(L, 2);
  el_wake_server *server = el_client_wake_server(cl, &err);
  lua_pushboolean(L, server != NULL && el_lock_unleash(server, id));
  return 1;
}

/* LuaJIT and Lua 5.3 and newer have it, PUC 5.1 hasn't. */
extern int lua_isyieldable(lua_State *L) __attribute__((weak));

/* There, a coroutine can't be left while a C function is on its stack: pcall,
 * say. (Nor from a metamethod or an iterator, which nothing tells.) */
static bool has_c_function(lua_State *L) {
  lua_Debug frame;
  for (int level = 1; lua_getstack(L, level, &frame); level++) {
    lua_getinfo(L, "S", &frame);
    if (*frame.what == 'C') return true;
  }
  return false;
}

el_nret el_lua_yieldable(lua_State *L) {
  if (lua_isyieldable != NULL) {
    lua_pushboolean(L, lua_isyieldable(L));
  } else {
    bool is_main = lua_pushthread(L);
    lua_pushboolean(L, !is_main && !has_c_function(L));
  }
  return 1;
}
