/* Fuzz target txn: answers to one transaction, or to a batch of several, as lock_txn.c reads
 * them. */
#include "fuzz.h"

#include "base/timer.h"
#include "etcd/batch.h"
#include "protocol/lock_txn.h"

enum { MEMBERS_MAX = 4, MODES = EL_MODE_MULTI + 1 };

enum { QUERY_CONTENTION = EL_REQUEST_DELETE + 1, SEND_GUARDED, REQUESTS };

static const int64_t LEASE = 0x1234, REV = 7;

typedef struct member {
  unsigned request; /* an el_request_kind, or one of the above */
  el_entry_request what;
  el_keys keys;
  int64_t rev;    /* as for el_lock_txn_build */
  el_bytes value; /* as for el_lock_txn_build */
  el_packed_txn packed;
} member;

static member members[MEMBERS_MAX];
static size_t n_members;
static el_packed_txn sent;

static void build(member *it, fuzz_input *in) {
  static const char names[] = "a\0a/b\0c";
  static el_lock_txn built;
  el_queue_key queue_key = {.lease = LEASE,
                            .mode = (el_mode)fuzz_number(in, MODES)};
  bool is_multi = queue_key.mode == EL_MODE_MULTI;
  unsigned flags = fuzz_number(in, 256);
  el_op ops[] = {{.kind = EL_OP_RANGE, .key = {"data", 4}},
                 {.kind = EL_OP_PUT, .key = {"data", 4}, .value = {"v", 1}}};
  if (is_multi) queue_key.slot = 1;
  if (queue_key.mode == EL_MODE_PERMIT) queue_key.permits = 2;
  el_keys_init(&it->keys, (el_bytes){names, is_multi ? sizeof names - 1 : 1},
               &queue_key);
  it->request = EL_REQUEST_TRY + fuzz_number(in, REQUESTS - EL_REQUEST_TRY);
  it->what = (el_entry_request){.kind = (el_request_kind)it->request,
                                .is_serializable = flags & 1,
                                .reads_holder = flags & 16,
                                .guard_rev = REV};
  if (flags & 2) {
    it->what.walk =
        (el_walk){.below = REV, .limit = 1, .n_ahead = 1, .rev = REV};
  }
  if (it->request == QUERY_CONTENTION) {
    el_lock_txn_build_contention(&built, &it->keys);
  } else if (it->request == SEND_GUARDED) {
    el_guard guard = {&it->keys, REV};
    el_write_order order;
    bool writes = flags & 1 && queue_key.mode != EL_MODE_READ;
    el_write_order_init(&order, REV);
    el_lock_txn_build_guarded(&built, &guard, writes ? &order : NULL, ops,
                              writes ? 2 : 1);
  } else {
    it->rev = flags & 8 ? REV : 0;
    it->value = (el_bytes){is_multi ? "x\0y" : "x", is_multi ? 3 : 1};
    el_lock_txn_build(&built, &it->keys, &it->what, it->rev, it->value);
  }
  el_kv_pack(&it->packed, &built.txn);
}

/* Reads |answer|, the answer to |it|. */
static void read_answer(const member *it, el_txn_answer *answer) {
  el_entry_answer seen;
  el_bytes label;
  uint16_t permits;
  bool detached;
  if (answer->err.code != EL_OK) {
    fuzz_check_error(&answer->err);
    FUZZ_CHECK(!answer->err.is_definite);
  }
  if (it->request == QUERY_CONTENTION) {
    el_lock_txn_read_contention(&it->keys, REV, answer, &detached);
  } else if (it->request == SEND_GUARDED) {
    el_lock_txn_read_guarded(&(el_guard){&it->keys, REV}, answer);
  } else {
    el_lock_txn_read(&it->keys, &it->what, it->rev, it->value, answer, &seen);
    el_lock_txn_holder_value(&it->keys, &it->what, answer);
    el_lock_txn_other_permits(&it->keys, &it->what, answer, &permits, &label);
  }
  el_txn_answer_free(answer);
}

static void on_answer(void *arg, el_txn_answer *answer) {
  size_t at = 0;
  (void)arg;
  if (n_members == 1) {
    read_answer(&members[0], answer);
    return;
  }
  for (size_t i = 0; i < n_members && answer->err.code == EL_OK; i++) {
    read_answer(&members[i], el_batch_take(answer, &members[i].packed, &at));
  }
  el_txn_answer_free(answer);
}

/* Packs the members up to the first one that does not fit into the batch. A member does not fit if
 * the batch would be too large, or if only one of the first member and this one is a read. The
 * other members are dropped. If not even the first member fits, it is sent alone. */
static void pack(void) {
  const el_packed_txn *packed[MEMBERS_MAX];
  size_t n = 0, cost = 0;
  for (; n < n_members; n++) {
    packed[n] = &members[n].packed;
    cost += el_batch_cost(packed[n]);
    if (cost > EL_BATCH_OPS_MAX || packed[n]->is_read != packed[0]->is_read) {
      break;
    }
  }
  for (size_t i = n > 0 ? n : 1; i < n_members; i++) {
    el_packed_txn_free(&members[i].packed);
    el_keys_destroy(&members[i].keys);
  }
  n_members = n > 0 ? n : 1;
  if (n_members > 1) el_batch_pack(&sent, packed, n_members);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  el_timers timers = {0};
  el_auth *auth =
      el_auth_new(&fuzz_channel, &timers, NULL, NULL, NULL, NULL, NULL);
  el_bytes answer;
  n_members = 1 + fuzz_number(&in, MEMBERS_MAX);
  for (size_t i = 0; i < n_members; i++) {
    build(&members[i], &in);
  }
  pack();
  answer = fuzz_part(&in);
  el_kv_send(auth, n_members > 1 ? &sent : &members[0].packed, 1000, on_answer,
             NULL);
  fuzz_answer(answer);
  el_bytes_free(answer);
  if (n_members > 1) el_packed_txn_free(&sent);
  for (size_t i = 0; i < n_members; i++) {
    el_packed_txn_free(&members[i].packed);
    el_keys_destroy(&members[i].keys);
  }
  el_auth_free(auth);
  fuzz_reset();
  return 0;
}
