/* wait: the methods of a client by which a Lua program waits without blocking its thread.
 *
 * A wait consists of two calls. client:begin_wait assigns a wake number; the number is pushed when
 * an event of an object occurs or the time is over. client:end_wait undoes that and returns the
 * outcome. Between the calls the program waits until the number is pushed:
 * - An event loop waits until client:wake_fd is readable, and reads the numbers with client:woken.
 * - In nginx, the program calls client:begin_nginx_wait and client:end_nginx_wait instead. It sends
 *   the number over a connection to the wake server, which answers with a byte when the number is
 *   pushed (nginx/wake_server.h). The numbers of these waits are FIRST_SERVED and higher.
 */
#include <string.h>

#include "lock/guarded.h"
#include "lock/lock.h"
#include "lock/status.h"
#include "lock/watcher.h"
#include "lua/client.h"
#include "lua/core.h"

enum { WOKEN_MAX = 256 };

/* Every wake number is below 2^53, so that a double holds it exactly. */
#define FIRST_SERVED (UINT64_C(1) << 52)

/* ---- events ---- */

static el_completion *of_lock(void *object) {
  return el_lock_completion(object);
}

static el_completion *of_txn(void *object) {
  return el_guarded_completion(object);
}

static el_completion *of_status(void *object) {
  return el_status_completion(object);
}

static el_completion *of_watcher(void *object) {
  return el_watcher_completion(object);
}

/* An event that a program can wait for. */
typedef struct wait_event {
  const char *name; /* in Lua */
  const char *type; /* type of the object's userdata */
  el_completion *(*completion)(void *object);
  /* the event in the object's completion */
  unsigned bit;
  el_nret (*push_outcome)(lua_State *L, void *object, int64_t timeout_ms);
} wait_event;

enum { DECIDED /* an index in wait_events */ };

static const wait_event wait_events[] = {
    [DECIDED] = {"decided", EL_LUA_LOCK, of_lock, EL_LOCK_DECIDED,
                 el_lua_push_decided},
    {"released", EL_LUA_LOCK, of_lock, EL_LOCK_RELEASED, el_lua_push_released},
    {"ended", EL_LUA_LOCK, of_lock, EL_LOCK_ENDED, el_lua_push_ended},
    {"answered", EL_LUA_TXN, of_txn, EL_GUARDED_ANSWERED, el_lua_push_answer},
    {"all_answered", EL_LUA_STATUS, of_status, EL_STATUS_ANSWERED,
     el_lua_push_answers},
    {"changed", EL_LUA_WATCHER, of_watcher, EL_WATCHER_CHANGED,
     el_lua_push_changed},
    {"closed", EL_LUA_WATCHER, of_watcher, EL_WATCHER_ENDED,
     el_lua_push_closed},
};

/* One wait: the arguments of the call that begins or ends it. */
typedef struct wait_call {
  el_lua_client *lc;
  void *object;
  /* NULL: the wait is for no event, only for an alarm */
  const wait_event *event;
  uint64_t id;
} wait_call;

static const wait_event *check_event(lua_State *L, int arg) {
  const char *name = luaL_checkstring(L, arg);
  size_t i = 0, n = sizeof wait_events / sizeof *wait_events;
  while (i < n && strcmp(wait_events[i].name, name) != 0) {
    i++;
  }
  luaL_argcheck(L, i < n, arg, "not an event");
  return &wait_events[i];
}

/* Returns the wait that the arguments describe: the client at 1, the object at |arg|, and the name
 * of the event at |arg| + 1. If the object is nil, the wait is for no event. */
static wait_call check_call(lua_State *L, int arg) {
  wait_call call = {.lc = el_lua_check_client(L, 1)};
  if (!lua_isnoneornil(L, arg)) {
    call.event = check_event(L, arg + 1);
    call.object = el_lua_check_box(L, arg, call.event->type);
  }
  return call;
}

static uint64_t check_id(lua_State *L, int arg) {
  lua_Number id = luaL_checknumber(L, arg);
  luaL_argcheck(L, id >= 1 && id < 9007199254740992.0, arg,
                "not a wake number");
  return (uint64_t)id;
}

/* Has the number of |call| pushed to |wake| when the event occurs, or after |alarm_ms| (negative:
 * no alarm). Returns false, and does nothing, if the event has already occurred. */
static bool arm(const wait_call *call, el_wake *wake, int64_t alarm_ms) {
  const wait_event *event = call->event;
  if (event != NULL && !el_completion_arm(event->completion(call->object),
                                          event->bit, wake, call->id)) {
    return false;
  }
  if (alarm_ms >= 0) {
    el_client_alarm(call->lc->client, wake, call->id, alarm_ms);
  }
  return true;
}

/* Undoes arm, pushes the outcome of the event, and returns the number of pushed values. If the
 * event has not occurred, it pushes nil. |has_alarm|: arm has set an alarm. */
static el_nret disarm(lua_State *L, const wait_call *call, bool has_alarm) {
  const wait_event *event = call->event;
  el_nret n = 1;
  if (event == NULL) {
    lua_pushnil(L);
  } else {
    n = event->push_outcome(L, call->object, 0);
  }
  if (event != NULL && lua_isnil(L, -n)) {
    el_completion_disarm(event->completion(call->object), event->bit, call->id);
  }
  if (has_alarm) {
    el_client_alarm(call->lc->client, NULL, call->id, -1);
  }
  return n;
}

/* ---- event loops ---- */

/* Returns the client's wake queue, to which the numbers of waits in an event loop are pushed.
 * Returns NULL and sets |err| if it cannot be created, or if the client is closed or forked. */
static el_wake_queue *wake_queue_of(const el_lua_client *lc, el_error *err) {
  el_wake_queue *queue =
      el_shared_wake_queue(el_client_shared(lc->client), err);
  return el_lua_client_is_usable(lc, err) ? queue : NULL;
}

/* client:begin_wait(object, event, seconds) begins a wait in an event loop. An alarm ends the wait
 * after |seconds|; nil: no alarm. Without |object| only the alarm ends it. Returns three values:
 * - the wake number
 * - true if the number will be pushed; false if the event has already occurred
 * - the descriptor that is readable while there are pushed numbers that were not read
 *
 * Returns nil, message, code if the client is closed or forked, or if it cannot create its wake
 * queue. */
static el_nret l_client_begin_wait(lua_State *L) {
  wait_call call = check_call(L, 2);
  int64_t alarm_ms = el_lua_opt_ms(L, 4, -1);
  el_error err;
  el_wake_queue *queue = wake_queue_of(call.lc, &err);
  if (queue == NULL) return el_lua_fail(L, &err);
  call.id = ++call.lc->n_waits;
  lua_pushnumber(L, (lua_Number)call.id);
  lua_pushboolean(L, arm(&call, el_wake_queue_wake(queue), alarm_ms));
  lua_pushinteger(L, el_wake_queue_fd(queue));
  return 3;
}

/* client:end_wait(id, object, event, has_alarm) ends the wait |id|. Returns what the object's
 * method that waits for this event returns; nil: the event has not occurred. |has_alarm|: an alarm
 * was set and must be cancelled. */
static el_nret l_client_end_wait(lua_State *L) {
  wait_call call = check_call(L, 3);
  call.id = check_id(L, 2);
  return disarm(L, &call, lua_toboolean(L, 5));
}

/* client:wake_fd() returns the descriptor that client:begin_wait also returns; or nil, message,
 * code. */
static el_nret l_client_wake_fd(lua_State *L) {
  el_error err;
  el_wake_queue *queue = wake_queue_of(el_lua_check_client(L, 1), &err);
  if (queue == NULL) return el_lua_fail(L, &err);
  lua_pushinteger(L, el_wake_queue_fd(queue));
  return 1;
}

/* client:woken(list) moves the pushed numbers to the end of |list|, also after client:close. It
 * returns nothing. */
static el_nret l_client_woken(lua_State *L) {
  uint64_t ids[WOKEN_MAX];
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_wake_queue *queue =
      el_shared_wake_queue(el_client_shared(lc->client), &err);
  int n;
  size_t taken = WOKEN_MAX;
  luaL_checktype(L, 2, LUA_TTABLE);
  n = (int)el_lua_length(L, 2);
  while (queue != NULL && taken == WOKEN_MAX) {
    taken = el_wake_queue_take(queue, ids, WOKEN_MAX);
    for (size_t i = 0; i < taken; i++) {
      lua_pushnumber(L, (lua_Number)ids[i]);
      lua_rawseti(L, 2, ++n);
    }
  }
  return 0;
}

/* ---- nginx ---- */

/* Releases the lock |arg|, because its nginx request has ended, and drops the reference that the
 * binding had. */
static void release_bound(void *arg) {
  el_lock *lk = arg;
  el_lock_abandon(lk);
  el_lock_unref(lk);
}

static void drop_bound(void *arg) { el_lock_unref(arg); }

/* Returns the wake server for a new wait. For the first wait of the client it starts the server,
 * with the socket below |dir|. Returns NULL and sets |err| if the client is closed, is being closed
 * or is forked, or if the server cannot be started. No wait may begin while the client is being
 * closed, because nothing would stop a server that is started then. */
static el_wake_server *server_for_wait(el_lua_client *lc, const char *dir,
                                       el_error *err) {
  if (!el_lua_client_is_usable(lc, err)) return NULL;
  if (lc->is_closing) {
    el_error_set(err, EL_CLOSED, "the client is closed");
    return NULL;
  }
  if (lc->server == NULL) {
    lc->server = el_wake_server_start(dir, release_bound, err);
  }
  return lc->server;
}

/* Returns the client's wake server; NULL: none was started, or the client is closed or forked. */
static el_wake_server *server_of(const el_lua_client *lc) {
  el_error err;
  return el_lua_client_is_usable(lc, &err) ? lc->server : NULL;
}

static void bind_lock(el_wake_server *server, uint64_t id, el_lock *lk) {
  el_lock_ref(lk);
  if (!el_wake_server_bind(server, id, lk)) el_lock_unref(lk);
}

/* Has |id| pushed when the hold of |lk| ends, or at once if the hold is lost already. If |wake| is
 * NULL, it undoes that. */
static void listen_to(el_lock *lk, el_wake *wake, uint64_t id) {
  el_completion *completion = el_lock_completion(lk);
  if (wake == NULL) {
    el_completion_disarm(completion, EL_LOCK_ENDED, id);
  } else if (!el_completion_arm(completion, EL_LOCK_ENDED, wake, id) &&
             el_lock_loss(lk) != EL_LOSS_NONE) {
    wake->push(wake, id);
  }
}

/* Calls listen_to for each lock in the list at |arg|; nil: none. */
static void listen(lua_State *L, int arg, el_wake *wake, uint64_t id) {
  if (lua_isnoneornil(L, arg)) return;
  lua_rawgeti(L, arg, 1);
  for (int i = 2; !lua_isnil(L, -1); i++) {
    listen_to(el_lua_check_box(L, lua_gettop(L), EL_LUA_LOCK), wake, id);
    lua_pop(L, 1);
    lua_rawgeti(L, arg, i);
  }
  lua_pop(L, 1);
}

/* client:begin_nginx_wait(object, event, seconds, listened, connection, socket_dir) begins a wait
 * in nginx.
 * - |seconds|: an alarm ends the wait after this time; nil: no alarm.
 * - |listened|: a list of locks. The end of one of their holds also ends the wait; nil: none.
 * - |connection|: the wake number of the connection on which the program waits; nil: assign a new
 *   number. The program then makes a connection and sends the new number, which the connection
 *   keeps.
 * - |socket_dir|: the socket is created below this directory; nil: see wake_socket.h.
 *
 * A wait for "decided" binds the lock to the connection: when the connection ends, the lock is
 * released.
 *
 * Returns the wake number, and true if a byte will be sent for it, false if the event has already
 * occurred. For a new number it also returns the path to connect to, and the number of the
 * descriptor that this process opens next (-1: no descriptor is free). Returns nil, message, code
 * on failure. */
static el_nret l_client_begin_nginx_wait(lua_State *L) {
  wait_call call = check_call(L, 2);
  int64_t alarm_ms = el_lua_opt_ms(L, 4, -1);
  bool is_new = lua_isnoneornil(L, 6);
  uint64_t given = is_new ? 0 : check_id(L, 6);
  el_error err;
  el_wake_server *server =
      server_for_wait(call.lc, luaL_optstring(L, 7, NULL), &err);
  el_wake *wake;
  if (server == NULL) return el_lua_fail(L, &err);
  lua_settop(L, 7); /* a result must not replace a missing argument */
  wake = el_wake_server_wake(server);
  call.id = is_new ? FIRST_SERVED + call.lc->n_served++ : given;
  if (is_new) el_wake_server_begin_wait(server, call.id);
  if (call.event == &wait_events[DECIDED])
    bind_lock(server, call.id, call.object);
  lua_pushnumber(L, (lua_Number)call.id);
  lua_pushboolean(L, arm(&call, wake, alarm_ms));
  listen(L, 5, wake, call.id);
  if (!is_new) return 2;
  lua_pushstring(L, el_wake_server_socket(server)->path);
  lua_pushinteger(L, el_wake_socket_next_fd(el_wake_server_socket(server)));
  return 4;
}

/* client:receive_numbers(next_fd) has the wake server read the numbers that were sent. A program
 * that has made a new connection passes the |next_fd| that client:begin_nginx_wait returned: its
 * end of the connection becomes close-on-exec. Otherwise |next_fd| is nil. */
static el_nret l_client_receive_numbers(lua_State *L) {
  int next_fd = (int)luaL_optinteger(L, 2, -1);
  el_wake_server *server = server_of(el_lua_check_client(L, 1));
  if (server == NULL) return 0;
  if (!lua_isnoneornil(L, 2)) {
    el_wake_socket_set_cloexec(el_wake_server_socket(server), next_fd);
  }
  el_wake_server_receive(server);
  return 0;
}

/* client:request_byte(id) has the wake server send another byte when the wake number |id|, which
 * was sent over a connection before, is pushed. */
static el_nret l_client_request_byte(lua_State *L) {
  el_wake_server *server = server_of(el_lua_check_client(L, 1));
  uint64_t id = check_id(L, 2);
  if (server != NULL) el_wake_server_request_byte(server, id);
  return 0;
}

/* Returns whether a lock that is bound to the connection keeps the connection after the wait.
 * |outcome| is the stack index of the outcome of the wait. A lock keeps its connection while it is
 * not decided, while it is held, and while it is not released in etcd. */
static bool keeps_connection(lua_State *L, const wait_call *call, int outcome) {
  return lua_isnil(L, outcome) ||
         (call->event == &wait_events[DECIDED] && lua_toboolean(L, outcome));
}

/* client:end_nginx_wait(id, object, event, has_alarm, listened, is_bound) ends a wait in nginx.
 * |is_bound|: the connection is bound to the lock |object|. The first result is one of these:
 * - nil: the lock keeps the connection, which then serves the next wait for this lock.
 * - true: the connection is free; its number |id| was received, and no byte was or will be sent.
 * - false: the connection is free, but its number was not received, or a byte was sent.
 *
 * The program may close a free connection, or use it for another wait after it has read all bytes.
 * The outcome follows as the next results, as in client:end_wait. */
static el_nret l_client_end_nginx_wait(lua_State *L) {
  wait_call call = check_call(L, 3);
  el_wake_server *server = server_of(call.lc);
  bool is_bound = lua_toboolean(L, 7), is_unanswered;
  el_nret n;
  call.id = check_id(L, 2);
  lua_settop(L, 7); /* a result must not replace a missing argument */
  listen(L, 6, NULL, call.id);
  n = disarm(L, &call, lua_toboolean(L, 5));
  if (is_bound && keeps_connection(L, &call, lua_gettop(L) - n + 1)) {
    lua_pushnil(L);
  } else {
    is_unanswered =
        server != NULL && el_wake_server_end_wait(server, call.id, drop_bound);
    lua_pushboolean(L, is_unanswered);
  }
  lua_insert(L, -n - 1);
  return n + 1;
}

/* client:unbind(id, lock) unbinds |lock| from the connection |id|: the end of the connection no
 * longer releases the lock. Returns true if the connection is free (no other lock is bound to it),
 * its number |id| was received, and no byte was or will be sent. */
static el_nret l_client_unbind(lua_State *L) {
  el_wake_server *server = server_of(el_lua_check_client(L, 1));
  uint64_t id = check_id(L, 2);
  el_lock *lk = el_lua_check_box(L, 3, EL_LUA_LOCK);
  bool is_unanswered = false;
  if (server != NULL && el_wake_server_unbind(server, id, lk, &is_unanswered)) {
    drop_bound(lk);
  }
  lua_pushboolean(L, is_unanswered);
  return 1;
}

/* client:merge_connections(from, into) binds the locks of the connection |from| to the connection
 * |into| instead. Returns whether the number |from| had been received and no byte was or will be
 * sent over that connection, which is now free. If one of the connections has ended, it changes
 * nothing and returns nil. */
static el_nret l_client_merge_connections(lua_State *L) {
  el_wake_server *server = server_of(el_lua_check_client(L, 1));
  uint64_t from = check_id(L, 2), into = check_id(L, 3);
  bool is_unanswered;
  if (server != NULL &&
      el_wake_server_merge(server, from, into, &is_unanswered)) {
    lua_pushboolean(L, is_unanswered);
  } else {
    lua_pushnil(L);
  }
  return 1;
}

/* ---- yieldable ---- */

/* Exists in LuaJIT and Lua 5.3 or newer, not in PUC Lua 5.1 and 5.2. */
extern int lua_isyieldable(lua_State *L) __attribute__((weak));

/* Returns whether a coroutine can yield across the C function of |frame|. In Lua 5.2 it can yield
 * across pcall and xpcall, in Lua 5.1 across no C function. */
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

/* Returns whether a C function on the stack keeps the running coroutine from yielding. In Lua 5.1
 * metamethods and iterators also keep it from yielding, but the stack does not show these. */
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
      {"begin_wait", l_client_begin_wait},
      {"end_wait", l_client_end_wait},
      {"wake_fd", l_client_wake_fd},
      {"woken", l_client_woken},
      {"begin_nginx_wait", l_client_begin_nginx_wait},
      {"receive_numbers", l_client_receive_numbers},
      {"request_byte", l_client_request_byte},
      {"end_nginx_wait", l_client_end_nginx_wait},
      {"unbind", l_client_unbind},
      {"merge_connections", l_client_merge_connections},
      {NULL, NULL},
  };
  static const luaL_Reg functions[] = {{"yieldable", l_yieldable},
                                       {NULL, NULL}};
  el_lua_add_client_methods(L, client_methods);
  el_lua_set_functions(L, functions);
}
