/* lua_watcher: the userdata of a watcher. */
#include "lock/watcher.h"

#include "lua/lua_client.h"
#include "lua/lua_types.h"

static el_watcher *check_watcher(lua_State *L, int arg) {
  return el_lua_check_box(L, arg, EL_LUA_WATCHER);
}

/* client:watch(prefix) -> watcher | nil, message, code */
static el_nret l_client_watch(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_bytes prefix = el_lua_check_bytes(L, 2);
  el_error err;
  void **box = el_lua_new_box(L, EL_LUA_WATCHER);
  *box = el_client_watcher(lc->client, prefix, &err);
  return *box != NULL ? 1 : el_lua_fail(L, &err);
}

const luaL_Reg el_lua_watcher_methods[] = {{"watch", l_client_watch},
                                           {NULL, NULL}};

/* watcher:take() -> nil: no news yet | "reset" | "away"
 *                  | "put" or "deleted", key, value, create_revision, revision,
 *                    does more of this revision follow?
 *                  | false, message, code: its end */
static el_nret l_watcher_take(lua_State *L) {
  static const char *const kinds[] = {"reset", "away", "put", "deleted"};
  el_error err;
  el_watcher_event *event = el_watcher_take(check_watcher(L, 1), &err);
  el_nret n = 1;
  if (event == NULL && err.code != EL_OK) {
    el_lua_fail(L, &err);
    lua_pushboolean(L, 0);
    lua_replace(L, -4);
    return 3;
  }
  if (event == NULL) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushstring(L, kinds[event->kind]);
  if (event->key.data != NULL) {
    lua_pushlstring(L, event->key.data, event->key.len);
    lua_pushlstring(L, event->value.data ? event->value.data : "",
                    event->value.len);
    el_lua_push_rev(L, event->create_rev);
    el_lua_push_rev(L, event->rev);
    lua_pushboolean(L, event->more);
    n = 6;
  }
  el_watcher_event_free(event);
  return n;
}

/* watcher:wait(seconds) -> true: there are news | nil: not yet */
static el_nret l_watcher_wait(lua_State *L) {
  if (el_watcher_wait(check_watcher(L, 1), el_lua_check_ms(L, 2))) {
    lua_pushboolean(L, 1);
  } else {
    lua_pushnil(L);
  }
  return 1;
}

/* watcher:close() */
static el_nret l_watcher_close(lua_State *L) {
  el_watcher_close(check_watcher(L, 1));
  return 0;
}

static el_nret l_watcher_gc(lua_State *L) {
  el_watcher *watcher = el_lua_take_box(L, 1, EL_LUA_WATCHER);
  if (watcher != NULL) {
    el_watcher_drop(watcher);
  }
  return 0;
}

void el_lua_open_watcher(lua_State *L) {
  static const luaL_Reg methods[] = {{"take", l_watcher_take},
                                     {"wait", l_watcher_wait},
                                     {"close", l_watcher_close},
                                     {NULL, NULL}};
  el_lua_new_type(L, EL_LUA_WATCHER, methods, l_watcher_gc);
}
