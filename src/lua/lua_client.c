/* lua_client: the userdata of a client. */
#include "lua/lua_client.h"

#include <stdlib.h>

#include "base/background.h"

/* What the collector gives to releasing and revoking. */
enum { GC_BUDGET_MS = 500 };

el_lua_client *el_lua_check_client(lua_State *L, int arg) {
  return el_lua_check_box(L, arg, EL_LUA_CLIENT);
}

bool el_lua_client_is_usable(const el_lua_client *lc, el_error *err) {
  return el_handle_is_usable(el_client_handle(lc->client), err);
}

/* ---- connect ---- */

/* The string in |field| of the options, NULL if there is none. It lives as long
 * as the options do. */
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

/* What connect_options.lua calls an option, and where it goes. */
#define TEXT(field) \
  { #field, offsetof(el_connect_options, field) }
#define TLS_TEXT(field) \
  { #field, offsetof(el_connect_options, tls.field) }

static const struct {
  const char *name;
  size_t offset;
} texts[] = {TEXT(user),           TEXT(password),     TEXT(token),
             TLS_TEXT(cacert),     TLS_TEXT(cert),     TLS_TEXT(key),
             TLS_TEXT(cacert_pem), TLS_TEXT(cert_pem), TLS_TEXT(key_pem),
             TLS_TEXT(server_name)};

static void read_options(lua_State *L, el_connect_options *options) {
  lua_getfield(L, 1, "ttl");
  options->plain.ttl_ms = el_lua_check_ms(L, -1);
  lua_getfield(L, 1, "handoff");
  options->plain.handoff.holds = (int32_t)lua_tointeger(L, -1);
  lua_getfield(L, 1, "handoff_time");
  options->plain.handoff.ms = (int64_t)(lua_tonumber(L, -1) * 1000);
  lua_getfield(L, 1, "tls");
  options->tls_default = lua_toboolean(L, -1);
  lua_getfield(L, 1, "allow_plaintext_auth");
  options->allow_plaintext_auth = lua_toboolean(L, -1);
  lua_getfield(L, 1, "fail_fast");
  options->plain.fail_fast = lua_toboolean(L, -1);
  lua_getfield(L, 1, "wants_events");
  options->plain.wants_events = lua_toboolean(L, -1);
  lua_pop(L, 7);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    *(const char **)(void *)((char *)options + texts[i].offset) =
        text_of(L, texts[i].name);
  }
}

el_nret el_lua_connect(lua_State *L) {
  const char *endpoints[EL_ENDPOINTS_MAX];
  el_connect_options options = {.endpoints = endpoints};
  el_lua_client *lc;
  el_error err;
  void **box;
  luaL_checktype(L, 1, LUA_TTABLE);
  options.n_endpoints = read_endpoints(L, endpoints);
  read_options(L, &options);
  box = el_lua_new_box(L, EL_LUA_CLIENT);
  lc = calloc(1, sizeof *lc);
  if (lc == NULL) return luaL_error(L, "not enough memory");
  lc->client = el_client_new(&options, &err);
  if (lc->client == NULL) {
    free(lc);
    return el_lua_fail(L, &err);
  }
  *box = lc;
  return 1;
}

/* ---- methods ---- */

/* client:usable() -> true | nil, message, code */
static el_nret l_client_usable(lua_State *L) {
  el_error err;
  if (!el_lua_client_is_usable(el_lua_check_client(L, 1), &err)) {
    return el_lua_fail(L, &err);
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* The server's thread posts, and its connections wait for what has ended as
 * closed: so it stops first, and hangs up last. */
static void begin_close(el_lua_client *lc, int64_t budget_ms) {
  if (lc->is_closing) return;
  lc->is_closing = true;
  if (lc->server != NULL) {
    el_wake_server_stop(lc->server);
  }
  el_client_begin_close(lc->client, budget_ms);
}

/* Of a client that is shut. */
static void finish_close(el_lua_client *lc) {
  el_client_join(lc->client);
  if (lc->server != NULL) {
    el_wake_server_hang_up(lc->server);
  }
}

/* client:begin_close(budget): returns at once; client:close is to follow when
 * client:has_stopped() */
static el_nret l_client_begin_close(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_error err;
  if (el_lua_client_is_usable(lc, &err)) {
    begin_close(lc, el_lua_check_ms(L, 2));
  }
  return 0;
}

/* client:has_stopped() -> will client:close return at once? */
static el_nret l_client_has_stopped(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_error err;
  lua_pushboolean(L, !el_lua_client_is_usable(lc, &err) ||
                         el_client_has_stopped(lc->client));
  return 1;
}

/* client:close(budget) */
static el_nret l_client_close(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_error err;
  if (el_lua_client_is_usable(lc, &err)) {
    begin_close(lc, el_lua_check_ms(L, 2));
    el_client_shut(lc->client);
    finish_close(lc);
  }
  return 0;
}

/* client:lease() -> hex | nil */
static el_nret l_client_lease(lua_State *L) {
  const el_lua_client *lc = el_lua_check_client(L, 1);
  int64_t lease = atomic_load(&el_client_handle(lc->client)->lease);
  if (lease == 0) {
    lua_pushnil(L);
  } else {
    el_lua_push_lease(L, lease);
  }
  return 1;
}

/* client:alive() -> seconds */
static el_nret l_client_alive(lua_State *L) {
  el_lua_push_seconds(L, el_client_alive_ms(el_lua_check_client(L, 1)->client));
  return 1;
}

/* client:outage() -> why etcd is known to be out of reach | nil */
static el_nret l_client_outage(lua_State *L) {
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  bool is_known = el_lua_client_is_usable(lc, &err) &&
                  el_outage_read(&el_client_handle(lc->client)->outage, &err);
  lua_pushstring(L, is_known ? err.text : NULL); /* nil for NULL */
  return 1;
}

#define STAT(field) \
  { #field, offsetof(el_stats, field) }

static const struct {
  const char *name;
  size_t offset;
} stats_fields[] = {STAT(enqueues),        STAT(tries),   STAT(looks),
                    STAT(deletes),         STAT(probes),  STAT(keepalives),
                    STAT(grants),          STAT(revokes), STAT(audits),
                    STAT(shared),          STAT(watches), STAT(calls),
                    STAT(acquired),        STAT(lost),    STAT(collected),
                    STAT(failed_attempts), STAT(held),    STAT(waiting)};

/* client:stats() -> table */
static el_nret l_client_stats(lua_State *L) {
  const el_lua_client *lc = el_lua_check_client(L, 1);
  el_stats stats;
  el_counters_read(&el_client_handle(lc->client)->counters, &stats);
  lua_newtable(L);
  for (size_t i = 0; i < sizeof stats_fields / sizeof *stats_fields; i++) {
    el_lua_push_rev(L,
                    *(const int64_t *)(const void *)((const char *)&stats +
                                                     stats_fields[i].offset));
    lua_setfield(L, -2, stats_fields[i].name);
  }
  return 1;
}

static void free_client(el_lua_client *lc) {
  el_client_free(lc->client);
  el_wake_server_free(lc->server);
  free(lc);
}

static void reap(void *arg) {
  finish_close(arg);
  free_client(arg);
}

/* Lua's collector waits for nothing. lua_close does, see el_lua_open_client. */
static el_nret l_client_gc(lua_State *L) {
  el_lua_client *lc = el_lua_take_box(L, 1, EL_LUA_CLIENT);
  el_error err;
  if (lc == NULL || el_handle_is_forked(el_client_handle(lc->client))) return 0;
  if (!el_lua_client_is_usable(lc, &err)) { /* it is closed */
    free_client(lc);
    return 0;
  }
  begin_close(lc, GC_BUDGET_MS);
  el_client_shut(lc->client);
  if (!el_background_start(reap, lc)) reap(lc);
  return 0;
}

static el_nret l_wait_for_background(lua_State *L) {
  (void)L;
  el_background_wait();
  return 0;
}

/* lua_close calls finalizers from the newest object to the oldest: this one's comes after
 * those of all clients. */
static void open_exit_guard(lua_State *L) {
  lua_newuserdata(L, 1);
  lua_newtable(L);
  lua_pushcfunction(L, l_wait_for_background);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, "etcdlock.core.exit_guard");
}

void el_lua_open_client(lua_State *L, const luaL_Reg *const *methods) {
  static const luaL_Reg own[] = {
      {"usable", l_client_usable},
      {"begin_close", l_client_begin_close},
      {"has_stopped", l_client_has_stopped},
      {"close", l_client_close},
      {"lease", l_client_lease},
      {"alive", l_client_alive},
      {"outage", l_client_outage},
      {"stats", l_client_stats},
      {NULL, NULL},
  };
  open_exit_guard(L);
  el_lua_new_type(L, EL_LUA_CLIENT, own, l_client_gc);
  luaL_getmetatable(L, EL_LUA_CLIENT);
  lua_getfield(L, -1, "__index");
  for (; *methods != NULL; methods++) {
    el_lua_set_functions(L, *methods);
  }
  lua_pop(L, 2);
}
