/* lua_wait: how Lua waits without blocking. Each wait of a client has a number,
 * which Lua chooses, or client:expect. The end of those is told to whoever is
 * connected, that of the others through a descriptor. */
#include "lua/lua_client.h"
#include "lua/lua_types.h"

enum { WOKEN_MAX = 256 };

static uint64_t check_id(lua_State *L, int arg) {
  lua_Number id = luaL_checknumber(L, arg);
  luaL_argcheck(L, id >= 1 && id < 9007199254740992.0, arg, "not a wait");
  return (uint64_t)id;
}

/* Where the end of wait |id| is told; NULL: nowhere. */
static el_wake *wake_of(const el_lua_client *lc, uint64_t id) {
  el_error err;
  el_wake_queue *queue;
  if (id >= EL_LUA_SERVED) {
    return lc->server != NULL ? el_wake_server_wake(lc->server) : NULL;
  }
  queue = el_handle_wake_queue(el_client_handle(lc->client), &err);
  return queue != NULL ? el_wake_queue_wake(queue) : NULL;
}

static el_wake *check_wake(lua_State *L, const el_lua_client *lc, uint64_t id) {
  el_wake *wake = wake_of(lc, id);
  if (wake == NULL) {
    luaL_error(L, "this client can't be waited for in that way");
  }
  return wake;
}

/* client:wake_fd() -> descriptor: readable while waits have ended
 *                   | nil, message, code */
static el_nret l_client_wake_fd(lua_State *L) {
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_wake_queue *queue =
      el_handle_wake_queue(el_client_handle(lc->client), &err);
  if (queue == NULL || !el_lua_client_is_usable(lc, &err)) {
    return el_lua_fail(L, &err);
  }
  lua_pushinteger(L, el_wake_queue_fd(queue));
  return 1;
}

/* client:woken() -> the numbers of the waits that have ended, a list */
static el_nret l_client_woken(lua_State *L) {
  uint64_t ids[WOKEN_MAX];
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_wake_queue *queue =
      el_handle_wake_queue(el_client_handle(lc->client), &err);
  int n = 0;
  size_t taken = WOKEN_MAX;
  lua_newtable(L);
  while (queue != NULL && taken == WOKEN_MAX) {
    taken = el_wake_queue_take(queue, ids, WOKEN_MAX);
    for (size_t i = 0; i < taken; i++) {
      lua_pushnumber(L, (lua_Number)ids[i]);
      lua_rawseti(L, -2, ++n);
    }
  }
  return 1;
}

static el_lock_news check_news(lua_State *L, int arg) {
  static const char *const names[] = {"decided", "released", "ended", NULL};
  static const el_lock_news news[] = {EL_LOCK_DECIDED, EL_LOCK_RELEASED,
                                      EL_LOCK_ENDED};
  return news[luaL_checkoption(L, arg, NULL, names)];
}

/* client:arm(lock, news, id) -> will |id| be woken? false: it has
 * happened */
static el_nret l_client_arm(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_lock *lk = el_lua_check_box(L, 2, EL_LUA_LOCK);
  el_lock_news news = check_news(L, 3);
  uint64_t id = check_id(L, 4);
  el_wake *wake = check_wake(L, lc, id);
  lua_pushboolean(L, el_lock_arm(lk, news, wake, id));
  return 1;
}

/* client:disarm(lock, news, id): |id| is not waited for any more */
static el_nret l_client_disarm(lua_State *L) {
  el_lock *lk = el_lua_check_box(L, 2, EL_LUA_LOCK);
  el_lock_disarm(lk, check_news(L, 3), check_id(L, 4));
  return 0;
}

/* client:arm_txn(txn, id) -> will |id| be woken? false: the answer is
 * there */
static el_nret l_client_arm_txn(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_guarded *guarded = el_lua_check_box(L, 2, EL_LUA_TXN);
  uint64_t id = check_id(L, 3);
  lua_pushboolean(L, el_guarded_arm(guarded, check_wake(L, lc, id), id));
  return 1;
}

/* client:arm_status(status, id) -> will |id| be woken? false: all have answered */
static el_nret l_client_arm_status(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_status *status = el_lua_check_box(L, 2, EL_LUA_STATUS);
  uint64_t id = check_id(L, 3);
  lua_pushboolean(L, el_status_arm(status, check_wake(L, lc, id), id));
  return 1;
}

/* client:arm_watcher(watcher, news, id) -> will |id| be woken? false: there
 * are some */
static el_nret l_client_arm_watcher(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_watcher *watcher = el_lua_check_box(L, 2, EL_LUA_WATCHER);
  el_watcher_news news = el_lua_check_watcher_news(L, 3);
  uint64_t id = check_id(L, 4);
  el_wake *wake = check_wake(L, lc, id);
  lua_pushboolean(L, el_watcher_arm(watcher, news, wake, id));
  return 1;
}

/* client:disarm_watcher(watcher, news, id): |id| is not waited for any more */
static el_nret l_client_disarm_watcher(lua_State *L) {
  el_watcher *watcher = el_lua_check_box(L, 2, EL_LUA_WATCHER);
  el_watcher_disarm(watcher, el_lua_check_watcher_news(L, 3), check_id(L, 4));
  return 0;
}

/* client:alarm(id, seconds): |id| is woken then; nil: not any more
 * -> true | false: the client is closed, or another process's */
static el_nret l_client_alarm(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  uint64_t id = check_id(L, 2);
  int64_t ms = el_lua_opt_ms(L, 3, -1);
  el_error err;
  bool is_usable = el_lua_client_is_usable(lc, &err);
  el_wake *wake = is_usable ? check_wake(L, lc, id) : NULL;
  lua_pushboolean(L, is_usable && el_client_alarm(lc->client, wake, id, ms));
  return 1;
}

const luaL_Reg el_lua_wait_methods[] = {
    {"wake_fd", l_client_wake_fd},
    {"woken", l_client_woken},
    {"arm", l_client_arm},
    {"disarm", l_client_disarm},
    {"arm_txn", l_client_arm_txn},
    {"arm_status", l_client_arm_status},
    {"arm_watcher", l_client_arm_watcher},
    {"disarm_watcher", l_client_disarm_watcher},
    {"alarm", l_client_alarm},
    {NULL, NULL},
};

/* ---- may we yield? ---- */

/* LuaJIT and Lua 5.3 and newer have it, PUC 5.1 and 5.2 haven't. */
extern int lua_isyieldable(lua_State *L) __attribute__((weak));

/* Can a coroutine be left while the C function of |frame| is on its stack? In
 * 5.2 it can if that is pcall or xpcall, in 5.1 it can't. */
static bool is_crossed(lua_State *L, lua_Debug *frame) {
#if LUA_VERSION_NUM >= 502
  lua_getinfo(L, "f", frame);
  lua_getglobal(L, "pcall");
  lua_getglobal(L, "xpcall");
  lua_CFunction running = lua_tocfunction(L, -3);
  bool is = running != NULL && (running == lua_tocfunction(L, -2) ||
                                running == lua_tocfunction(L, -1));
  lua_pop(L, 3);
  return is;
#else
  (void)L, (void)frame;
  return false;
#endif
}

/* Does a C function on the stack hold the running coroutine? (In 5.1 a
 * metamethod or an iterator does as well, which nothing tells.) */
static bool is_held(lua_State *L) {
  lua_Debug frame;
  for (int level = 1; lua_getstack(L, level, &frame); level++) {
    lua_getinfo(L, "S", &frame);
    if (*frame.what == 'C' && !is_crossed(L, &frame)) return true;
  }
  return false;
}

el_nret el_lua_yieldable(lua_State *L) {
  if (lua_isyieldable != NULL) {
    lua_pushboolean(L, lua_isyieldable(L));
  } else {
    bool is_main = lua_pushthread(L);
    lua_pushboolean(L, !is_main && !is_held(L));
  }
  return 1;
}
