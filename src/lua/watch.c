/* watch: the userdata of a watcher (see lock/watcher.h). */
#include "lock/watcher.h"

#include "lua/client.h"
#include "lua/core.h"

static el_watcher *check_watcher(lua_State *L, int arg) {
  return el_lua_check_box(L, arg, EL_LUA_WATCHER);
}

/* client:watch(prefix) returns a watcher of the keys below |prefix|, which ends with a slash; or
 * nil, message, code. */
static el_nret l_client_watch(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_bytes prefix = el_lua_check_bytes(L, 2);
  el_error err;
  void **box = el_lua_new_box(L, EL_LUA_WATCHER);
  *box = el_watcher_new(el_client_shared(lc->client), prefix, &err);
  return *box != NULL ? 1 : el_lua_fail(L, &err);
}

/* watcher:changes() returns the number of counted changes, and the store's revision of the last
 * one: see el_watcher_changes. Returns nil, message, code if the watcher has ended. */
static el_nret l_watcher_changes(lua_State *L) {
  el_error err;
  int64_t rev;
  int64_t changes = el_watcher_changes(check_watcher(L, 1), &rev, &err);
  if (err.code != EL_OK) return el_lua_fail(L, &err);
  el_lua_push_rev(L, changes);
  el_lua_push_rev(L, rev);
  return 2;
}

/* watcher:pass(changes, only) marks all changes as read, unless there are more than |changes|. From
 * then on a change of the key |only| (nil: of any key) ends a wait for "changed": see
 * el_watcher_pass. */
static el_nret l_watcher_pass(lua_State *L) {
  el_watcher *watcher = check_watcher(L, 1);
  int64_t changes = luaL_checkinteger(L, 2);
  el_bytes only = {0};
  if (!lua_isnoneornil(L, 3)) only = el_lua_check_bytes(L, 3);
  el_watcher_pass(watcher, changes, only);
  return 0;
}

static el_nret push_event(lua_State *L, el_watcher *watcher,
                          el_watcher_event event, int64_t timeout_ms) {
  if (el_watcher_wait(watcher, event, timeout_ms)) {
    lua_pushboolean(L, 1);
  } else {
    lua_pushnil(L);
  }
  return 1;
}

el_nret el_lua_push_changed(lua_State *L, void *watcher, int64_t timeout_ms) {
  return push_event(L, watcher, EL_WATCHER_CHANGED, timeout_ms);
}

el_nret el_lua_push_closed(lua_State *L, void *watcher, int64_t timeout_ms) {
  return push_event(L, watcher, EL_WATCHER_ENDED, timeout_ms);
}

/* watcher:wait_changed(seconds) waits for unread changes, or the end of the watcher. Returns true;
 * nil if neither happened within |seconds|. */
static el_nret l_watcher_wait_changed(lua_State *L) {
  return el_lua_push_changed(L, check_watcher(L, 1), el_lua_check_ms(L, 2));
}

/* watcher:wait_closed(seconds) waits for the end of the watcher. Returns true; nil if it lasts
 * longer than |seconds|. */
static el_nret l_watcher_wait_closed(lua_State *L) {
  return el_lua_push_closed(L, check_watcher(L, 1), el_lua_check_ms(L, 2));
}

/* watcher:close() ends the watcher. */
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

void el_lua_open_watch(lua_State *L) {
  static const luaL_Reg methods[] = {{"changes", l_watcher_changes},
                                     {"pass", l_watcher_pass},
                                     {"wait_changed", l_watcher_wait_changed},
                                     {"wait_closed", l_watcher_wait_closed},
                                     {"close", l_watcher_close},
                                     {NULL, NULL}};
  static const luaL_Reg client_methods[] = {{"watch", l_client_watch},
                                            {NULL, NULL}};
  el_lua_new_type(L, EL_LUA_WATCHER, methods, l_watcher_gc);
  el_lua_add_client_methods(L, client_methods);
}
