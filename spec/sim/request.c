/* sim request: applies the requests of peers to the store, by the transactions of the real
 * client. */
#include "request.h"

#include <assert.h>
#include <string.h>

#include "key_id.h"
#include "txn.h"

/* etcd renews no lease that has expired, even if it has not removed it yet (lessor.go, Renew). */
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

/* Lists the entries on the lease of |what| as of |rev|. In etcd, a member that believes itself the
 * leader answers an audit. Keys on the lease that are no entries are user data. */
static void audit(store *st, const call *what, int64_t rev, reply *out) {
  view at = store_view(st, rev);
  for (int i = 0; i < at.n; i++) {
    const key *it = &at.keys[i];
    if (key_is_entry(it) && it->lease == what->lease) {
      assert(out->n_key_ids < AUDIT_MAX);
      out->key_ids[out->n_key_ids++] = it->key_id;
    }
  }
}

static void init_keys(el_keys *keys, const call *what) {
  char name[TXN_TEXT_MAX];
  el_queue_key queue_key = {.lease = what->lease,
                            .slot = key_id_slot(what->key_id),
                            .mode = key_id_mode(what->key_id),
                            .permits = key_id_permits(what->key_id)};
  el_keys_init(keys, (el_bytes){name, txn_name(name, what->key_id)},
               &queue_key);
}

/* A transaction, and the memory to which it points. */
typedef struct sheet {
  el_keys keys;
  el_lock_txn built;
  el_op ops[NAMES_MAX];
  char texts[NAMES_MAX][EL_KEY_SIZE];
} sheet;

static el_guard writer_of(const call *what, const sheet *on) {
  return (el_guard){.keys = &on->keys, .rev = what->rev};
}

static int put_data(const call *what, sheet *on) {
  int key_ids[NAMES_MAX], n = key_id_all(what->key_id, key_ids);
  for (int i = 0; i < n; i++) {
    char *text = on->texts[i];
    on->ops[i] = (el_op){
        .kind = EL_OP_PUT,
        .key = {text, txn_datum(text, key_id_datum(key_ids[i], what->caller))},
        .value = {(const char *)&what->write.number,
                  sizeof what->write.number}};
  }
  return n;
}

static void build_write(const call *what, sheet *on) {
  el_guard caller = writer_of(what, on);
  int n = 1;
  switch (what->write.what) {
    case WRITE_DATA:
      n = put_data(what, on);
      break;
    case WRITE_OWN:
      on->ops[0] = el_lock_txn_proclaim_op(&caller, (el_bytes){"", 0});
      break;
    case WRITE_DOWNGRADE:
      on->ops[0] = el_lock_txn_downgrade_op(&caller, on->texts[0]);
      break;
  }
  el_lock_txn_build_guarded(&on->built, &caller, &what->order, on->ops,
                            (size_t)n);
}

/* Builds the transaction of |what| in |on|, which must not be moved afterwards. */
static void build(const call *what, sheet *on) {
  el_guard caller = writer_of(what, on);
  init_keys(&on->keys, what);
  switch (what->kind) {
    case CALL_CONTENTION:
      el_lock_txn_build_contention(&on->built, &on->keys);
      return;
    case CALL_WRITE:
      build_write(what, on);
      return;
    case CALL_TOUCH:
      el_lock_txn_build_touch(&on->built, &caller);
      return;
    default:
      el_lock_txn_build(&on->built, &on->keys, &what->ask, what->rev,
                        (el_bytes){"", 0});
  }
}

bool request_is_local(const call *what) {
  sheet on;
  bool is_local;
  if (what->kind == CALL_AUDIT) return true;
  if (what->kind != CALL_ENTRY) return false;
  build(what, &on);
  is_local = on.built.txn.n_compares == 0;
  for (size_t i = 0; i < on.built.txn.n_then; i++) {
    is_local = is_local && on.built.txn.then[i].serializable;
  }
  el_keys_destroy(&on.keys);
  return is_local;
}

/* Tells whether the queue of |name| had an entry older than |rev| at the revision |at_rev|.
 * |of_permits|: looks at permits only; otherwise at all other entries. */
static bool has_older(store *st, int64_t at_rev, int name, bool of_permits,
                      int64_t rev) {
  view at = store_view(st, at_rev);
  for (int i = 0; i < at.n; i++) {
    const key *it = &at.keys[i];
    if (key_is_entry(it) && key_id_name(it->key_id) == name &&
        (key_id_permits(it->key_id) != 0) == of_permits &&
        it->create_rev < rev) {
      return true;
    }
  }
  return false;
}

/* Checks the key that the answer names as the holder: no key of its queue may be older. In the
 * model the value of a key is the key itself. */
static void check_holder(store *st, const call *what, const sheet *on,
                         const el_txn_answer *answer, reply *out) {
  el_bytes value = el_lock_txn_holder_value(&on->keys, &what->ask, answer);
  int key_ids[NAMES_MAX];
  const el_kv *holder;
  if (value.len == 0) return;
  key_id_all(what->key_id, key_ids);
  holder = answer->results[answer->n_results - 1].kvs;
  out->names_holder = true;
  out->is_holder_wrong =
      !el_bytes_are_equal(value, holder->key) ||
      has_older(st, answer->rev, key_id_name(key_ids[what->ask.key.name_index]),
                key_id_permits(what->key_id) != 0, holder->create_rev);
}

/* Reads the |result| of the transaction of |what|. */
static void conclude(store *st, const call *what, const sheet *on,
                     txn_result *result, reply *out) {
  el_guard caller = writer_of(what, on);
  result->answer.sent_ms = what->sent_ms;
  if (what->kind == CALL_CONTENTION) {
    out->contention = el_lock_txn_read_contention(
        &on->keys, what->rev, &result->answer, &out->event.is_detached);
    return;
  }
  if (what->kind == CALL_WRITE || what->kind == CALL_TOUCH) {
    el_lock_txn_read_guarded(&caller, &result->answer, &out->written);
    out->event.outcome = out->written.outcome;
    return;
  }
  el_lock_txn_read(&on->keys, &what->ask, &result->answer, &out->event);
  check_holder(st, what, on, &result->answer, out);
  out->lease_gone = result->answer.err.is_lease_gone;
  if (out->lease_gone) { /* the entry driver does the same */
    out->event.outcome.is_retriable = true;
  }
}

/* Applies the transaction of |what| and fills |out|. protocol/lock_txn.c builds the transaction and
 * reads its answer. If |old_rev| is not NULL, the transaction only reads, as of the revision
 * |*old_rev|. */
static void run_txn(store *st, const call *what, const int64_t *old_rev,
                    reply *out) {
  static txn_result result; /* large */
  sheet on;
  build(what, &on);
  if (old_rev != NULL) {
    txn_read(st, &on.built.txn, *old_rev, &result);
  } else {
    txn_apply(st, &on.built.txn, &result);
  }
  conclude(st, what, &on, &result, out);
  el_keys_destroy(&on.keys);
}

/* etcd evaluates all compares of a batch before it applies any operation. If one operation cannot
 * be applied, etcd applies none. */
bool request_apply_batch(store *st, const call *const *calls, int n,
                         reply *out) {
  static txn_result results[REQUEST_BATCH_MAX]; /* large */
  sheet on[REQUEST_BATCH_MAX];
  bool succeeded[REQUEST_BATCH_MAX], sound = true;
  for (int i = 0; i < n; i++) {
    build(calls[i], &on[i]);
    succeeded[i] = txn_judge(st, &on[i].built.txn);
    sound = sound && txn_is_sound(st, &on[i].built.txn, succeeded[i]);
  }
  store_begin_batch(st);
  for (int i = 0; i < n && sound; i++) {
    txn_run(st, &on[i].built.txn, succeeded[i], &results[i]);
  }
  store_end_batch(st);
  for (int i = 0; i < n; i++) {
    memset(&out[i], 0, sizeof out[i]);
    results[i].answer.rev = st->rev;
    results[i].answer.is_batched = true;
    if (sound) conclude(st, calls[i], &on[i], &results[i], &out[i]);
    el_keys_destroy(&on[i].keys);
  }
  return sound;
}

void request_apply(store *st, const call *what, int64_t now_ms, int late_ms,
                   reply *out) {
  memset(out, 0, sizeof *out);
  switch (what->kind) {
    case CALL_ENTRY:
    case CALL_READ_KEY:
    case CALL_WRITE:
    case CALL_TOUCH:
      run_txn(st, what, NULL, out);
      return;
    case CALL_CONTENTION:
      run_txn(st, what, NULL, out);
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
  }
  out->event.outcome = (el_outcome){.is_done = true, .sent_ms = what->sent_ms};
  out->event.term = st->term;
  out->event.rev = st->rev;
}

void request_read_at(store *st, const call *what, int64_t rev, reply *out) {
  memset(out, 0, sizeof *out);
  if (what->kind != CALL_AUDIT) {
    run_txn(st, what, &rev, out);
    return;
  }
  audit(st, what, rev, out);
  out->event.outcome = (el_outcome){.is_done = true, .sent_ms = what->sent_ms};
  out->event.term = st->term;
  out->event.rev = rev;
}
