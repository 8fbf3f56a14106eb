/* lua_status: the userdata of a question to all members. */
#include "lock/status.h"

#include "lua/lua_client.h"
#include "lua/lua_types.h"

/* client:status(seconds) -> question | nil, message, code */
static el_nret l_client_status(lua_State *L) {
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  int64_t timeout_ms = el_lua_check_ms(L, 2);
  void **box = el_lua_new_box(L, EL_LUA_STATUS);
  *box = el_client_status(lc->client, timeout_ms, &err);
  return *box != NULL ? 1 : el_lua_fail(L, &err);
}

const luaL_Reg el_lua_status_methods[] = {{"status", l_client_status},
                                          {NULL, NULL}};

static void set_rev(lua_State *L, const char *field, int64_t value) {
  el_lua_push_rev(L, value);
  lua_setfield(L, -2, field);
}

static void set_text(lua_State *L, const char *field, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, field);
}

static void push_said(lua_State *L, const el_member_status *said) {
  set_text(L, "version", said->version);
  el_lua_push_lease(L, (int64_t)said->id);
  lua_setfield(L, -2, "id");
  if (said->leader_id != 0) {
    el_lua_push_lease(L, (int64_t)said->leader_id);
    lua_setfield(L, -2, "leader_id");
  }
  set_rev(L, "db_size", said->db_size);
  set_rev(L, "db_in_use", said->db_in_use);
  lua_pushboolean(L, said->is_learner);
  lua_setfield(L, -2, "is_learner");
  lua_pushnumber(L, (lua_Number)said->took_us / 1e6);
  lua_setfield(L, -2, "seconds");
  lua_newtable(L);
  for (size_t i = 0; i < said->n_problems; i++) {
    lua_pushstring(L, said->problems[i]);
    lua_rawseti(L, -2, (int)i + 1);
  }
  lua_setfield(L, -2, "problems");
}

static void push_answer(lua_State *L, const el_status_answer *answer) {
  static const char *const transports[] = {[EL_TRANSPORT_TLS] = "tls",
                                           [EL_TRANSPORT_LOCAL] = "local",
                                           [EL_TRANSPORT_PLAINTEXT] = "open"};
  lua_newtable(L);
  set_text(L, "endpoint", answer->address);
  set_text(L, "transport", transports[answer->transport]);
  if (answer->said.err.code == EL_OK) {
    push_said(L, &answer->said);
  } else {
    set_text(L, "message", answer->said.err.text);
    set_text(L, "code", el_code_str(answer->said.err.code));
  }
}

/* status:wait(seconds) -> nil while not all have answered | a list, with a table for
 * each member: endpoint, line, and message and code, or what it has said */
static el_nret l_status_wait(lua_State *L) {
  el_status *status = el_lua_check_box(L, 1, EL_LUA_STATUS);
  size_t n = 0;
  const el_status_answer *answers =
      el_status_wait(status, el_lua_check_ms(L, 2), &n);
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

void el_lua_open_status(lua_State *L) {
  static const luaL_Reg methods[] = {{"wait", l_status_wait}, {NULL, NULL}};
  el_lua_new_type(L, EL_LUA_STATUS, methods, l_status_gc);
}
