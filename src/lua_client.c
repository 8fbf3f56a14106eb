/* L4 lua_client: the userdata of a client. */
#include "lua_client.h"

#include "client.h"
#include "lua_wake.h"

/* What lua_close and the collector give to releasing and revoking. */
enum { GC_BUDGET_MS = 500 };

static el_client *check_client(lua_State *L) {
  return el_lua_check_box(L, 1, EL_LUA_CLIENT);
}

/* The string in |field| of the settings, NULL if there is none. It lives as
 * long as the settings do. */
static const char *text_of(lua_State *L, const char *field) {
  const char *text;
  lua_getfield(L, 1, field);
  text = lua_tostring(L, -1);
  lua_pop(L, 1);
  return text;
}

static size_t read_endpoints(lua_State *L, const char **endpoints) {
  size_t n = 0;
  lua_getfield(L, 1, "endpoints");
  while (n < EL_ENDPOINTS_MAX) {
    lua_rawgeti(L, -1, (int)n + 1);
    endpoints[n] = lua_tostring(L, -1);
    lua_pop(L, 1);
    if (endpoints[n] == NULL) break;
    n++;
  }
  lua_pop(L, 1);
  return n;
}

el_nret el_lua_connect(lua_State *L) {
  const char *endpoints[EL_ENDPOINTS_MAX];
  el_client_options options = {.endpoints = endpoints};
  el_error err;
  void **box;
  luaL_checktype(L, 1, LUA_TTABLE);
  options.n_endpoints = read_endpoints(L, endpoints);
  lua_getfield(L, 1, "ttl");
  options.ttl_ms = el_lua_check_ms(L, -1);
  lua_getfield(L, 1, "tls");
  options.tls_default = lua_toboolean(L, -1);
  lua_getfield(L, 1, "allow_plaintext_auth");
  options.allow_plaintext_auth = lua_toboolean(L, -1);
  options.user = text_of(L, "user");
  options.password = text_of(L, "password");
  options.token = text_of(L, "token");
  options.cacert = text_of(L, "cacert");
  options.cert = text_of(L, "cert");
  options.key = text_of(L, "key");
  options.cacert_pem = text_of(L, "cacert_pem");
  options.cert_pem = text_of(L, "cert_pem");
  options.key_pem = text_of(L, "key_pem");
  options.server_name = text_of(L, "server_name");
  box = el_lua_new_box(L, EL_LUA_CLIENT);
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
      {"lock", el_lua_client_lock},       {"call", el_lua_client_call},
      {"usable", l_client_usable},        {"close", l_client_close},
      {"lease", l_client_lease},          {"alive", l_client_alive},
      {"stats", l_client_stats},          {"wake_fd", el_lua_client_wake_fd},
      {"woken", el_lua_client_woken},     {"alarm", el_lua_client_alarm},
      {"serve", el_lua_client_serve},     {"expect", el_lua_client_expect},
      {"taken", el_lua_client_taken},     {"seal", el_lua_client_seal},
      {"next_fd", el_lua_client_next_fd}, {NULL, NULL},
  };
  el_lua_new_type(L, EL_LUA_CLIENT, methods, l_client_gc);
}
