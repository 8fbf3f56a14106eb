/* lua_watcher: the userdata of a watcher. */
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

/* watcher:first() -> nil: no news yet | false, message, code: its end
 *                  | "reset" or "away", revision
 *                  | "put" or "deleted", revision, key, value, create_revision,
 *                    does more of this revision follow?
 * The same until watcher:pass(). */
static el_nret l_watcher_first(lua_State *L) {
  static const char *const kinds[] = {"reset", "away", "put", "deleted"};
  el_error err;
  const el_watcher_event *event = el_watcher_first(check_watcher(L, 1), &err);
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
  el_lua_push_rev(L, event->rev);
  if (event->kind == EL_WATCHER_RESET || event->kind == EL_WATCHER_AWAY) {
    return 2;
  }
  lua_pushlstring(L, event->key.data, event->key.len);
  lua_pushlstring(L, event->value.data ? event->value.data : "",
                  event->value.len);
  el_lua_push_rev(L, event->create_rev);
  lua_pushboolean(L, event->more);
  return 6;
}

/* watcher:pass(): the first news were dealt with */
static el_nret l_watcher_pass(lua_State *L) {
  el_watcher_pass(check_watcher(L, 1));
  return 0;
}

el_watcher_news el_lua_check_watcher_news(lua_State *L, int arg) {
  static const char *const names[] = {"news", "end", NULL};
  static const el_watcher_news news[] = {EL_WATCHER_NEWS, EL_WATCHER_END};
  return news[luaL_checkoption(L, arg, NULL, names)];
}

/* watcher:wait(news, seconds) -> true: there are some | nil: not yet; news:
 * "news", or only its "end" */
static el_nret l_watcher_wait(lua_State *L) {
  el_watcher *watcher = check_watcher(L, 1);
  el_watcher_news news = el_lua_check_watcher_news(L, 2);
  if (el_watcher_wait(watcher, news, el_lua_check_ms(L, 3))) {
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
  static const luaL_Reg methods[] = {{"first", l_watcher_first},
                                     {"pass", l_watcher_pass},
                                     {"wait", l_watcher_wait},
                                     {"close", l_watcher_close},
                                     {NULL, NULL}};
  el_lua_new_type(L, EL_LUA_WATCHER, methods, l_watcher_gc);
}
