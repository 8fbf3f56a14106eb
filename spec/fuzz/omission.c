/* Fuzz target omission: a model of etcd omits a field of an answer, as another version of etcd may. The
 * entry must not get the lock while another client holds it. If nothing is omitted and no other client
 * holds the lock, the entry must get it. */
#include "fuzz.h"

#include "base/timer.h"
#include "etcd.pb-c.h"
#include "etcd/kv.h"
#include "protocol/lock_txn.h"

#include "../support/servers/omission.h"

enum { STEPS_MAX = 30, MODES = EL_MODE_MULTI + 1, KEYS_MAX = 16 };

static const int64_t LEASE = 0x1234;

/* The fields of a TxnResponse that can be omitted, by their numbers in etcd.proto. */
static const int paths[][6] = {
    {1},          {1, 1},       {1, 2},       {1, 3},       {1, 4},
    {2},          {3},          {3, 1},       {3, 1, 1},    {3, 1, 2},
    {3, 1, 2, 1}, {3, 1, 2, 2}, {3, 1, 2, 3}, {3, 1, 2, 4}, {3, 1, 2, 5},
    {3, 1, 2, 6}, {3, 1, 3},    {3, 1, 4},    {3, 2},       {3, 3},
};
enum { PATHS = sizeof paths / sizeof *paths };

/* ---- a small etcd ---- */

typedef struct stored {
  char key[64];
  int64_t create_rev, lease;
} stored;

static stored store[KEYS_MAX];
static size_t n_stored;
static int64_t store_rev;

static void put(el_bytes key, int64_t lease) {
  stored *it = &store[n_stored++];
  FUZZ_CHECK(n_stored <= KEYS_MAX && key.len < sizeof it->key);
  *it = (stored){.create_rev = store_rev, .lease = lease};
  memcpy(it->key, key.data, key.len);
}

static void put_text(const char *key, int64_t lease) {
  store_rev++;
  put((el_bytes){key, strlen(key)}, lease);
}

static int order_of(const char *key, el_bytes bound) {
  size_t len = strlen(key), least = len < bound.len ? len : bound.len;
  int order = memcmp(key, bound.data, least);
  return order != 0 ? order : (len > bound.len) - (len < bound.len);
}

static bool is_in(const stored *it, el_bytes from, el_bytes to) {
  return to.len == 0
             ? order_of(it->key, from) == 0
             : order_of(it->key, from) >= 0 && order_of(it->key, to) < 0;
}

static bool is_true(const el_compare *compare) {
  bool is_empty = true;
  for (size_t i = 0; i < n_stored; i++) {
    if (!is_in(&store[i], compare->key, compare->range_end)) continue;
    is_empty = false;
    if (compare->test == EL_CREATE_REV_IS
            ? store[i].create_rev != compare->rev
            : store[i].create_rev >= compare->rev) {
      return false;
    }
  }
  return !is_empty || compare->test != EL_CREATE_REV_IS || compare->rev == 0;
}

static void erase(const el_op *op) {
  for (size_t i = 0; i < n_stored;) {
    if (is_in(&store[i], op->key, op->range_end)) {
      store[i] = store[--n_stored];
    } else {
      i++;
    }
  }
}

/* The messages of one answer. */
static struct {
  Etcd__ResponseOp ops[2 * EL_MULTI_MAX], *op_list[2 * EL_MULTI_MAX];
  Etcd__RangeResponse ranges[2 * EL_MULTI_MAX];
  Etcd__KeyValue kvs[2 * EL_MULTI_MAX][KEYS_MAX],
      *kv_lists[2 * EL_MULTI_MAX][KEYS_MAX];
  Etcd__PutResponse put;
  Etcd__DeleteRangeResponse erased;
} said;

static int compare_age(const void *a, const void *b) {
  int64_t first = ((const stored *)a)->create_rev,
          second = ((const stored *)b)->create_rev;
  return (first < second) - (first > second);
}

/* Every list is sorted by create_revision, the youngest first. So the read of the holder, which is for
 * messages only, finds the wrong key. */
static void answer_range(const el_op *op, size_t at) {
  Etcd__RangeResponse *to = &said.ranges[at];
  etcd__range_response__init(to);
  qsort(store, n_stored, sizeof *store, compare_age);
  to->kvs = said.kv_lists[at];
  for (size_t i = 0; i < n_stored; i++) {
    Etcd__KeyValue *kv = &said.kvs[at][to->n_kvs];
    if (!is_in(&store[i], op->key, op->range_end)) continue;
    to->count++;
    if (op->max_create_rev != 0 && store[i].create_rev > op->max_create_rev) {
      continue;
    }
    if (op->limit != 0 && to->n_kvs == (size_t)op->limit) {
      to->more = true;
      continue;
    }
    etcd__key_value__init(kv);
    kv->key.data = (uint8_t *)store[i].key;
    kv->key.len = strlen(store[i].key);
    kv->create_revision = kv->mod_revision = store[i].create_rev;
    kv->version = 1;
    kv->lease = store[i].lease;
    to->kvs[to->n_kvs++] = kv;
  }
}

static void answer_op(const el_op *op, size_t at) {
  Etcd__ResponseOp *to = said.op_list[at] = &said.ops[at];
  etcd__response_op__init(to);
  switch (op->kind) {
    case EL_OP_RANGE:
      answer_range(op, at);
      to->response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
      to->response_range = &said.ranges[at];
      return;
    case EL_OP_PUT:
      put(op->key, op->lease);
      etcd__put_response__init(&said.put);
      to->response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
      to->response_put = &said.put;
      return;
    default:
      erase(op);
      etcd__delete_range_response__init(&said.erased);
      said.erased.deleted = 1;
      to->response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;
      to->response_delete_range = &said.erased;
  }
}

/* Applies |txn|, and returns the encoded answer, which the caller frees. */
static el_bytes apply(const el_txn *txn) {
  Etcd__ResponseHeader header = ETCD__RESPONSE_HEADER__INIT;
  Etcd__TxnResponse answer = ETCD__TXN_RESPONSE__INIT;
  const el_op *ops;
  uint8_t *bytes;
  answer.succeeded = true;
  for (size_t i = 0; i < txn->n_compares; i++) {
    answer.succeeded = answer.succeeded && is_true(&txn->compares[i]);
  }
  ops = answer.succeeded ? txn->then : txn->otherwise;
  answer.n_responses = answer.succeeded ? txn->n_then : txn->n_otherwise;
  answer.responses = said.op_list;
  store_rev++;
  for (size_t i = 0; i < answer.n_responses; i++) {
    answer_op(&ops[i], i);
  }
  header.cluster_id = 9;
  header.member_id = 8;
  header.revision = store_rev;
  header.raft_term = 2;
  answer.header = &header;
  bytes = malloc(etcd__txn_response__get_packed_size(&answer) + 1);
  return (el_bytes){(char *)bytes, etcd__txn_response__pack(&answer, bytes)};
}

/* ---- the entry ---- */

static el_auth *auth;
static fuzz_input *input;
static el_keys keys;
static el_entry entry;
static el_entry_event next; /* the next event of the entry */
static bool has_next, has_holder, is_granted, has_omitted;
static el_entry_action sent; /* the request in flight */

static void on_answer(void *arg, el_txn_answer *answer) {
  (void)arg;
  el_lock_txn_read(&keys, &sent, answer, &next);
  next.proven_rev = answer->rev;
  has_next = true;
  el_txn_answer_free(answer);
}

/* Removes a field, which the input chooses, from half of the answers: from all results, or from one.
 * (A reader's own key is in none of its lists. So from one of its lists alone, nothing is removed.) */
static el_bytes without_a_field(el_bytes whole) {
  unsigned choice = fuzz_number(input, 2 * PATHS);
  int which = (int)fuzz_number(input, 6);
  el_bytes left = {malloc(whole.len + 1), 0};
  if (entry.mode == EL_MODE_READ) which = 0;
  has_omitted = has_omitted || choice < PATHS;
  if (choice < PATHS) {
    left.len = omission_copy_without((uint8_t *)(uintptr_t)left.data,
                                     (const uint8_t *)whole.data, whole.len,
                                     paths[choice], which);
  } else {
    memcpy((void *)(uintptr_t)left.data, whole.data, left.len = whole.len);
  }
  el_bytes_free(whole);
  return left;
}

static void send_request(const el_entry_action *action) {
  static el_lock_txn built;
  bool is_multi = keys.next != NULL;
  el_packed_txn packed;
  el_bytes bytes;
  sent = *action;
  el_lock_txn_build(&built, &keys, action, entry.rev,
                    (el_bytes){is_multi ? "x\0y" : "x", is_multi ? 3 : 1});
  bytes = without_a_field(apply(&built.txn));
  el_kv_pack(&packed, &built.txn);
  el_kv_send(auth, &packed, 1000, on_answer, NULL);
  fuzz_answer(bytes);
  el_packed_txn_free(&packed);
  el_bytes_free(bytes);
}

static void carry_out(const el_entry_actions *actions) {
  has_next = false;
  for (int i = 0; i < actions->n; i++) {
    const el_entry_action *action = &actions->list[i];
    if (action->kind == EL_ENTRY_SEND_REQUEST) {
      send_request(action);
    } else if (action->kind == EL_ENTRY_REPORT_GRANTED) {
      FUZZ_CHECK(!has_holder);
      is_granted = true;
    } else if (action->kind == EL_ENTRY_REPORT_PROOF && !has_next) {
      next = (el_entry_event){.kind = EL_ENTRY_ON_LEASE_PROVEN};
      has_next = true;
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char names[] = "a\0a/b\0c";
  static const char *const holders[] = {"a/77", "a/write/77", "a/permit/77.1",
                                        "c/77-1"};
  fuzz_input in = {data, size};
  el_timers timers = {0};
  el_entry_actions actions;
  el_session session;
  el_queue_key queue_key = {.lease = LEASE,
                            .mode = (el_mode)fuzz_number(&in, MODES)};
  bool is_multi = queue_key.mode == EL_MODE_MULTI;
  el_entry_event event = {.kind = fuzz_number(&in, 2) ? EL_ENTRY_ON_ACQUIRE
                                                      : EL_ENTRY_ON_TRY};
  input = &in;
  auth = el_auth_new(&fuzz_channel, &timers, NULL, NULL, NULL);
  has_holder = fuzz_number(&in, 4) != 0;
  n_stored = 0;
  store_rev = 1;
  if (fuzz_number(&in, 2)) put_text("a/data", 0);
  if (has_holder) {
    put_text(queue_key.mode == EL_MODE_PERMIT ? holders[2]
             : is_multi                       ? holders[3]
                                              : holders[fuzz_number(&in, 2)],
             0x77);
  }
  if (fuzz_number(&in, 2)) put_text("a/cafe", 0);
  if (is_multi) queue_key.slot = 1;
  if (queue_key.mode == EL_MODE_PERMIT) queue_key.permits = 1;
  el_keys_init(&keys, (el_bytes){names, is_multi ? sizeof names - 1 : 1},
               &queue_key);
  el_session_init(&session, 5000, 0, 0, 1);
  session.id = LEASE;
  session.ttl_ms = 5000;
  el_entry_init(&entry, queue_key.mode, &session);
  is_granted = has_omitted = has_next = false;
  for (int i = 0; i < STEPS_MAX; i++) {
    el_entry_step(&entry, &event, 1 + 20000 * i, &actions);
    carry_out(&actions);
    event = has_next ? next : (el_entry_event){.kind = EL_ENTRY_ON_TIMER};
  }
  FUZZ_CHECK(is_granted || has_holder || has_omitted);
  el_keys_destroy(&keys);
  el_auth_free(auth);
  fuzz_reset();
  return 0;
}
