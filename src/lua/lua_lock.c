/* lua_lock: the userdata of a lock. */
#include "lock/lock.h"

#include <lualib.h>
#include <string.h>

#include "lua/lua_client.h"
#include "lua/lua_types.h"

static el_lock *check_lock(lua_State *L) {
  return el_lua_check_box(L, 1, EL_LUA_LOCK);
}

/* Seconds; |none| if there is no such field. */
static int64_t read_ms(lua_State *L, int table, const char *field,
                       int64_t none) {
  int64_t ms;
  lua_getfield(L, table, field);
  ms = el_lua_opt_ms(L, -1, none);
  lua_pop(L, 1);
  return ms;
}

static bool read_flag(lua_State *L, int table, const char *field) {
  bool flag;
  lua_getfield(L, table, field);
  flag = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return flag;
}

/* A leader has his key as several names would have theirs. */
static void read_mode(lua_State *L, int table, el_lock_options *options) {
  lua_getfield(L, table, "mode");
  options->leads = strcmp(luaL_optstring(L, -1, ""), "leader") == 0;
  options->mode = options->leads
                      ? EL_MODE_MULTI
                      : (el_mode)luaL_checkoption(L, -1, "lock", el_modes);
  lua_pop(L, 1);
}

static void read_options(lua_State *L, int table, el_lock_options *options) {
  options->timeout_ms = read_ms(L, table, "limit", -1);
  options->max_hold_ms = read_ms(L, table, "max_hold", 0);
  options->linger_ms = read_ms(L, table, "linger", 0);
  options->lock_delay_ms = read_ms(L, table, "lock_delay", 0);
  options->try_once = read_flag(L, table, "try");
  options->must_share = read_flag(L, table, "must_share");
  read_mode(L, table, options);
  lua_getfield(L, table, "permits");
  options->permits = (uint16_t)luaL_optinteger(L, -1, 0);
  lua_pop(L, 1);
}

/* client:lock(name, value, options) -> lock | nil, message, code. The options are those
 * of el_lock_options, times in seconds, the timeout as `limit`, and the mode may be
 * "leader"; without, it is a plain lock that is waited for. */
static el_nret l_client_lock(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_lock_options options = {.name = el_lua_check_bytes(L, 2),
                             .value = el_lua_check_bytes(L, 3),
                             .timeout_ms = -1};
  el_error err;
  void **box;
  if (!lua_isnoneornil(L, 4)) {
    luaL_checktype(L, 4, LUA_TTABLE);
    read_options(L, 4, &options);
  }
  box = el_lua_new_box(L, EL_LUA_LOCK);
  el_lua_push_attached(L, 1); /* for tell_collected */
  el_lua_attach(L, -2);
  *box = el_lock_new(el_client_handle(lc->client), &options, &err);
  return *box != NULL ? 1 : el_lua_fail(L, &err);
}

const luaL_Reg el_lua_lock_methods[] = {{"lock", l_client_lock}, {NULL, NULL}};

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

/* lock:expire(seconds) -> is it held? */
static el_nret l_lock_expire(lua_State *L) {
  lua_pushboolean(L, el_lock_expire(check_lock(L), el_lua_check_ms(L, 2)));
  return 1;
}

/* lock:release() -> was it held? */
static el_nret l_lock_release(lua_State *L) {
  lua_pushboolean(L, el_lock_release(check_lock(L)));
  return 1;
}

/* lock:downgrade(): it is a reader's from now on */
static el_nret l_lock_downgrade(lua_State *L) {
  el_lock_downgrade(check_lock(L));
  return 0;
}

/* lock:outlive(): whoever held it has ended without letting go */
static el_nret l_lock_outlive(lua_State *L) {
  el_lock_outlive(check_lock(L));
  return 0;
}

/* lock:is_outlived() -> has it been released because of that? */
static el_nret l_lock_is_outlived(lua_State *L) {
  lua_pushboolean(L, el_lock_is_outlived(check_lock(L)));
  return 1;
}

/* lock:left() -> seconds that may be relied on | nil if it is not held */
static el_nret l_lock_left(lua_State *L) {
  el_lock *lk = check_lock(L);
  int64_t left_us;
  if (!el_handle_is_forked(el_lock_handle(lk)) &&
      el_lock_hold(lk, &left_us) == EL_HOLD_HELD) {
    lua_pushnumber(L, (lua_Number)left_us / 1e6);
    return 1;
  }
  lua_pushnil(L);
  return 1;
}

/* lock:held_for() -> seconds since it was taken; 0 unless connect was told that somebody
 *                    wants events */
static el_nret l_lock_held_for(lua_State *L) {
  lua_pushnumber(L, (lua_Number)el_lock_held_us(check_lock(L)) / 1e6);
  return 1;
}

/* lock:loss() -> why it was lost, the same in words | nil */
static el_nret l_lock_loss(lua_State *L) {
  const el_lock *lk = check_lock(L);
  el_loss loss = el_lock_loss(lk);
  el_error cause = {.code = EL_OK};
  if (loss == EL_LOSS_NONE) {
    lua_pushnil(L);
    return 1;
  }
  if (loss == EL_LOSS_EXPIRED) {
    el_lock_read_cause(lk, &cause);
  }
  lua_pushstring(L, el_losses[loss].name);
  lua_pushfstring(L, "%s%s%s", el_losses[loss].text,
                  cause.code != EL_OK ? ": " : "",
                  cause.code != EL_OK ? cause.text : "");
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
  el_bytes key = el_keys_own(el_lock_keys(check_lock(L)));
  lua_pushlstring(L, key.data, key.len);
  return 1;
}

/* ---- collection ---- */

/* Is os.exit, or what stands in its place, on the stack? Lua 5.2 and 5.3, and 5.4 before
 * 5.4.4, leave it there when it closes their state. */
static bool is_exiting(lua_State *L) {
  lua_Debug at;
  bool found = false;
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(L, -1, LUA_OSLIBNAME);
  lua_getfield(L, -1, "exit");
  for (int level = 2; !found && lua_getstack(L, level, &at) != 0; level++) {
    lua_getinfo(L, "f", &at);
    found = lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
  }
  return found;
}

/* Does this finalizer run because the state is closed? Else it has interrupted somebody. */
static bool is_closing(lua_State *L) {
  lua_Debug interrupted;
  return lua_getstack(L, 2, &interrupted) == 0 || is_exiting(L);
}

/* Not at the end of the program, to which a lock may well be kept. */
static el_nret tell_collected(lua_State *L) {
  if (!is_closing(L)) {
    el_lua_push_attached(L, 1);
    lua_getfield(L, -1, "tell_collected");
    lua_insert(L, -2);
    lua_call(L, 1, 0);
  }
  return 0;
}

/* What was dropped is told at once, for there may be no next call. An error has nobody to
 * go to. */
static el_nret l_lock_gc(lua_State *L) {
  el_lock *lk = el_lua_take_box(L, 1, EL_LUA_LOCK);
  if (lk != NULL && el_lock_drop(lk)) {
    lua_pushcfunction(L, tell_collected);
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
      {"token", l_lock_token},
      {"lease", l_lock_lease},
      {"key", l_lock_key},
      {NULL, NULL},
  };
  el_lua_new_type(L, EL_LUA_LOCK, methods, l_lock_gc);
}
