/* wait: the methods of a client by which a Lua program waits without blocking its thread.
 *
 * Each wait has a number, |id|. The program arms it on an object, and it is pushed once when the
 * event occurs or the alarm expires:
 * - Numbers below FIRST_SERVED are chosen by the program, for an event loop. The pushed ones are
 *   read with client:woken when client:wake_fd is readable.
 * - Higher numbers are made by client:expect, for nginx. The wake server sends a byte over the
 *   connection of the wait (see nginx/wake_server.h).
 */
#include "lock/guarded.h"
#include "lock/lock.h"
#include "lock/status.h"
#include "lock/watcher.h"
#include "lua/client.h"
#include "lua/core.h"

enum { WOKEN_MAX = 256 };

/* Every wait number is below 2^53, so that a double holds it exactly. */
#define FIRST_SERVED (UINT64_C(1) << 52)

static uint64_t check_id(lua_State *L, int arg) {
  lua_Number id = luaL_checknumber(L, arg);
  luaL_argcheck(L, id >= 1 && id < 9007199254740992.0, arg,
                "not a wait number");
  return (uint64_t)id;
}

/* Returns the queue of the waits of an event loop; NULL and |err|: it cannot be created. */
static el_wake_queue *wake_queue_of(const el_lua_client *lc, el_error *err) {
  return el_shared_wake_queue(el_client_shared(lc->client), err);
}

/* Returns the wake to which |id| is pushed; NULL: there is none. */
static el_wake *wake_of(const el_lua_client *lc, uint64_t id) {
  el_error err;
  el_wake_queue *queue;
  if (id >= FIRST_SERVED) {
    return lc->server != NULL ? el_wake_server_wake(lc->server) : NULL;
  }
  queue = wake_queue_of(lc, &err);
  return queue != NULL ? el_wake_queue_wake(queue) : NULL;
}

static el_wake *check_wake(lua_State *L, const el_lua_client *lc, uint64_t id) {
  el_wake *wake = wake_of(lc, id);
  if (wake == NULL) {
    luaL_error(L, "the client cannot end this wait: it is closed, has no "
                  "descriptor left, or serves no socket");
  }
  return wake;
}

/* ---- event loops ---- */

/* client:wake_fd() returns a descriptor that is readable while numbers are pushed and not read yet;
 * or nil, message, code. */
static el_nret l_client_wake_fd(lua_State *L) {
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_wake_queue *queue = wake_queue_of(lc, &err);
  if (queue == NULL || !el_lua_client_is_usable(lc, &err)) {
    return el_lua_fail(L, &err);
  }
  lua_pushinteger(L, el_wake_queue_fd(queue));
  return 1;
}

/* client:woken() reads the pushed numbers and returns them as a list. */
static el_nret l_client_woken(lua_State *L) {
  uint64_t ids[WOKEN_MAX];
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_wake_queue *queue = wake_queue_of(lc, &err);
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

/* ---- arming ---- */

static el_lock_event check_lock_news(lua_State *L, int arg) {
  static const char *const names[] = {"decided", "released", "ended", NULL};
  static const el_lock_event news[] = {EL_LOCK_DECIDED, EL_LOCK_RELEASED,
                                       EL_LOCK_ENDED};
  return news[luaL_checkoption(L, arg, NULL, names)];
}

/* client:arm(lock, news, id) has |id| pushed when |news| occurs: "decided", "released" or "ended".
 * Returns false, and pushes nothing, if it has occurred. */
static el_nret l_client_arm(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_lock *lk = el_lua_check_box(L, 2, EL_LUA_LOCK);
  el_lock_event news = check_lock_news(L, 3);
  uint64_t id = check_id(L, 4);
  el_wake *wake = check_wake(L, lc, id);
  lua_pushboolean(L, el_lock_arm(lk, news, wake, id));
  return 1;
}

/* client:disarm(lock, news, id) undoes client:arm. */
static el_nret l_client_disarm(lua_State *L) {
  el_lock *lk = el_lua_check_box(L, 2, EL_LUA_LOCK);
  el_lock_disarm(lk, check_lock_news(L, 3), check_id(L, 4));
  return 0;
}

/* client:arm_txn(txn, id) has |id| pushed when the transaction is answered. Returns false if it
 * is. */
static el_nret l_client_arm_txn(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_guarded *guarded = el_lua_check_box(L, 2, EL_LUA_TXN);
  uint64_t id = check_id(L, 3);
  lua_pushboolean(L, el_guarded_arm(guarded, check_wake(L, lc, id), id));
  return 1;
}

/* client:arm_status(status, id) has |id| pushed when all members have answered. Returns false if
 * they have. */
static el_nret l_client_arm_status(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_status *status = el_lua_check_box(L, 2, EL_LUA_STATUS);
  uint64_t id = check_id(L, 3);
  lua_pushboolean(L, el_status_arm(status, check_wake(L, lc, id), id));
  return 1;
}

/* client:arm_watcher(watcher, news, id) has |id| pushed when |news| occurs: "news" or "end".
 * Returns false if it has occurred. */
static el_nret l_client_arm_watcher(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_watcher *watcher = el_lua_check_box(L, 2, EL_LUA_WATCHER);
  el_watcher_event news = el_lua_check_watcher_news(L, 3);
  uint64_t id = check_id(L, 4);
  el_wake *wake = check_wake(L, lc, id);
  lua_pushboolean(L, el_watcher_arm(watcher, news, wake, id));
  return 1;
}

/* client:disarm_watcher(watcher, news, id) undoes client:arm_watcher. */
static el_nret l_client_disarm_watcher(lua_State *L) {
  el_watcher *watcher = el_lua_check_box(L, 2, EL_LUA_WATCHER);
  el_watcher_disarm(watcher, el_lua_check_watcher_news(L, 3), check_id(L, 4));
  return 0;
}

/* client:alarm(id, seconds) has |id| pushed |seconds| from now; nil cancels that. Returns false if
 * the client is closed or was created before a fork. */
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

/* ---- nginx ---- */

/* Returns the client's wake server; NULL and |err| if the client is closed or client:serve was not
 * called. */
static el_wake_server *server_of(el_lua_client *lc, el_error *err) {
  if (!el_lua_client_is_usable(lc, err)) return NULL;
  if (lc->server == NULL) {
    el_error_set(err, EL_CONTEXT, "the client has no wake-up socket yet");
  }
  return lc->server;
}

/* Returns whether a new wait may begin. While the client closes none may: no later step would stop
 * a wake server that is started then. */
static bool may_begin_wait(const el_lua_client *lc, el_error *err) {
  if (!el_lua_client_is_usable(lc, err)) return false;
  if (lc->is_closing) el_error_set(err, EL_CLOSED, "the client is closed");
  return !lc->is_closing;
}

/* Releases the lock |arg|, whose nginx request has ended, and drops the reference of the tie. */
static void release_tied(void *arg) {
  el_lock *lk = arg;
  el_lock_abandon(lk);
  el_lock_unref(lk);
}

static bool start_server(el_lua_client *lc, const char *dir, el_error *err) {
  lc->server = el_wake_server_start(dir, release_tied, err);
  return lc->server != NULL;
}

/* client:serve(dir) starts the wake server if it does not run, and returns the path of its socket,
 * which is created below |dir| (nil: see wake_socket.h); or nil, message, code. */
static el_nret l_client_serve(lua_State *L) {
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  const char *dir = luaL_optstring(L, 2, NULL);
  if (!may_begin_wait(lc, &err) ||
      (lc->server == NULL && !start_server(lc, dir, &err))) {
    return el_lua_fail(L, &err);
  }
  lua_pushstring(L, el_wake_server_socket(lc->server)->path);
  return 1;
}

/* client:next_fd() returns the number of the descriptor that this process opens next; -1: it has no
 * free descriptor, or no wake server. */
static el_nret l_client_next_fd(lua_State *L) {
  el_error err;
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  lua_pushinteger(L, server != NULL
                         ? el_wake_socket_next_fd(el_wake_server_socket(server))
                         : -1);
  return 1;
}

/* client:seal(next_fd) makes the own end of the newest connection to the wake server close-on-exec.
 * |next_fd| is what client:next_fd returned before the connect. */
static el_nret l_client_seal(lua_State *L) {
  el_error err;
  int next_fd = (int)luaL_checkinteger(L, 2);
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  if (server != NULL) {
    el_wake_socket_set_cloexec(el_wake_server_socket(server), next_fd);
  }
  return 0;
}

/* client:expect() begins a wait and returns its number, which the caller then sends over a
 * connection; or nil, message, code. */
static el_nret l_client_expect(lua_State *L) {
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_wake_server *server =
      may_begin_wait(lc, &err) ? server_of(lc, &err) : NULL;
  uint64_t id;
  if (server == NULL) return el_lua_fail(L, &err);
  id = FIRST_SERVED + lc->n_served++;
  el_wake_server_begin_wait(server, id);
  lua_pushnumber(L, (lua_Number)id);
  return 1;
}

static void drop_tied(void *arg) { el_lock_unref(arg); }

/* client:tie(id, lock) has the lock released if the connection of the wait ends. Returns false
 * if it has ended. */
static el_nret l_client_tie(lua_State *L) {
  el_error err;
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  uint64_t id = check_id(L, 2);
  el_lock *lk = el_lock_ref(el_lua_check_box(L, 3, EL_LUA_LOCK));
  bool is_tied = server != NULL && el_wake_server_tie(server, id, lk);
  if (!is_tied) el_lock_unref(lk);
  lua_pushboolean(L, is_tied);
  return 1;
}

/* client:untie(id, lock) undoes client:tie. */
static el_nret l_client_untie(lua_State *L) {
  el_error err;
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  uint64_t id = check_id(L, 2);
  el_lock *lk = el_lua_check_box(L, 3, EL_LUA_LOCK);
  if (server != NULL && el_wake_server_untie(server, id, lk)) drop_tied(lk);
  return 0;
}

/* client:hear() has the wake server read the numbers that were sent. */
static el_nret l_client_hear(lua_State *L) {
  el_error err;
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  if (server != NULL) {
    el_wake_server_receive(server);
  }
  return 0;
}

/* client:taken(id) ends the wait and unties its locks; its connection may be closed or serve
 * another wait. Returns whether the number was received and no byte is sent for it. */
static el_nret l_client_taken(lua_State *L) {
  el_error err;
  uint64_t id = check_id(L, 2);
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  lua_pushboolean(L, server != NULL &&
                         el_wake_server_end_wait(server, id, drop_tied));
  return 1;
}

/* ---- yieldable ---- */

/* Exists in LuaJIT and Lua 5.3 or newer, not in PUC Lua 5.1 and 5.2. */
extern int lua_isyieldable(lua_State *L) __attribute__((weak));

/* Returns whether a coroutine can yield across the C function of |frame|: in Lua 5.2 across pcall
 * and xpcall, in 5.1 across none. */
static bool can_yield_across(lua_State *L, lua_Debug *frame) {
#if LUA_VERSION_NUM >= 502
  lua_getinfo(L, "f", frame);
  lua_getglobal(L, "pcall");
  lua_getglobal(L, "xpcall");
  lua_CFunction running = lua_tocfunction(L, -3);
  bool is_pcall = running != NULL && (running == lua_tocfunction(L, -2) ||
                                      running == lua_tocfunction(L, -1));
  lua_pop(L, 3);
  return is_pcall;
#else
  (void)L, (void)frame;
  return false;
#endif
}

/* Returns whether a C function on the stack keeps the running coroutine from yielding. Lua 5.1 does
 * not yield across metamethods and iterators either, which the stack does not show. */
static bool is_blocked_by_c(lua_State *L) {
  lua_Debug frame;
  for (int level = 1; lua_getstack(L, level, &frame); level++) {
    lua_getinfo(L, "S", &frame);
    if (*frame.what == 'C' && !can_yield_across(L, &frame)) return true;
  }
  return false;
}

/* yieldable() returns whether the running coroutine can yield here. */
static el_nret l_yieldable(lua_State *L) {
  if (lua_isyieldable != NULL) {
    lua_pushboolean(L, lua_isyieldable(L));
  } else {
    bool is_main = lua_pushthread(L);
    lua_pushboolean(L, !is_main && !is_blocked_by_c(L));
  }
  return 1;
}

/* ---- the module ---- */

void el_lua_open_wait(lua_State *L) {
  static const luaL_Reg client_methods[] = {
      {"wake_fd", l_client_wake_fd},
      {"woken", l_client_woken},
      {"arm", l_client_arm},
      {"disarm", l_client_disarm},
      {"arm_txn", l_client_arm_txn},
      {"arm_status", l_client_arm_status},
      {"arm_watcher", l_client_arm_watcher},
      {"disarm_watcher", l_client_disarm_watcher},
      {"alarm", l_client_alarm},
      {"serve", l_client_serve},
      {"next_fd", l_client_next_fd},
      {"seal", l_client_seal},
      {"expect", l_client_expect},
      {"tie", l_client_tie},
      {"untie", l_client_untie},
      {"hear", l_client_hear},
      {"taken", l_client_taken},
      {NULL, NULL},
  };
  static const luaL_Reg functions[] = {{"yieldable", l_yieldable},
                                       {NULL, NULL}};
  el_lua_add_client_methods(L, client_methods);
  el_lua_set_functions(L, functions);
}
