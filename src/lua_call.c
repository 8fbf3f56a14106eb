/* L4 lua_call: the userdata of a call. */
#include "call.h"
#include "lua_client.h"
#include "lua_wake.h"

static el_call *check_call(lua_State *L) {
  return el_lua_check_box(L, 1, EL_LUA_CALL);
}

static void check_memory(lua_State *L, bool enough) {
  if (!enough) {
    luaL_error(L, "not enough memory");
  }
}

el_nret el_lua_client_call(lua_State *L) {
  el_client *cl = el_lua_check_box(L, 1, EL_LUA_CLIENT);
  void **box = el_lua_new_box(L, EL_LUA_CALL);
  *box = el_call_new(cl);
  check_memory(L, *box != NULL);
  return 1;
}

/* call:get(key) */
static el_nret l_call_get(lua_State *L) {
  el_op op = {.kind = EL_OP_RANGE, .key = el_lua_check_bytes(L, 2)};
  check_memory(L, el_call_add(check_call(L), &op));
  return 0;
}

/* call:list(from, to): all keys in between, the oldest first */
static el_nret l_call_list(lua_State *L) {
  el_op op = {.kind = EL_OP_RANGE,
              .key = el_lua_check_bytes(L, 2),
              .range_end = el_lua_check_bytes(L, 3),
              .sort = EL_SORT_OLDEST};
  check_memory(L, el_call_add(check_call(L), &op));
  return 0;
}

/* call:put(key, value) */
static el_nret l_call_put(lua_State *L) {
  el_op op = {.kind = EL_OP_PUT,
              .key = el_lua_check_bytes(L, 2),
              .value = el_lua_check_bytes(L, 3)};
  check_memory(L, el_call_add(check_call(L), &op));
  return 0;
}

/* call:delete(key) */
static el_nret l_call_delete(lua_State *L) {
  el_op op = {.kind = EL_OP_DELETE, .key = el_lua_check_bytes(L, 2)};
  check_memory(L, el_call_add(check_call(L), &op));
  return 0;
}

/* call:guard(key, create_revision) */
static el_nret l_call_guard(lua_State *L) {
  el_bytes key = el_lua_check_bytes(L, 2);
  check_memory(L, el_call_guard(check_call(L), key.data, key.len,
                                (int64_t)luaL_checknumber(L, 3)));
  return 0;
}

/* call:guard_lock(lock) */
static el_nret l_call_guard_lock(lua_State *L) {
  el_lock *lk = el_lua_check_box(L, 2, EL_LUA_LOCK);
  check_memory(L, el_call_guard_lock(check_call(L), lk));
  return 0;
}

/* call:start(seconds) -> true | nil, message, code */
static el_nret l_call_start(lua_State *L) {
  el_error err;
  if (!el_call_start(check_call(L), el_lua_check_ms(L, 2), &err)) {
    return el_lua_fail(L, &err);
  }
  lua_pushboolean(L, 1);
  return 1;
}

static void push_kv(lua_State *L, const el_kv *kv) {
  lua_createtable(L, 0, 5);
  lua_pushlstring(L, kv->key.data ? kv->key.data : "", kv->key.len);
  lua_setfield(L, -2, "key");
  lua_pushlstring(L, kv->value.data ? kv->value.data : "", kv->value.len);
  lua_setfield(L, -2, "value");
  el_lua_push_rev(L, kv->create_rev);
  lua_setfield(L, -2, "create_revision");
  el_lua_push_rev(L, kv->mod_rev);
  lua_setfield(L, -2, "mod_revision");
  if (kv->lease != 0) {
    el_lua_push_lease(L, kv->lease);
    lua_setfield(L, -2, "lease");
  }
}

/* A put gives true, a delete the number of keys deleted, a range its keys. */
static void push_result(lua_State *L, const el_op_result *result) {
  switch (result->kind) {
    case EL_OP_RANGE:
      lua_createtable(L, (int)result->n_kvs, 0);
      for (size_t i = 0; i < result->n_kvs; i++) {
        push_kv(L, &result->kvs[i]);
        lua_rawseti(L, -2, (int)i + 1);
      }
      return;
    case EL_OP_DELETE:
      el_lua_push_rev(L, result->deleted);
      return;
    default:
      lua_pushboolean(L, 1);
  }
}

/* call:wait(seconds) -> nil while there is no answer
 *                     | true, guard held?, results, revision
 *                     | false, message, code, is it certain that nothing
 *                       was written? */
static el_nret l_call_wait(lua_State *L) {
  const el_txn_answer *answer =
      el_call_wait(check_call(L), el_lua_check_ms(L, 2));
  if (answer == NULL) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushboolean(L, answer->err.code == EL_OK);
  if (answer->err.code != EL_OK) {
    lua_pushstring(L, answer->err.text);
    lua_pushstring(L, el_code_str(answer->err.code));
    lua_pushboolean(L, answer->err.definite);
    return 4;
  }
  lua_pushboolean(L, answer->succeeded);
  lua_createtable(L, (int)answer->n_results, 0);
  for (size_t i = 0; i < answer->n_results; i++) {
    push_result(L, &answer->results[i]);
    lua_rawseti(L, -2, (int)i + 1);
  }
  el_lua_push_rev(L, answer->rev);
  return 4;
}

/* call:arm(id, served) -> will |id| be woken? false: the answer is there */
static el_nret l_call_arm(lua_State *L) {
  el_call *call = check_call(L);
  uint64_t id = el_lua_check_id(L, 2);
  el_wake *wake = el_lua_check_wake(L, 3, el_call_client(call));
  lua_pushboolean(L, el_call_arm(call, wake, id));
  return 1;
}

static el_nret l_call_gc(lua_State *L) {
  el_call *call = el_lua_take_box(L, 1, EL_LUA_CALL);
  if (call != NULL) {
    el_call_drop(call);
  }
  return 0;
}

void el_lua_open_call(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"get", l_call_get},     {"list", l_call_list},
      {"put", l_call_put},     {"delete", l_call_delete},
      {"guard", l_call_guard}, {"guard_lock", l_call_guard_lock},
      {"start", l_call_start}, {"wait", l_call_wait},
      {"arm", l_call_arm},     {NULL, NULL},
  };
  el_lua_new_type(L, EL_LUA_CALL, methods, l_call_gc);
}
