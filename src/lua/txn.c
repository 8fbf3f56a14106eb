/* txn: the userdata of a transaction that a caller composes (see lock/guarded.h). */
#include "lock/guarded.h"

#include "lua/client.h"
#include "lua/core.h"

static el_guarded *check_txn(lua_State *L) {
  return el_lua_check_box(L, 1, EL_LUA_TXN);
}

static void check_memory(lua_State *L, bool is_enough) {
  if (!is_enough) {
    luaL_error(L, "not enough memory");
  }
}

/* client:txn() returns an empty transaction. */
static el_nret l_client_txn(lua_State *L) {
  el_lua_client *lc = el_lua_check_client(L, 1);
  void **box = el_lua_new_box(L, EL_LUA_TXN);
  *box = el_guarded_new(el_client_shared(lc->client));
  check_memory(L, *box != NULL);
  return 1;
}

/* txn:get(key) adds a read of |key|. */
static el_nret l_txn_get(lua_State *L) {
  el_op op = {.kind = EL_OP_RANGE, .key = el_lua_check_bytes(L, 2)};
  check_memory(L, el_guarded_add(check_txn(L), &op));
  return 0;
}

/* Adds a read of the keys from argument 2 up to, but excluding, argument 3. Argument 4 is the
 * revision at which to read (nil: the current one). Argument 5 is the largest number of keys (nil:
 * no limit). */
static el_nret add_range(lua_State *L, int sort, bool keys_only) {
  el_op op = {.kind = EL_OP_RANGE,
              .key = el_lua_check_bytes(L, 2),
              .range_end = el_lua_check_bytes(L, 3),
              .at_rev = luaL_optinteger(L, 4, 0),
              .limit = luaL_optinteger(L, 5, 0),
              .keys_only = keys_only};
  op.sort = sort;
  check_memory(L, el_guarded_add(check_txn(L), &op));
  return 0;
}

/* txn:list(from, to, revision, limit) adds a read of keys and values, oldest key first. */
static el_nret l_txn_list(lua_State *L) {
  return add_range(L, EL_SORT_OLDEST, false);
}

/* txn:oldest_keys(from, to, revision, limit) adds a read of keys without values, oldest key first.
 * A key that the answer shows without a lease may have one: etcd 3.7 omits it. */
static el_nret l_txn_oldest_keys(lua_State *L) {
  return add_range(L, EL_SORT_OLDEST, true);
}

/* txn:keys(from, to, revision, limit) adds a read of keys without values, in the order of the
 * keys' bytes. A key that the answer shows without a lease may have one: etcd 3.7 omits it. */
static el_nret l_txn_keys(lua_State *L) {
  return add_range(L, EL_SORT_BY_KEY, true);
}

/* txn:put(key, value) adds a put. */
static el_nret l_txn_put(lua_State *L) {
  el_op op = {.kind = EL_OP_PUT,
              .key = el_lua_check_bytes(L, 2),
              .value = el_lua_check_bytes(L, 3)};
  check_memory(L, el_guarded_add(check_txn(L), &op));
  return 0;
}

/* txn:delete(key) adds a delete. */
static el_nret l_txn_delete(lua_State *L) {
  el_op op = {.kind = EL_OP_DELETE, .key = el_lua_check_bytes(L, 2)};
  check_memory(L, el_guarded_add(check_txn(L), &op));
  return 0;
}

/* txn:guard(key, create_revision, lease) makes the operations conditional: they are applied only if
 * |key| has this create_revision and is attached to |lease| (nil: to none). */
static el_nret l_txn_guard(lua_State *L) {
  el_bytes key = el_lua_check_bytes(L, 2);
  int64_t rev = (int64_t)luaL_checknumber(L, 3);
  check_memory(L,
               el_guarded_guard(check_txn(L), key, rev, el_lua_opt_id(L, 4)));
  return 0;
}

/* txn:guard_lock(lock) makes the operations conditional: they are applied only if the keys of
 * |lock| exist in etcd, with its token and its lease. */
static el_nret l_txn_guard_lock(lua_State *L) {
  el_lock *lk = el_lua_check_box(L, 2, EL_LUA_LOCK);
  el_guarded_guard_lock(check_txn(L), lk);
  return 0;
}

/* txn:downgrade(lock) adds the downgrade of a write hold to a read hold, guarded by |lock|. */
static el_nret l_txn_downgrade(lua_State *L) {
  el_lock *lk = el_lua_check_box(L, 2, EL_LUA_LOCK);
  check_memory(L, el_guarded_downgrade(check_txn(L), lk));
  return 0;
}

/* txn:proclaim(lock, value) adds a put of |value| to the own key of |lock|, guarded by |lock|. */
static el_nret l_txn_proclaim(lua_State *L) {
  el_lock *lk = el_lua_check_box(L, 2, EL_LUA_LOCK);
  el_bytes value = el_lua_check_bytes(L, 3);
  check_memory(L, el_guarded_proclaim(check_txn(L), lk, value));
  return 0;
}

/* txn:start(seconds) sends the transaction, and allows |seconds| for the answer. Returns true; or
 * nil, message, code if the transaction cannot be sent. */
static el_nret l_txn_start(lua_State *L) {
  el_error err;
  if (!el_guarded_start(check_txn(L), el_lua_check_ms(L, 2), &err)) {
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
  el_lua_set_rev(L, "create_revision", kv->create_rev);
  el_lua_set_rev(L, "mod_revision", kv->mod_rev);
  if (kv->lease != 0) {
    el_lua_set_id(L, "lease", kv->lease);
  }
}

/* Pushes the result of one operation: true for a put, the number of deleted keys for a delete, the
 * list of keys for a read. */
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

/* txn:wait(seconds) waits for the answer. It returns one of these lists:
 * - true, whether the guard succeeded, results, revision of the answer
 * - false, message, code, whether it is certain that nothing was written
 * - nil: no answer came within |seconds| */
static el_nret l_txn_wait(lua_State *L) {
  return el_lua_push_answer(L, check_txn(L), el_lua_check_ms(L, 2));
}

el_nret el_lua_push_answer(lua_State *L, void *txn, int64_t timeout_ms) {
  const el_txn_answer *answer = el_guarded_wait(txn, timeout_ms);
  if (answer == NULL) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushboolean(L, answer->err.code == EL_OK);
  if (answer->err.code != EL_OK) {
    lua_pushstring(L, answer->err.text);
    lua_pushstring(L, el_code_str(answer->err.code));
    lua_pushboolean(L, answer->err.is_definite);
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

/* txn:read_failure() returns why a read has failed: "too large" if its answer was, "compacted" if
 * its revision was, "no permission" if etcd itself denies the user the key. nil: for another
 * reason, or the read has not failed. */
static el_nret l_txn_read_failure(lua_State *L) {
  const el_txn_answer *answer = el_guarded_wait(check_txn(L), 0);
  if (answer != NULL && answer->err.is_too_large) {
    lua_pushstring(L, "too large");
  } else if (answer != NULL && answer->err.is_compacted) {
    lua_pushstring(L, "compacted");
  } else if (answer != NULL && answer->err.code == EL_DENIED &&
             answer->err.is_from_etcd) {
    lua_pushstring(L, "no permission");
  } else {
    lua_pushnil(L);
  }
  return 1;
}

static el_nret l_txn_gc(lua_State *L) {
  el_guarded *guarded = el_lua_take_box(L, 1, EL_LUA_TXN);
  if (guarded != NULL) {
    el_guarded_drop(guarded);
  }
  return 0;
}

void el_lua_open_txn(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"get", l_txn_get},
      {"list", l_txn_list},
      {"keys", l_txn_keys},
      {"oldest_keys", l_txn_oldest_keys},
      {"put", l_txn_put},
      {"delete", l_txn_delete},
      {"guard", l_txn_guard},
      {"guard_lock", l_txn_guard_lock},
      {"start", l_txn_start},
      {"downgrade", l_txn_downgrade},
      {"proclaim", l_txn_proclaim},
      {"wait", l_txn_wait},
      {"read_failure", l_txn_read_failure},
      {NULL, NULL},
  };
  static const luaL_Reg client_methods[] = {{"txn", l_client_txn},
                                            {NULL, NULL}};
  el_lua_new_type(L, EL_LUA_TXN, methods, l_txn_gc);
  el_lua_add_client_methods(L, client_methods);
}
