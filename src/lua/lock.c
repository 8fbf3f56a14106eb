/* lock: the userdata of a lock (see lock/lock.h). */
#include "lock/lock.h"

#include <lualib.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lua/client.h"
#include "lua/core.h"

static el_lock *check_lock(lua_State *L) {
  return el_lua_check_box(L, 1, EL_LUA_LOCK);
}

static void read_options(lua_State *L, int table, el_lock_options *options) {
  lua_getfield(L, table, "_timeout");
  options->try_once = lua_isnumber(L, -1) && lua_tonumber(L, -1) == 0;
  lua_getfield(L, table, "_permits");
  options->permits = (uint16_t)luaL_optinteger(L, -1, 0);
  lua_pop(L, 2);
  options->max_hold_ms = el_lua_field_ms(L, table, "_max_hold", 0);
  options->linger_ms = el_lua_field_ms(L, table, "_linger", 0);
  options->must_share = el_lua_field_bool(L, table, "_must_share");
  options->is_in_with = el_lua_field_bool(L, table, "_call");
}

/* client:lock(name, value, mode, seconds, options) requests a lock. Returns its handle, and whether
 * client:next_event may have an event; or nil, message, code.
 * - |mode|: see el_lua_check_mode.
 * - |seconds| is the timeout; nil: none.
 * - |options| is a lock of lock.lua, which describes its fields; nil: none of them is set. Its
 *   field `_core` is set to the handle, here and not in Lua, so that no error of a debug hook comes
 *   between the request and this assignment. */
static el_nret l_client_lock(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_lock_options options = {.name = el_lua_check_bytes(L, 2),
                             .value = el_lua_check_bytes(L, 3),
                             .mode = el_lua_check_mode(L, 4),
                             .leads = el_lua_is_leader(L, 4),
                             .timeout_ms = el_lua_opt_ms(L, 5, -1)};
  el_shared *shared = el_client_shared(lc->client);
  el_error err;
  void **box;
  lua_settop(L, 6);
  if (!lua_isnil(L, 6)) {
    luaL_checktype(L, 6, LUA_TTABLE);
    read_options(L, 6, &options);
  }
  box = el_lua_new_box(L, EL_LUA_LOCK);
  el_lua_push_uservalue(L, 1); /* for call_report_leak */
  el_lua_set_uservalue(L, -2);
  *box = el_lock_new(shared, &options, &err);
  if (*box == NULL) return el_lua_fail(L, &err);
  if (!lua_isnil(L, 6)) {
    lua_pushvalue(L, -1);
    lua_setfield(L, 6, "_core");
  }
  lua_pushboolean(L, el_events_has_some(&shared->events));
  return 2;
}

/* Pushes nil if there is no outcome yet, true for success, or false, message, code. */
static el_nret push_outcome(lua_State *L, bool is_over, const el_error *err) {
  if (!is_over) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushboolean(L, err->code == EL_OK);
  if (err->code == EL_OK) return 1;
  lua_pushstring(L, err->text);
  lua_pushstring(L, el_code_str(err->code));
  return 3;
}

el_nret el_lua_push_decided(lua_State *L, void *lk, int64_t timeout_ms) {
  el_error err;
  bool is_over = el_lock_wait(lk, timeout_ms, &err);
  return push_outcome(L, is_over, &err);
}

el_nret el_lua_push_released(lua_State *L, void *lk, int64_t timeout_ms) {
  el_error err;
  bool is_over = el_lock_wait_released(lk, timeout_ms, &err);
  return push_outcome(L, is_over, &err);
}

el_nret el_lua_push_ended(lua_State *L, void *lk, int64_t timeout_ms) {
  el_error none = {.code = EL_OK};
  int64_t left_us;
  if (!el_shared_is_forked(el_lock_shared(lk))) {
    el_lock_hold(lk, &left_us); /* records a loss if the hold is over */
  }
  return push_outcome(L, el_lock_wait_ended(lk, timeout_ms), &none);
}

/* lock:wait(seconds) waits for the grant. Returns true if the lock is held; false, message, code if
 * the acquisition failed; nil if neither happened within |seconds|. */
static el_nret l_lock_wait(lua_State *L) {
  return el_lua_push_decided(L, check_lock(L), el_lua_check_ms(L, 2));
}

/* lock:wait_released(seconds) waits until the release has ended: see el_lock_wait_released. Returns
 * true; false, message, code if the release failed; nil if neither happened within |seconds|. */
static el_nret l_lock_wait_released(lua_State *L) {
  return el_lua_push_released(L, check_lock(L), el_lua_check_ms(L, 2));
}

/* lock:wait_ended(seconds) waits for the end of the hold. Returns true; nil if it lasts longer than
 * |seconds|. */
static el_nret l_lock_wait_ended(lua_State *L) {
  return el_lua_push_ended(L, check_lock(L), el_lua_check_ms(L, 2));
}

/* lock:expire(seconds) limits the hold to |seconds| from now, in place of any earlier limit.
 * Returns false if the lock is not held. */
static el_nret l_lock_expire(lua_State *L) {
  lua_pushboolean(L,
                  el_lock_set_max_hold(check_lock(L), el_lua_check_ms(L, 2)));
  return 1;
}

/* lock:release() ends the hold or the wait; returns whether the lock was held. */
static el_nret l_lock_release(lua_State *L) {
  lua_pushboolean(L, el_lock_release(check_lock(L)));
  return 1;
}

/* lock:downgrade() marks the write hold as a read hold: see el_lock_downgrade. */
static el_nret l_lock_downgrade(lua_State *L) {
  el_lock_downgrade(check_lock(L));
  return 0;
}

/* lock:outlive() releases the lock, or ends the wait, because its nginx request has ended. */
static el_nret l_lock_outlive(lua_State *L) {
  el_lock_abandon(check_lock(L));
  return 0;
}

/* lock:is_outlived() returns whether the lock was released by lock:outlive, or by the end of its
 * connection. */
static el_nret l_lock_is_outlived(lua_State *L) {
  lua_pushboolean(L, el_lock_is_abandoned(check_lock(L)));
  return 1;
}

/* lock:left() returns the seconds until the hold deadline, or until the end of max_hold if that is
 * sooner; nil if the lock is not held. */
static el_nret l_lock_left(lua_State *L) {
  el_lock *lk = check_lock(L);
  int64_t left_us;
  if (!el_shared_is_forked(el_lock_shared(lk)) &&
      el_lock_hold(lk, &left_us) == EL_HOLD_HELD) {
    lua_pushnumber(L, (lua_Number)left_us / 1e6);
    return 1;
  }
  lua_pushnil(L);
  return 1;
}

/* lock:held_for() returns the seconds since the grant. */
static el_nret l_lock_held_for(lua_State *L) {
  lua_pushnumber(L, (lua_Number)el_lock_held_us(check_lock(L)) / 1e6);
  return 1;
}

/* lock:loss() returns the reason of the loss and its description; nil if the lock was not lost. */
static el_nret l_lock_loss(lua_State *L) {
  const el_lock *lk = check_lock(L);
  el_loss loss = el_lock_loss(lk);
  el_error cause = {.code = EL_OK};
  if (loss == EL_LOSS_NONE) {
    lua_pushnil(L);
    return 1;
  }
  if (loss == EL_LOSS_EXPIRED) {
    el_lock_read_proof_error(lk, &cause);
  }
  lua_pushstring(L, el_losses[loss].name);
  lua_pushfstring(L, "%s%s%s", el_losses[loss].text,
                  cause.code != EL_OK ? ": " : "",
                  cause.code != EL_OK ? cause.text : "");
  return 2;
}

/* lock:waited() returns whether the acquisition has waited for another owner or client. */
static el_nret l_lock_waited(lua_State *L) {
  lua_pushboolean(L, el_lock_waited(check_lock(L)));
  return 1;
}

/* Pushes the value of |key|, how many seconds ago the client has read it, and key->permits; nothing
 * for NULL. */
static el_nret push_seen_key(lua_State *L, el_seen_key *key) {
  if (key == NULL) return 0;
  lua_pushlstring(L, key->label, key->len);
  el_lua_push_seconds(L, el_now_ms() - key->seen_ms);
  lua_pushinteger(L, key->permits);
  free(key);
  return 3;
}

/* lock:take_holder() returns the value of the holder's key, how many seconds ago the client has
 * read it, and 0; nothing if it has not read such a key since the last call. */
static el_nret l_lock_take_holder(lua_State *L) {
  return push_seen_key(L, el_lock_take_holder(check_lock(L)));
}

/* lock:take_other_permits() returns the same for a key of the semaphore that has another number of
 * permits, but this number in place of 0. */
static el_nret l_lock_take_other_permits(lua_State *L) {
  return push_seen_key(L, el_lock_take_other_permits(check_lock(L)));
}

/* lock:held_rev() returns a revision at which the lock was held: see el_lock_held_rev. */
static el_nret l_lock_held_rev(lua_State *L) {
  el_lua_push_rev(L, el_lock_held_rev(check_lock(L)));
  return 1;
}

/* lock:token() returns the fencing token: the create_revision of the own key. */
static el_nret l_lock_token(lua_State *L) {
  el_lua_push_rev(L, el_lock_token(check_lock(L)));
  return 1;
}

/* lock:lease() returns the lease ID in hex. */
static el_nret l_lock_lease(lua_State *L) {
  el_lua_push_id(L, el_lock_lease(check_lock(L)));
  return 1;
}

/* lock:key() returns the own key; of a multi-lock, the first one. */
static el_nret l_lock_key(lua_State *L) {
  el_bytes key = el_keys_own(el_lock_keys(check_lock(L)));
  lua_pushlstring(L, key.data, key.len);
  return 1;
}

/* ---- collection ---- */

/* Returns whether os.exit, or a function that replaces it, is on the stack. Lua 5.2, 5.3 and 5.4
 * before 5.4.4 close the state within os.exit, so os.exit is then still on the stack. */
static bool is_exiting(lua_State *L) {
  lua_Debug frame;
  bool is_found = false;
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(L, -1, LUA_OSLIBNAME);
  lua_getfield(L, -1, "exit");
  for (int level = 2; !is_found && lua_getstack(L, level, &frame) != 0;
       level++) {
    lua_getinfo(L, "f", &frame);
    is_found = lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
  }
  return is_found;
}

/* Returns whether the finalizer runs because the state is being closed. If not, the collector has
 * interrupted a function, and that function is on the stack. */
static bool is_closing(lua_State *L) {
  lua_Debug interrupted;
  return lua_getstack(L, 2, &interrupted) == 0 || is_exiting(L);
}

/* Calls the method report_leak of the table that client:attend has registered, unless the state is
 * being closed: a lock that is held until the program ends is not a leaked lock. */
static el_nret call_report_leak(lua_State *L) {
  if (!is_closing(L)) {
    el_lua_push_uservalue(L, 1);
    lua_getfield(L, -1, "report_leak");
    lua_insert(L, -2);
    lua_call(L, 1, 0);
  }
  return 0;
}

/* Reports a leaked lock at once, because the program may never call etcdlock again. An error of the
 * handler is dropped: a finalizer has no caller to raise it to. */
static el_nret l_lock_gc(lua_State *L) {
  el_lock *lk = el_lua_take_box(L, 1, EL_LUA_LOCK);
  if (lk != NULL && el_lock_drop(lk)) {
    lua_pushcfunction(L, call_report_leak);
    lua_pushvalue(L, 1);
    (void)lua_pcall(L, 1, 0, 0);
  }
  return 0;
}

void el_lua_open_lock(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"wait", l_lock_wait},
      {"wait_released", l_lock_wait_released},
      {"wait_ended", l_lock_wait_ended},
      {"expire", l_lock_expire},
      {"release", l_lock_release},
      {"downgrade", l_lock_downgrade},
      {"outlive", l_lock_outlive},
      {"is_outlived", l_lock_is_outlived},
      {"left", l_lock_left},
      {"held_for", l_lock_held_for},
      {"loss", l_lock_loss},
      {"waited", l_lock_waited},
      {"take_holder", l_lock_take_holder},
      {"take_other_permits", l_lock_take_other_permits},
      {"held_rev", l_lock_held_rev},
      {"token", l_lock_token},
      {"lease", l_lock_lease},
      {"key", l_lock_key},
      {NULL, NULL},
  };
  static const luaL_Reg client_methods[] = {{"lock", l_client_lock},
                                            {NULL, NULL}};
  el_lua_new_type(L, EL_LUA_LOCK, methods, l_lock_gc);
  el_lua_add_client_methods(L, client_methods);
}
