/* core: luaopen_etcdlock_core, which opens the module, and its functions that need no client.
 *
 * The module is made for lua/etcdlock, which checks options, sets defaults and counts reentrant
 * holds.
 *
 * The module is linked with -z nodelete, because otherwise lua_close would unmap it after the last
 * finalizer, when a thread of a client may still be running its last instructions. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "lock/lock.h"
#include "lua/core.h"
#include "lua/util.h"
#include "protocol/conflict_matrix.h"
#include "protocol/key.h"

#define EXPORT __attribute__((visibility("default")))

/* now() returns the seconds on CLOCK_BOOTTIME, the clock of holds and timers. */
static el_nret l_now(lua_State *L) {
  lua_pushnumber(L, (lua_Number)el_now_us() / 1e6);
  return 1;
}

/* host() returns the host name. */
static el_nret l_host(lua_State *L) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  lua_pushstring(L, name);
  return 1;
}

/* pid() returns the process ID. */
static el_nret l_pid(lua_State *L) {
  lua_pushinteger(L, getpid());
  return 1;
}

/* call(fn, ...) returns true and the results of fn(...), or false and its error. |fn| cannot yield:
 * it is called by lua_pcall without a continuation, and no version of Lua yields across that. */
static el_nret l_call(lua_State *L) {
  int status;
  luaL_checkany(L, 1);
  status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  lua_pushboolean(L, status == 0);
  lua_insert(L, 1);
  return lua_gettop(L);
}

/* call_alone(object, field, fn, arg) calls fn(arg) as `call` does, and returns true and its first
 * result, or false and its error. object[field] is true meanwhile, and false afterwards. It is set
 * here and not in Lua, so that no error of a debug hook leaves it set. */
static el_nret l_call_alone(lua_State *L) {
  int status;
  lua_settop(L, 4);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_pushvalue(L, 2);
  lua_pushboolean(L, true);
  lua_rawset(L, 1);
  status = lua_pcall(L, 1, 1, 0);
  lua_pushvalue(L, 2);
  lua_pushboolean(L, false);
  lua_rawset(L, 1);
  lua_pushboolean(L, status == 0);
  lua_insert(L, -2);
  return 2;
}

/* copy_descriptor(fd) returns a copy of |fd|, which close_descriptor closes; nil: it cannot be
 * copied. libuv can watch a descriptor only once, so a second watcher needs a copy. */
static el_nret l_copy_descriptor(lua_State *L) {
  int copy = fcntl((int)luaL_checkinteger(L, 1), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return 0;
  lua_pushinteger(L, copy);
  return 1;
}

/* close_descriptor(copy) */
static el_nret l_close_descriptor(lua_State *L) {
  close((int)luaL_checkinteger(L, 1));
  return 0;
}

/* ---- keys ---- */

/* parse_key(name, key, lease) returns the lease (or the time, see key.h), mode and permits in |key|
 * if |key| is an entry in the queue of |name|; otherwise nil. |lease| is the lease that |key| is
 * attached to (nil: none). */
static el_nret l_parse_key(lua_State *L) {
  el_bytes name = el_lua_check_bytes(L, 1);
  el_bytes key = el_lua_check_bytes(L, 2);
  el_queue_key queue_key;
  if (!el_key_is_entry(name, key, el_lua_opt_id(L, 3), &queue_key)) {
    lua_pushnil(L);
    return 1;
  }
  el_lua_push_id(L, queue_key.lease);
  lua_pushstring(L, el_mode_names[queue_key.mode]);
  lua_pushinteger(L, queue_key.permits);
  return 3;
}

/* name_of_key(key) returns the lock name in |key| if the key has the form of an entry, or of the
 * marker of a downgraded writer, and the name has no reserved end; otherwise nil. */
static el_nret l_name_of_key(lua_State *L) {
  el_bytes key = el_lua_check_bytes(L, 1);
  el_queue_key queue_key;
  el_bytes name = el_key_name(key, &queue_key);
  if (name.len == 0 || queue_key.mode == EL_MARKER_WRITE_ORDER ||
      el_key_reserved_suffix(name).len > 0) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushlstring(L, name.data, name.len);
  return 1;
}

/* is_before(a, b) tells whether the string |a| is before |b|, compared by bytes, as etcd orders its
 * keys. The operator < of Lua obeys the locale. */
static el_nret l_is_before(lua_State *L) {
  el_bytes a = el_lua_check_bytes(L, 1), b = el_lua_check_bytes(L, 2);
  int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
  lua_pushboolean(L, order < 0 || (order == 0 && a.len < b.len));
  return 1;
}

/* Pushes argument 1, a lock name that may be longer than EL_NAME_MAX, followed by |text|. */
static el_nret push_below(lua_State *L, const char *text, size_t len) {
  el_lua_check_bytes(L, 1);
  lua_pushvalue(L, 1);
  lua_pushlstring(L, text, len);
  lua_concat(L, 2);
  return 1;
}

bool el_lua_is_leader(lua_State *L, int arg) {
  return strcmp(luaL_optstring(L, arg, ""), "leader") == 0;
}

/* The key of an election has the layout of a multi-lock with one name. */
el_mode el_lua_check_mode(lua_State *L, int arg) {
  return el_lua_is_leader(L, arg)
             ? EL_MODE_MULTI
             : (el_mode)luaL_checkoption(L, arg, "lock", el_mode_names);
}

/* key_stem(name, mode) returns the common prefix of all keys of |mode| below |name|. */
static el_nret l_key_stem(lua_State *L) {
  char stem[EL_KEY_SIZE];
  size_t len =
      el_key_write_prefix(stem, (el_bytes){"", 0}, el_lua_check_mode(L, 2));
  return push_below(L, stem, len);
}

/* modes_conflict(older, younger) returns whether an entry of mode |younger| waits for one of mode
 * |older| in the same queue. */
static el_nret l_modes_conflict(lua_State *L) {
  lua_pushboolean(
      L, el_modes_conflict(el_lua_check_mode(L, 1), el_lua_check_mode(L, 2)));
  return 1;
}

/* downgrade_marker(name, revision) returns the marker key of a downgraded writer. |revision| is the
 * create_revision of the writer's key. The marker exists if the writer has become a reader. */
static el_nret l_downgrade_marker(lua_State *L) {
  char key[EL_KEY_SIZE];
  el_queue_key marker = el_marker_downgraded(luaL_checkinteger(L, 2));
  return push_below(L, key, el_key_write(key, (el_bytes){"", 0}, &marker));
}

/* reserved_end(name) returns the suffix of |name| that no lock name may have; nil: it has none. */
static el_nret l_reserved_end(lua_State *L) {
  el_bytes end = el_key_reserved_suffix(el_lua_check_bytes(L, 1));
  if (end.len == 0) {
    lua_pushnil(L);
  } else {
    lua_pushlstring(L, end.data, end.len);
  }
  return 1;
}

/* is_name(name) returns whether a lock can have this full name. */
static el_nret l_is_name(lua_State *L) {
  el_bytes name = el_lua_check_bytes(L, 1);
  lua_pushboolean(L, name.len > 0 && name.len <= EL_NAME_MAX &&
                         memchr(name.data, '\0', name.len) == NULL &&
                         el_key_reserved_suffix(name).len == 0);
  return 1;
}

/* ---- the module ---- */

static void set_limit(lua_State *L, const char *name, lua_Integer limit) {
  lua_pushinteger(L, limit);
  lua_setfield(L, -2, name);
}

EXPORT int luaopen_etcdlock_core(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"now", l_now},
      {"host", l_host},
      {"pid", l_pid},
      {"call", l_call},
      {"call_alone", l_call_alone},
      {"copy_descriptor", l_copy_descriptor},
      {"close_descriptor", l_close_descriptor},
      {"parse_key", l_parse_key},
      {"name_of_key", l_name_of_key},
      {"is_before", l_is_before},
      {"key_stem", l_key_stem},
      {"modes_conflict", l_modes_conflict},
      {"downgrade_marker", l_downgrade_marker},
      {"reserved_end", l_reserved_end},
      {"is_name", l_is_name},
      {NULL, NULL},
  };
  lua_newtable(L);
  el_lua_set_functions(L, functions);
  set_limit(L, "PERMITS_MAX", EL_PERMITS_MAX);
  set_limit(L, "MULTI_MAX", EL_MULTI_MAX);
  set_limit(L, "NAME_MAX", EL_NAME_MAX);
  set_limit(L, "HOLD_SIZE", (lua_Integer)el_lock_size());
  el_lua_open_collected(L);
  el_lua_open_client(L);
  el_lua_open_lock(L);
  el_lua_open_txn(L);
  el_lua_open_watch(L);
  el_lua_open_wait(L);
  el_lua_open_child(L);
#ifdef EL_TEST
  el_lua_open_test(L);
#endif
  return 1;
}
