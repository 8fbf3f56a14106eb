/* L4 lua_lock: the userdata of a lock. */
#include "client.h"
#include "lock.h"
#include "lua_client.h"
#include "lua_wake.h"

static el_lock *check_lock(lua_State *L) {
  return el_lua_check_box(L, 1, EL_LUA_LOCK);
}

el_nret el_lua_client_lock(lua_State *L) {
  el_client *cl = el_lua_check_box(L, 1, EL_LUA_CLIENT);
  el_bytes name = el_lua_check_bytes(L, 2);
  el_bytes value = el_lua_check_bytes(L, 3);
  el_lock_options options = {
      .name = name.data,
      .name_len = name.len,
      .value = value.data,
      .value_len = value.len,
      .timeout_ms = lua_isnoneornil(L, 4) ? -1 : el_lua_check_ms(L, 4),
      .max_hold_ms = lua_isnoneornil(L, 5) ? 0 : el_lua_check_ms(L, 5),
      .try_once = lua_toboolean(L, 6),
  };
  el_error err;
  void **box = el_lua_new_box(L, EL_LUA_LOCK);
  *box = el_lock_new(cl, &options, &err);
  return *box != NULL ? 1 : el_lua_fail(L, &err);
}

/* Pushes nil while there is no answer, true if it is good, and otherwise
 * false, message, code. */
static el_nret push_verdict(lua_State *L, bool decided, const el_error *err) {
  if (!decided) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushboolean(L, err->code == EL_OK);
  if (err->code == EL_OK) return 1;
  lua_pushstring(L, err->text);
  lua_pushstring(L, el_code_str(err->code));
  return 3;
}

/* lock:wait(seconds) -> nil | true | false, message, code */
static el_nret l_lock_wait(lua_State *L) {
  el_error err;
  bool decided = el_lock_wait(check_lock(L), el_lua_check_ms(L, 2), &err);
  return push_verdict(L, decided, &err);
}

/* lock:wait_released(seconds) -> nil | true | false, message, code */
static el_nret l_lock_wait_released(lua_State *L) {
  el_error err;
  bool decided =
      el_lock_wait_released(check_lock(L), el_lua_check_ms(L, 2), &err);
  return push_verdict(L, decided, &err);
}

/* lock:wait_ended(seconds) -> boolean */
static el_nret l_lock_wait_ended(lua_State *L) {
  lua_pushboolean(L, el_lock_wait_ended(check_lock(L), el_lua_check_ms(L, 2)));
  return 1;
}

static el_lock_news check_news(lua_State *L, int arg) {
  static const char *const news[] = {[EL_LOCK_DECIDED] = "decided",
                                     [EL_LOCK_RELEASED] = "released",
                                     [EL_LOCK_ENDED] = "ended",
                                     NULL};
  return (el_lock_news)luaL_checkoption(L, arg, NULL, news);
}

/* lock:arm(news, id, served) -> will |id| be woken? false: it has happened */
static el_nret l_lock_arm(lua_State *L) {
  el_lock *lk = check_lock(L);
  el_lock_news news = check_news(L, 2);
  uint64_t id = el_lua_check_id(L, 3);
  el_wake *wake = el_lua_check_wake(L, 4, el_lock_client(lk));
  lua_pushboolean(L, el_lock_arm(lk, news, wake, id));
  return 1;
}

/* lock:expire(seconds) -> is it held? */
static el_nret l_lock_expire(lua_State *L) {
  lua_pushboolean(L, el_lock_expire(check_lock(L), el_lua_check_ms(L, 2)));
  return 1;
}

/* lock:disarm(news, id): |id| is not waited for any more */
static el_nret l_lock_disarm(lua_State *L) {
  el_lock *lk = check_lock(L);
  el_lock_disarm(lk, check_news(L, 2), el_lua_check_id(L, 3));
  return 0;
}

/* lock:release() -> was it held? */
static el_nret l_lock_release(lua_State *L) {
  lua_pushboolean(L, el_lock_release(check_lock(L)));
  return 1;
}

/* lock:left() -> seconds that may be relied on | nil if it is not held */
static el_nret l_lock_left(lua_State *L) {
  el_lock *lk = check_lock(L);
  int64_t left_ms;
  if (!el_client_is_forked(el_lock_client(lk)) &&
      el_lock_hold(lk, &left_ms) == EL_HOLD_HELD) {
    el_lua_push_seconds(L, left_ms);
    return 1;
  }
  lua_pushnil(L);
  return 1;
}

/* lock:loss() -> why it was lost, what stood in the way of its proof | nil */
static el_nret l_lock_loss(lua_State *L) {
  static const char *const reasons[] = {
      [EL_LOSS_NONE] = NULL,
      [EL_LOSS_EXPIRED] = "expired",
      [EL_LOSS_REVOKED] = "revoked",
      [EL_LOSS_DELETED] = "deleted",
      [EL_LOSS_REPLACED] = "replaced",
      [EL_LOSS_MAX_HOLD] = "max_hold",
      [EL_LOSS_CLUSTER] = "cluster_changed",
      [EL_LOSS_CLOSED] = "closed",
  };
  el_lock *lk = check_lock(L);
  el_loss loss = el_lock_loss(lk);
  el_error trouble = {.code = EL_OK};
  if (loss == EL_LOSS_EXPIRED) {
    el_lock_trouble(lk, &trouble);
  }
  lua_pushstring(L, reasons[loss]);
  lua_pushstring(L, trouble.code != EL_OK ? trouble.text : NULL);
  return 2;
}

/* lock:waited() -> did somebody else have it when it was asked for? */
static el_nret l_lock_waited(lua_State *L) {
  lua_pushboolean(L, el_lock_waited(check_lock(L)));
  return 1;
}

/* lock:token() -> create_revision of our key */
static el_nret l_lock_token(lua_State *L) {
  el_lua_push_rev(L, el_lock_token(check_lock(L)));
  return 1;
}

/* lock:lease() -> hex */
static el_nret l_lock_lease(lua_State *L) {
  el_lua_push_lease(L, el_lock_lease(check_lock(L)));
  return 1;
}

/* lock:key() -> string */
static el_nret l_lock_key(lua_State *L) {
  size_t len;
  const char *key = el_lock_key_bytes(check_lock(L), &len);
  lua_pushlstring(L, key, len);
  return 1;
}

static el_nret l_lock_gc(lua_State *L) {
  el_lock *lk = el_lua_take_box(L, 1, EL_LUA_LOCK);
  if (lk != NULL) {
    el_lock_drop(lk);
  }
  return 0;
}

void el_lua_open_lock(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"wait", l_lock_wait},
      {"wait_released", l_lock_wait_released},
      {"wait_ended", l_lock_wait_ended},
      {"arm", l_lock_arm},
      {"expire", l_lock_expire},
      {"disarm", l_lock_disarm},
      {"release", l_lock_release},
      {"left", l_lock_left},
      {"loss", l_lock_loss},
      {"waited", l_lock_waited},
      {"token", l_lock_token},
      {"lease", l_lock_lease},
      {"key", l_lock_key},
      {NULL, NULL},
  };
  el_lua_new_type(L, EL_LUA_LOCK, methods, l_lock_gc);
}
