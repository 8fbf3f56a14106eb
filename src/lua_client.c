/* L4 lua_client: the userdata of a client. */
#include "lua_client.h"

#include "client.h"

/* What lua_close and the collector give to releasing and revoking. */
enum { GC_BUDGET_MS = 500 };

static el_client *check_client(lua_State *L) {
  return el_lua_check_box(L, 1, EL_LUA_CLIENT);
}

el_nret el_lua_connect(lua_State *L) {
  el_error err;
  el_client_options options = {.endpoint = luaL_checkstring(L, 1),
                               .ttl_ms = el_lua_check_ms(L, 2)};
  void **box = el_lua_new_box(L, EL_LUA_CLIENT);
  *box = el_client_new(&options, &err);
  return *box != NULL ? 1 : el_lua_fail(L, &err);
}

/* client:usable() -> true | nil, message, code */
static el_nret l_client_usable(lua_State *L) {
  el_error err;
  if (!el_client_is_usable(check_client(L), &err)) return el_lua_fail(L, &err);
  lua_pushboolean(L, 1);
  return 1;
}

/* client:close(budget) */
static el_nret l_client_close(lua_State *L) {
  el_client_close(check_client(L), el_lua_check_ms(L, 2));
  return 0;
}

/* client:lease() -> hex | nil */
static el_nret l_client_lease(lua_State *L) {
  int64_t lease = el_client_lease(check_client(L));
  if (lease == 0) {
    lua_pushnil(L);
  } else {
    el_lua_push_lease(L, lease);
  }
  return 1;
}

/* client:alive() -> seconds */
static el_nret l_client_alive(lua_State *L) {
  el_lua_push_seconds(L, el_client_alive_ms(check_client(L)));
  return 1;
}

/* client:stats() -> table */
static el_nret l_client_stats(lua_State *L) {
  el_stats stats;
  el_client_stats(check_client(L), &stats);
  lua_newtable(L);
#define FIELD(name) \
  el_lua_push_rev(L, stats.name); \
  lua_setfield(L, -2, #name)
  FIELD(enqueues);
  FIELD(tries);
  FIELD(looks);
  FIELD(deletes);
  FIELD(probes);
  FIELD(keepalives);
  FIELD(grants);
  FIELD(revokes);
  FIELD(watches);
  FIELD(calls);
  FIELD(acquired);
  FIELD(lost);
  FIELD(failed_attempts);
  FIELD(held);
  FIELD(waiting);
#undef FIELD
  return 1;
}

static el_nret l_client_gc(lua_State *L) {
  el_client *cl = el_lua_take_box(L, 1, EL_LUA_CLIENT);
  if (cl != NULL && !el_client_is_forked(cl)) {
    el_client_close(cl, GC_BUDGET_MS);
    el_client_unref(cl);
  }
  return 0;
}

void el_lua_open_client(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"lock", el_lua_client_lock}, {"call", el_lua_client_call},
      {"usable", l_client_usable},  {"close", l_client_close},
      {"lease", l_client_lease},    {"alive", l_client_alive},
      {"stats", l_client_stats},    {NULL, NULL},
  };
  el_lua_new_type(L, EL_LUA_CLIENT, methods, l_client_gc);
}
