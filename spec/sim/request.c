/* sim request: what each of our requests does to the store and finds there. */
#include "request.h"

#include <assert.h>
#include <string.h>

#include "spot.h"
#include "txn.h"

/* etcd lets nobody renew a lease that has run out, even if it has not ended
 * it yet (lessor.go, Renew). */
static void keep_alive(store *st, const call *what, int64_t now_ms,
                       reply *out) {
  lease *ls = store_find_lease(st, what->lease);
  if (ls->alive && now_ms >= ls->expires_at) {
    store_revoke(st, what->lease);
  }
  if (ls->alive) {
    ls->expires_at = now_ms + ls->ttl_ms;
    out->ttl_ms = ls->ttl_ms;
  }
}

/* Any member that takes itself for the leader answers this. */
static void audit(store *st, const call *what, int64_t rev, reply *out) {
  view at = store_view(st, rev);
  for (int i = 0; i < at.n; i++) {
    const key *it = &at.keys[i];
    if (it->create_rev != 0 && it->lease == what->lease) {
      assert(out->n_spots < AUDIT_MAX);
      out->spots[out->n_spots++] = it->spot;
    }
  }
}

static void init_keys(el_keys *keys, const call *what) {
  char name[TXN_TEXT_MAX];
  el_place place = {.lease = what->lease,
                    .slot = spot_slot(what->spot),
                    .mode = spot_mode(what->spot),
                    .permits = spot_permits(what->spot)};
  el_keys_init(keys, (el_bytes){name, txn_name(name, what->spot)}, &place);
}

/* Builds the Txn that stands for |what|. */
static void build(const call *what, el_keys *keys, el_recipe *recipe) {
  init_keys(keys, what);
  if (what->kind == CALL_CENSUS) {
    el_recipe_build_census(recipe, keys);
  } else {
    el_recipe_build(recipe, keys, &what->ask, what->rev, (el_bytes){"", 0});
  }
}

bool request_is_local(const call *what) {
  el_keys keys;
  el_recipe recipe;
  bool is_local;
  if (what->kind == CALL_AUDIT) return true;
  if (what->kind != CALL_ENTRY) return false;
  build(what, &keys, &recipe);
  is_local = recipe.txn.n_compares == 0;
  for (size_t i = 0; i < recipe.txn.n_then; i++) {
    is_local = is_local && recipe.txn.then[i].serializable;
  }
  el_keys_destroy(&keys);
  return is_local;
}

/* Reads the |result| of the Txn that stands for |what|. */
static void conclude(const call *what, const el_keys *keys, txn_result *result,
                     reply *out) {
  result->answer.sent_ms = what->sent_ms;
  if (what->kind == CALL_CENSUS) {
    out->behind = el_recipe_read_census(what->rev, &result->answer);
    return;
  }
  el_recipe_read(keys, &what->ask, &result->answer, &out->event);
  out->lease_gone = result->answer.err.lease_gone;
  if (out->lease_gone) { /* as the entry driver takes it */
    out->event.outcome.retriable = true;
  }
}

/* A write is guarded as lock/guarded.c does it: by the create_revisions of all keys. What
 * it writes is of no interest. */
static void write_guarded(store *st, const call *what, reply *out) {
  el_compare guards[NAMES_MAX];
  el_txn txn = {.compares = guards};
  el_keys keys;
  init_keys(&keys, what);
  for (const el_keys *own = &keys; own != NULL; own = own->next) {
    guards[txn.n_compares++] = (el_compare){
        .test = EL_CREATE_REV_IS, .key = el_keys_own(own), .rev = what->rev};
  }
  out->written = txn_judge(st, &txn);
  el_keys_destroy(&keys);
}

/* Has it carried out: the real recipe on both ways. */
static void run_recipe(store *st, const call *what, const int64_t *old_rev,
                       reply *out) {
  static txn_result result; /* large */
  el_keys keys;
  el_recipe recipe;
  build(what, &keys, &recipe);
  if (old_rev != NULL) {
    txn_read(st, &recipe.txn, *old_rev, &result);
  } else {
    txn_apply(st, &recipe.txn, &result);
  }
  conclude(what, &keys, &result, out);
  el_keys_destroy(&keys);
}

/* etcd judges the conditions of all before it carries any out, and refuses all if
 * one can't be. */
bool request_apply_batch(store *st, const call *const *calls, int n,
                         reply *out) {
  static txn_result results[REQUEST_BATCH_MAX]; /* large */
  el_keys keys[REQUEST_BATCH_MAX];
  el_recipe recipes[REQUEST_BATCH_MAX];
  bool succeeded[REQUEST_BATCH_MAX], sound = true;
  for (int i = 0; i < n; i++) {
    build(calls[i], &keys[i], &recipes[i]);
    succeeded[i] = txn_judge(st, &recipes[i].txn);
    sound = sound && txn_is_sound(st, &recipes[i].txn, succeeded[i]);
  }
  store_begin_batch(st);
  for (int i = 0; i < n && sound; i++) {
    txn_run(st, &recipes[i].txn, succeeded[i], &results[i]);
  }
  store_end_batch(st);
  for (int i = 0; i < n; i++) {
    memset(&out[i], 0, sizeof out[i]);
    results[i].answer.rev = st->rev;
    results[i].answer.batched = true;
    if (sound) conclude(calls[i], &keys[i], &results[i], &out[i]);
    el_keys_destroy(&keys[i]);
  }
  return sound;
}

void request_apply(store *st, const call *what, int64_t now_ms, int late_ms,
                   reply *out) {
  memset(out, 0, sizeof *out);
  switch (what->kind) {
    case CALL_ENTRY:
    case CALL_PROBE:
      run_recipe(st, what, NULL, out);
      return;
    case CALL_CENSUS:
      run_recipe(st, what, NULL, out);
      break;
    case CALL_GRANT:
      store_grant(st, what->lease, what->ttl_ms, now_ms, late_ms);
      out->ttl_ms = what->ttl_ms;
      break;
    case CALL_REVOKE:
      store_revoke(st, what->lease);
      break;
    case CALL_KEEPALIVE:
      keep_alive(st, what, now_ms, out);
      break;
    case CALL_AUDIT:
      audit(st, what, st->rev, out);
      break;
    case CALL_WRITE:
      write_guarded(st, what, out);
      break;
    case CALL_DOWNGRADE: /* guarded by the create_revision */
      if (store_create_rev(st, what->spot, what->lease) == what->rev &&
          store_find_lease(st, what->lease)->alive) {
        store_put(st, spot_make(spot_name(what->spot), EL_NOTE_DOWNGRADED, 0),
                  what->rev, what->lease);
      }
      break;
  }
  out->event.outcome = (el_outcome){.done = true, .sent_ms = what->sent_ms};
  out->event.term = st->term;
  out->event.rev = st->rev;
}

void request_look_at(store *st, const call *what, int64_t rev, reply *out) {
  memset(out, 0, sizeof *out);
  if (what->kind != CALL_AUDIT) {
    run_recipe(st, what, &rev, out);
    return;
  }
  audit(st, what, rev, out);
  out->event.outcome = (el_outcome){.done = true, .sent_ms = what->sent_ms};
  out->event.term = st->term;
  out->event.rev = rev;
}
