/* client: the userdata of a client, and of its status queries. */
#include "lua/client.h"

#include <math.h>
#include <stdlib.h>

#include "base/background.h"
#include "base/clock.h"
#include "base/times.h"
#include "lock/status.h"
#include "lua/core.h"

el_lua_client *el_lua_check_client(lua_State *L, int arg) {
  return el_lua_check_box(L, arg, EL_LUA_CLIENT);
}

bool el_lua_client_is_usable(const el_lua_client *lc, el_error *err) {
  return el_shared_is_usable(el_client_shared(lc->client), err);
}

/* ---- connect ---- */

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

static void read_plain(lua_State *L, el_plain_options *plain) {
  lua_getfield(L, 1, "ttl");
  plain->ttl_ms = el_lua_check_ms(L, -1);
  plain->lock_delay_ms = el_lua_field_ms(L, 1, "lock_delay", 0);
  lua_getfield(L, 1, "handoff");
  plain->handoff.holds = (int32_t)lua_tointeger(L, -1);
  lua_getfield(L, 1, "handoff_time");
  plain->handoff.ms = (int64_t)(lua_tonumber(L, -1) * 1000);
  lua_pop(L, 3);
  plain->fail_fast = el_lua_field_bool(L, 1, "fail_fast");
  plain->wants_events = el_lua_field_bool(L, 1, "wants_events");
}

static void read_tls(lua_State *L, el_tls_options *tls) {
  tls->cacert = el_lua_field_text(L, 1, "cacert");
  tls->cert = el_lua_field_text(L, 1, "cert");
  tls->key = el_lua_field_text(L, 1, "key");
  tls->cacert_pem = el_lua_field_text(L, 1, "cacert_pem");
  tls->cert_pem = el_lua_field_text(L, 1, "cert_pem");
  tls->key_pem = el_lua_field_text(L, 1, "key_pem");
  tls->server_name = el_lua_field_text(L, 1, "server_name");
}

static void read_options(lua_State *L, el_connect_options *options) {
  read_plain(L, &options->plain);
  read_tls(L, &options->tls);
  options->user = el_lua_field_text(L, 1, "user");
  options->password = el_lua_field_text(L, 1, "password");
  options->token = el_lua_field_text(L, 1, "token");
  options->tls_default = el_lua_field_bool(L, 1, "tls");
  options->allow_plaintext_auth =
      el_lua_field_bool(L, 1, "allow_plaintext_auth");
}

/* connect(options) returns a client; or nil, message, code. |options| comes from
 * connect_options.lua, with all defaults filled in. */
static el_nret l_connect(lua_State *L) {
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

/* client:usable() returns true; or nil, message, code if the client is closed, or was created
 * before a fork. */
static el_nret l_client_usable(lua_State *L) {
  el_error err;
  if (!el_lua_client_is_usable(el_lua_check_box(L, 1, EL_LUA_CLIENT), &err)) {
    return el_lua_fail(L, &err);
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* Stops the wake server and begins to close the client, in this order, because the server's thread
 * posts commands to the client. finish_close ends the server's connections after the client has
 * closed. So each wait has the outcome "closed" before its connection ends. */
static void begin_close(el_lua_client *lc, int64_t budget_ms) {
  if (lc->is_closing) return;
  lc->is_closing = true;
  if (lc->server != NULL) {
    el_wake_server_stop(lc->server);
  }
  el_client_begin_close(lc->client, budget_ms);
}

/* Ends the close of a client for which el_client_shut was called. */
static void finish_close(el_lua_client *lc) {
  el_client_join(lc->client);
  if (lc->server != NULL) {
    el_wake_server_disconnect(lc->server);
  }
}

/* client:begin_close(budget) begins to close the client within |budget| seconds, and returns at
 * once. The caller calls client:close when client:has_stopped returns true. */
static el_nret l_client_begin_close(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_error err;
  if (el_lua_client_is_usable(lc, &err)) {
    begin_close(lc, el_lua_check_ms(L, 2));
  }
  return 0;
}

/* client:has_stopped() returns whether client:close would return at once. */
static el_nret l_client_has_stopped(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_error err;
  lua_pushboolean(L, !el_lua_client_is_usable(lc, &err) ||
                         el_client_has_stopped(lc->client));
  return 1;
}

/* client:close(budget) closes the client within |budget| seconds. */
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

/* client:lease() returns the ID of the session's lease in hex; nil: none. */
static el_nret l_client_lease(lua_State *L) {
  const el_lua_client *lc = el_lua_check_client(L, 1);
  int64_t lease = atomic_load(&el_client_shared(lc->client)->lease);
  if (lease == 0) {
    lua_pushnil(L);
  } else {
    el_lua_push_id(L, lease);
  }
  return 1;
}

/* client:alive() returns the number of seconds from now for which the lease lives, by the last
 * answered keepalive; 0: it does not. */
static el_nret l_client_alive(lua_State *L) {
  el_lua_push_seconds(L, el_client_alive_ms(el_lua_check_client(L, 1)->client));
  return 1;
}

/* client:wait_limit() returns the number of seconds that a wait without a timeout may last:
 * math.huge if etcd has ever answered the client. */
static el_nret l_client_wait_limit(lua_State *L) {
  int64_t ms = el_client_wait_limit_ms(el_lua_check_client(L, 1)->client);
  lua_pushnumber(L, ms == INT64_MAX ? HUGE_VAL : (lua_Number)ms / 1000);
  return 1;
}

/* client:outage(key) returns the reason for which etcd is unreachable; nil: etcd is not known to be
 * unreachable. A caller that fails at once while etcd is unreachable passes |key|: the client then
 * reads |key| in the background, to find out when etcd answers again. Other callers pass nil. */
static el_nret l_client_outage(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_breaker *breaker = el_client_breaker(lc->client);
  bool fails_at_once = !lua_isnoneornil(L, 2), is_outage = false;
  el_error err;
  if (el_lua_client_is_usable(lc, &err)) {
    is_outage =
        fails_at_once
            ? el_breaker_must_fail(breaker, el_lua_check_bytes(L, 2), &err)
            : el_breaker_is_open(breaker, &err);
  }
  lua_pushstring(L, is_outage ? err.text : NULL); /* nil for NULL */
  return 1;
}

/* client:suspect_outage(key) records that a call got no answer. From then on client:outage(key)
 * reports an outage, until etcd answers a read in the background: of |key|, unless a read is under
 * way already. */
static el_nret l_client_suspect_outage(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_bytes key = el_lua_check_bytes(L, 2);
  el_error err;
  if (el_lua_client_is_usable(lc, &err)) {
    el_breaker_probe(el_client_breaker(lc->client), key);
  }
  return 0;
}

/* client:set_password(password) returns true, or nil, a message and a code. */
static el_nret l_client_set_password(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  const char *password = luaL_checkstring(L, 2);
  el_error err;
  if (!el_lua_client_is_usable(lc, &err) ||
      !el_client_set_password(lc->client, password, &err)) {
    return el_lua_fail(L, &err);
  }
  lua_pushboolean(L, 1);
  return 1;
}

#define STAT(field) \
  { #field, offsetof(el_stats, field) }

static const struct {
  const char *name;
  size_t offset;
} stats_fields[] = {
    STAT(enqueues),
    STAT(tries),
    STAT(looks),
    STAT(deletes),
    STAT(lease_checks),
    STAT(keepalives),
    STAT(grants),
    STAT(revokes),
    STAT(audits),
    STAT(batched),
    STAT(watches),
    STAT(calls),
    STAT(authentications),
    STAT(authentication_ms),
    STAT(acquired),
    STAT(lost),
    STAT(leaked),
    STAT(failed_attempts),
    STAT(held),
    STAT(waiting),
};

/* client:stats() returns a table with the fields of el_stats. */
static el_nret l_client_stats(lua_State *L) {
  const el_lua_client *lc = el_lua_check_client(L, 1);
  el_stats stats;
  el_counters_read(&el_client_shared(lc->client)->counters, &stats);
  lua_newtable(L);
  for (size_t i = 0; i < sizeof stats_fields / sizeof *stats_fields; i++) {
    el_lua_set_rev(L, stats_fields[i].name,
                   *(const int64_t *)(const void *)((const char *)&stats +
                                                    stats_fields[i].offset));
  }
  return 1;
}

/* ---- events ---- */

static const char *const event_kinds[EL_EVENT_KINDS] = {
    "leaked", "ended", "lost", "requeued", "failover", "retry", "recovered"};

static void push_bytes(lua_State *L, el_bytes bytes) {
  if (bytes.data == NULL) {
    lua_pushnil(L);
  } else {
    lua_pushlstring(L, bytes.data, bytes.len);
  }
}

static bool is_of_lock(const el_event *event) {
  return event->kind == EL_EVENT_LEAKED || event->kind == EL_EVENT_ENDED ||
         event->kind == EL_EVENT_LOST || event->kind == EL_EVENT_REQUEUED;
}

static void push_lock(lua_State *L, const el_event *event) {
  el_lua_set_text(L, "mode",
                  event->leads ? "leader" : el_mode_names[event->mode]);
  el_lua_set_rev(L, "token", event->token);
  lua_pushboolean(L, event->is_in_with);
  lua_setfield(L, -2, "is_in_with");
  if (event->loss != EL_LOSS_NONE) {
    el_lua_set_text(L, "reason", el_losses[event->loss].name);
    el_lua_set_text(L, "text", el_losses[event->loss].text);
  }
}

/* Pushes a table with the fields that events.lua reads. */
static void push_event(lua_State *L, const el_event *event) {
  lua_newtable(L);
  el_lua_set_text(L, "event", event_kinds[event->kind]);
  el_lua_push_seconds(L, el_now_ms() - event->at_ms);
  lua_setfield(L, -2, "ago");
  el_lua_set_rev(L, "count", event->count);
  el_lua_set_us(L, "lasted", event->lasted_us);
  push_bytes(L, event->subject);
  lua_setfield(L, -2, "subject");
  push_bytes(L, event->why);
  lua_setfield(L, -2, "why");
  if (is_of_lock(event)) {
    push_lock(L, event);
  }
}

/* Runs in a protected call, so that the caller can free the event if Lua runs out of memory. */
static el_nret push_taken(lua_State *L) {
  push_event(L, lua_touserdata(L, 1));
  return 1;
}

/* client:next_event() returns the oldest unread event as a table; nil: none. In a forked child it
 * returns nil: another thread may have locked the events when the process forked. */
static el_nret l_client_next_event(lua_State *L) {
  el_shared *handle = el_client_shared(el_lua_check_client(L, 1)->client);
  el_event event;
  int status;
  if (!el_events_has_some(&handle->events) || el_shared_is_forked(handle)) {
    return 0;
  }
  lua_pushcfunction(L, push_taken);
  if (!el_events_take(&handle->events, &event)) return 0;
  lua_pushlightuserdata(L, &event);
  status = lua_pcall(L, 1, 1, 0);
  el_event_free(&event);
  return status == 0 ? 1 : lua_error(L);
}

/* client:dropped_events() returns a table. For each kind of event it contains the number of events
 * that were dropped since the last call, because the ring of events was full. In a forked child it
 * is empty. */
static el_nret l_client_dropped_events(lua_State *L) {
  el_shared *handle = el_client_shared(el_lua_check_client(L, 1)->client);
  lua_newtable(L);
  for (int kind = 0; kind < EL_EVENT_KINDS; kind++) {
    if (el_shared_is_forked(handle)) break;
    el_lua_set_rev(
        L, event_kinds[kind],
        el_events_take_dropped(&handle->events, (el_event_kind)kind));
  }
  return 1;
}

/* client:attend(events) registers the table |events|: if a lock is garbage-collected while it is
 * held, the method report_leak of the table is called. The call interrupts the Lua function that
 * runs at that time. */
static el_nret l_client_attend(lua_State *L) {
  el_lua_check_client(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  el_lua_set_uservalue(L, 1);
  return 0;
}

/* ---- status ---- */

/* client:status(seconds) asks each member for its status, and allows |seconds| for the answers.
 * Returns a query; or nil, message, code. */
static el_nret l_client_status(lua_State *L) {
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  int64_t timeout_ms = el_lua_check_ms(L, 2);
  void **box = el_lua_new_box(L, EL_LUA_STATUS);
  *box = el_status_start(el_client_shared(lc->client), timeout_ms, &err);
  return *box != NULL ? 1 : el_lua_fail(L, &err);
}

static void push_member_status(lua_State *L, const el_member_status *status) {
  el_lua_set_text(L, "version", status->version);
  el_lua_set_id(L, "id", (int64_t)status->id);
  if (status->leader_id != 0) {
    el_lua_set_id(L, "leader_id", (int64_t)status->leader_id);
  }
  el_lua_set_rev(L, "db_size", status->db_size);
  el_lua_set_rev(L, "db_in_use", status->db_in_use);
  lua_pushboolean(L, status->is_learner);
  lua_setfield(L, -2, "is_learner");
  el_lua_set_us(L, "seconds", status->took_us);
  lua_newtable(L);
  for (size_t i = 0; i < status->n_problems; i++) {
    lua_pushstring(L, status->problems[i]);
    lua_rawseti(L, -2, (int)i + 1);
  }
  lua_setfield(L, -2, "problems");
}

static void push_answer(lua_State *L, const el_status_answer *answer) {
  static const char *const transports[] = {[EL_TRANSPORT_TLS] = "tls",
                                           [EL_TRANSPORT_LOCAL] = "local",
                                           [EL_TRANSPORT_PLAINTEXT] = "open"};
  lua_newtable(L);
  el_lua_set_text(L, "endpoint", answer->address);
  el_lua_set_text(L, "transport", transports[answer->transport]);
  if (answer->status.err.code == EL_OK) {
    push_member_status(L, &answer->status);
  } else {
    el_lua_set_text(L, "message", answer->status.err.text);
    el_lua_set_text(L, "code", el_code_str(answer->status.err.code));
  }
}

/* status:wait(seconds) waits until all members have answered or failed, and returns a list with one
 * table for each member. Each table has the fields endpoint and transport. It also has the fields
 * of the member's status, or message and code if the member has failed. Returns nil if some members
 * have neither answered nor failed within |seconds|. */
static el_nret l_status_wait(lua_State *L) {
  return el_lua_push_answers(L, el_lua_check_box(L, 1, EL_LUA_STATUS),
                             el_lua_check_ms(L, 2));
}

el_nret el_lua_push_answers(lua_State *L, void *status, int64_t timeout_ms) {
  size_t n = 0;
  const el_status_answer *answers = el_status_wait(status, timeout_ms, &n);
  if (answers == NULL) {
    lua_pushnil(L);
    return 1;
  }
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    push_answer(L, &answers[i]);
    lua_rawseti(L, -2, (int)i + 1);
  }
  return 1;
}

static el_nret l_status_gc(lua_State *L) {
  el_status *status = el_lua_take_box(L, 1, EL_LUA_STATUS);
  if (status != NULL) {
    el_status_drop(status);
  }
  return 0;
}

/* ---- garbage collection ---- */

static void free_client(el_lua_client *lc) {
  el_client_free(lc->client);
  el_wake_server_free(lc->server);
  free(lc);
}

/* Runs on a thread of background.h, or in the collector if no thread can be started. */
static void close_in_background(void *arg) {
  finish_close(arg);
  free_client(arg);
}

/* The collector must not block the program, so a background thread closes the client.
 * open_exit_guard makes lua_close wait for that thread. */
static el_nret l_client_gc(lua_State *L) {
  el_lua_client *lc = el_lua_take_box(L, 1, EL_LUA_CLIENT);
  el_error err;
  if (lc == NULL || el_shared_is_forked(el_client_shared(lc->client))) return 0;
  if (!el_lua_client_is_usable(lc, &err)) { /* client:close was called */
    free_client(lc);
    return 0;
  }
  begin_close(lc, EL_COLLECTED_MS);
  el_client_shut(lc->client);
  if (!el_background_start(close_in_background, lc)) close_in_background(lc);
  return 0;
}

static el_nret l_wait_for_background(lua_State *L) {
  (void)L;
  el_background_wait();
  return 0;
}

/* Creates a userdata whose finalizer waits for the background threads. lua_close calls finalizers
 * from the newest object to the oldest, so this finalizer runs after those of all clients. */
static void open_exit_guard(lua_State *L) {
  lua_newuserdata(L, 1);
  lua_newtable(L);
  lua_pushcfunction(L, l_wait_for_background);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, "etcdlock.core.exit_guard");
}

void el_lua_add_client_methods(lua_State *L, const luaL_Reg *methods) {
  luaL_getmetatable(L, EL_LUA_CLIENT);
  lua_getfield(L, -1, "__index");
  el_lua_set_functions(L, methods);
  lua_pop(L, 2);
}

void el_lua_open_client(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"usable", l_client_usable},
      {"begin_close", l_client_begin_close},
      {"has_stopped", l_client_has_stopped},
      {"close", l_client_close},
      {"lease", l_client_lease},
      {"alive", l_client_alive},
      {"wait_limit", l_client_wait_limit},
      {"outage", l_client_outage},
      {"suspect_outage", l_client_suspect_outage},
      {"set_password", l_client_set_password},
      {"stats", l_client_stats},
      {"attend", l_client_attend},
      {"next_event", l_client_next_event},
      {"dropped_events", l_client_dropped_events},
      {"status", l_client_status},
      {NULL, NULL},
  };
  static const luaL_Reg status_methods[] = {{"wait", l_status_wait},
                                            {NULL, NULL}};
  static const luaL_Reg functions[] = {{"connect", l_connect}, {NULL, NULL}};
  open_exit_guard(L);
  el_lua_new_type(L, EL_LUA_CLIENT, methods, l_client_gc);
  el_lua_new_type(L, EL_LUA_STATUS, status_methods, l_status_gc);
  el_lua_set_functions(L, functions);
}
