/* simulation etcd_txn: the transactions of the simulated etcd. It follows etcd's v3rpc/key.go (what
 * is refused at once) and txn/txn.go (how a transaction is evaluated). */
#include "etcd_int.h"

#include <stdlib.h>
#include <string.h>

enum { OPS_MAX = 128 };

/* Go's sort keeps the order of equal elements up to this number, and does not beyond. */
enum { SORTED_STABLY_MAX = 12 };

static const failure empty_key = {STATUS_INVALID_ARGUMENT,
                                  "etcdserver: key is not provided"};
static const failure key_not_found = {STATUS_INVALID_ARGUMENT,
                                      "etcdserver: key not found"};
static const failure value_provided = {STATUS_INVALID_ARGUMENT,
                                       "etcdserver: value is provided"};
static const failure lease_provided = {STATUS_INVALID_ARGUMENT,
                                       "etcdserver: lease is provided"};
static const failure too_many_ops = {
    STATUS_INVALID_ARGUMENT, "etcdserver: too many operations in txn request"};
static const failure duplicate_key = {
    STATUS_INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request"};
static const failure invalid_sort = {STATUS_INVALID_ARGUMENT,
                                     "etcdserver: invalid sort option"};
static const failure compacted = {
    STATUS_OUT_OF_RANGE,
    "etcdserver: mvcc: required revision has been compacted"};
static const failure future_rev = {
    STATUS_OUT_OF_RANGE,
    "etcdserver: mvcc: required revision is a future revision"};

/* ---- memory of one answer ---- */

struct arena_block {
  struct arena_block *next;
  max_align_t bytes[];
};

void *arena_take(arena *from, size_t size) {
  struct arena_block *block = el_alloc(sizeof *block + size);
  block->next = from->blocks;
  from->blocks = block;
  return block->bytes;
}

void arena_free(arena *all) {
  struct arena_block *next;
  for (struct arena_block *it = all->blocks; it != NULL; it = next) {
    next = it->next;
    free(it);
  }
}

/* ---- reading a transaction ---- */

/* The operations of one branch. |nested| has the transaction of each operation that is one. */
typedef struct branch {
  Etcd__RequestOp **ops;
  txn **nested;
  size_t n;
} branch;

struct txn {
  Etcd__TxnRequest *request;
  branch success, failure;
  bool succeeded; /* set by judge */
};

static txn *read_txn(const uint8_t *bytes, size_t len, int levels);

static void check_op_known(const Etcd__RequestOp *op) {
  check_known(&op->base);
  if (op->request_case == ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE) {
    check_known(&op->request_range->base);
  } else if (op->request_case == ETCD__REQUEST_OP__REQUEST_REQUEST_PUT) {
    check_known(&op->request_put->base);
  } else if (op->request_case ==
             ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE) {
    check_known(&op->request_delete_range->base);
  }
}

static bool read_branch(branch *to, Etcd__RequestOp **ops, size_t n,
                        int levels) {
  *to = (branch){ops, el_alloc((n + 1) * sizeof *to->nested), n};
  for (size_t i = 0; i < n; i++) {
    check_op_known(ops[i]);
    if (ops[i]->request_case != ETCD__REQUEST_OP__REQUEST_REQUEST_TXN) continue;
    to->nested[i] =
        read_txn(ops[i]->request_txn.data, ops[i]->request_txn.len, levels - 1);
    if (to->nested[i] == NULL) return false;
  }
  return true;
}

static txn *read_txn(const uint8_t *bytes, size_t len, int levels) {
  Etcd__TxnRequest *request =
      levels > 0 ? etcd__txn_request__unpack(NULL, len, bytes) : NULL;
  txn *it;
  if (request == NULL) return NULL;
  check_known(&request->base);
  for (size_t i = 0; i < request->n_compare; i++) {
    check_known(&request->compare[i]->base);
  }
  it = el_alloc(sizeof *it);
  it->request = request;
  if (!read_branch(&it->success, request->success, request->n_success,
                   levels) ||
      !read_branch(&it->failure, request->failure, request->n_failure,
                   levels)) {
    txn_free(it);
    return NULL;
  }
  return it;
}

/* Each level has an operation, and etcd refuses more than OPS_MAX: deeper ones need not be read. */
txn *txn_read(const uint8_t *bytes, size_t len) {
  return read_txn(bytes, len, OPS_MAX + 2);
}

static void free_branch(branch *it) {
  for (size_t i = 0; it->nested != NULL && i < it->n; i++) {
    if (it->nested[i] != NULL) txn_free(it->nested[i]);
  }
  free(it->nested);
}

void txn_free(txn *it) {
  free_branch(&it->success);
  free_branch(&it->failure);
  etcd__txn_request__free_unpacked(it->request, NULL);
  free(it);
}

/* ---- what etcd refuses at once ---- */

static const failure *check_range(const Etcd__RangeRequest *range) {
  if (range->key.len == 0) return &empty_key;
  if ((unsigned)range->sort_order > ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND ||
      (unsigned)range->sort_target > ETCD__RANGE_REQUEST__SORT_TARGET__VALUE) {
    return &invalid_sort;
  }
  return NULL;
}

static const failure *check_put(const Etcd__PutRequest *put) {
  if (put->key.len == 0) return &empty_key;
  if (put->ignore_value && put->value.len > 0) return &value_provided;
  if (put->ignore_lease && put->lease != 0) return &lease_provided;
  return NULL;
}

static const failure *check(const txn *it, size_t most);

static const failure *check_branch(const branch *of, size_t most) {
  for (size_t i = 0; i < of->n; i++) {
    const Etcd__RequestOp *op = of->ops[i];
    const failure *why = NULL;
    switch (op->request_case) {
      case ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE:
        why = check_range(op->request_range);
        break;
      case ETCD__REQUEST_OP__REQUEST_REQUEST_PUT:
        why = check_put(op->request_put);
        break;
      case ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE:
        if (op->request_delete_range->key.len == 0) why = &empty_key;
        break;
      case ETCD__REQUEST_OP__REQUEST_REQUEST_TXN:
        why = check(of->nested[i], most);
        break;
      default:
        why = &key_not_found;
    }
    if (why != NULL) return why;
  }
  return NULL;
}

static const failure *check(const txn *it, size_t most) {
  const Etcd__TxnRequest *request = it->request;
  size_t n = request->n_compare;
  const failure *why;
  if (n < request->n_success) n = request->n_success;
  if (n < request->n_failure) n = request->n_failure;
  if (n > most) return &too_many_ops;
  for (size_t i = 0; i < request->n_compare; i++) {
    if (request->compare[i]->key.len == 0) return &empty_key;
  }
  why = check_branch(&it->success, most - n);
  return why != NULL ? why : check_branch(&it->failure, most - n);
}

/* The puts and the deletes of a branch. */
typedef struct writes {
  struct {
    bool is_delete;
    el_bytes key, range_end;
  } * all;
  size_t n, room;
} writes;

/* Returns whether |by| puts, or deletes, |key|. */
static bool has(const writes *by, bool is_delete, el_bytes key) {
  for (size_t i = 0; i < by->n; i++) {
    if (by->all[i].is_delete == is_delete &&
        is_in_range(key, by->all[i].key, by->all[i].range_end)) {
      return true;
    }
  }
  return false;
}

static void add(writes *to, bool is_delete, el_bytes key, el_bytes range_end) {
  to->all = etcd_grow(to->all, to->n, &to->room, sizeof *to->all);
  to->all[to->n].is_delete = is_delete;
  to->all[to->n].key = key;
  to->all[to->n++].range_end = range_end;
}

/* Adds the puts of |from|. Returns false if |to| deletes one of their keys, or puts one that
 * |rival| does not put. |rival|: the branch that does not run if |from| runs. */
static bool join_puts(writes *to, const writes *from, const writes *rival) {
  for (size_t i = 0; i < from->n; i++) {
    el_bytes key = from->all[i].key;
    bool is_put = has(to, false, key);
    if (from->all[i].is_delete) continue;
    if (has(to, true, key) || (is_put && !has(rival, false, key))) return false;
    if (!is_put) add(to, false, key, (el_bytes){0});
  }
  return true;
}

static void join_deletes(writes *to, const writes *from) {
  for (size_t i = 0; i < from->n; i++) {
    if (from->all[i].is_delete) {
      add(to, true, from->all[i].key, from->all[i].range_end);
    }
  }
}

static bool collect(const branch *of, writes *to);

static bool collect_nested(const txn *it, writes *to) {
  writes none = {0}, success = {0}, otherwise = {0};
  bool is_sound =
      collect(&it->success, &success) && collect(&it->failure, &otherwise) &&
      join_puts(to, &success, &none) && join_puts(to, &otherwise, &success);
  join_deletes(to, &success);
  join_deletes(to, &otherwise);
  free(success.all);
  free(otherwise.all);
  return is_sound;
}

/* Collects the writes of a branch. Returns false if a put and another write have the same key. As
 * in etcd, the deletes come first, then the nested transactions, then the puts. */
static bool collect(const branch *of, writes *to) {
  for (size_t i = 0; i < of->n; i++) {
    const Etcd__DeleteRangeRequest *it = of->ops[i]->request_delete_range;
    if (of->ops[i]->request_case ==
        ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE) {
      add(to, true, bytes_of(it->key), bytes_of(it->range_end));
    }
  }
  for (size_t i = 0; i < of->n; i++) {
    if (of->nested[i] != NULL && !collect_nested(of->nested[i], to)) {
      return false;
    }
  }
  for (size_t i = 0; i < of->n; i++) {
    el_bytes key;
    if (of->ops[i]->request_case != ETCD__REQUEST_OP__REQUEST_REQUEST_PUT) {
      continue;
    }
    key = bytes_of(of->ops[i]->request_put->key);
    if (has(to, false, key) || has(to, true, key)) return false;
    add(to, false, key, (el_bytes){0});
  }
  return true;
}

static bool is_without_overlap(const branch *of) {
  writes all = {0};
  bool is_sound = collect(of, &all);
  free(all.all);
  return is_sound;
}

const failure *txn_check(const txn *it) {
  const failure *why = check(it, OPS_MAX);
  if (why != NULL) return why;
  return is_without_overlap(&it->success) && is_without_overlap(&it->failure)
             ? NULL
             : &duplicate_key;
}

/* ---- what a transaction does ---- */

static bool all_read(const branch *of, bool is_serializable) {
  for (size_t i = 0; i < of->n; i++) {
    const Etcd__RequestOp *op = of->ops[i];
    if (op->request_case != ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE ||
        (is_serializable && !op->request_range->serializable)) {
      return false;
    }
  }
  return true;
}

/* As in etcd, both branches count, and a nested transaction counts as a write. */
bool txn_is_read(const txn *it) {
  return all_read(&it->success, false) && all_read(&it->failure, false);
}

bool txn_is_serializable(const txn *it) {
  return all_read(&it->success, true) && all_read(&it->failure, true);
}

static bool branch_puts(const branch *of) {
  for (size_t i = 0; i < of->n; i++) {
    if (of->ops[i]->request_case == ETCD__REQUEST_OP__REQUEST_REQUEST_PUT ||
        (of->nested[i] != NULL && txn_puts(of->nested[i]))) {
      return true;
    }
  }
  return false;
}

bool txn_puts(const txn *it) {
  return branch_puts(&it->success) || branch_puts(&it->failure);
}

/* ---- compares ---- */

/* A transaction that is being evaluated. */
typedef struct evaluation {
  etcd *cluster;
  int64_t rev; /* reads see this revision; INT64_MAX: the present one */
  const omissions *omits;
  arena *memory;
} evaluation;

static view present(const evaluation *ev) {
  return store_view(&ev->cluster->store, ev->rev);
}

static int compare_numbers(int64_t a, int64_t b) { return (a > b) - (a < b); }

/* A value that is not given, or that is not of the target, counts as 0 or empty. */
static int compare_key(const Etcd__Compare *with, const etcd_key *key) {
  Etcd__Compare__TargetUnionCase is = with->target_union_case;
  switch (with->target) {
    case ETCD__COMPARE__COMPARE_TARGET__VERSION:
      return compare_numbers(
          key->version,
          is == ETCD__COMPARE__TARGET_UNION_VERSION ? with->version : 0);
    case ETCD__COMPARE__COMPARE_TARGET__CREATE:
      return compare_numbers(key->create_rev,
                             is == ETCD__COMPARE__TARGET_UNION_CREATE_REVISION
                                 ? with->create_revision
                                 : 0);
    case ETCD__COMPARE__COMPARE_TARGET__MOD:
      return compare_numbers(key->mod_rev,
                             is == ETCD__COMPARE__TARGET_UNION_MOD_REVISION
                                 ? with->mod_revision
                                 : 0);
    case ETCD__COMPARE__COMPARE_TARGET__LEASE:
      return compare_numbers(key->lease, is == ETCD__COMPARE__TARGET_UNION_LEASE
                                             ? with->lease
                                             : 0);
    case ETCD__COMPARE__COMPARE_TARGET__VALUE:
      return etcd_compare(key->value, is == ETCD__COMPARE__TARGET_UNION_VALUE
                                          ? bytes_of(with->value)
                                          : (el_bytes){0});
    default:
      return 0;
  }
}

static bool fits(const Etcd__Compare *with, const etcd_key *key) {
  int order = compare_key(with, key);
  switch (with->result) {
    case ETCD__COMPARE__COMPARE_RESULT__EQUAL:
      return order == 0;
    case ETCD__COMPARE__COMPARE_RESULT__GREATER:
      return order > 0;
    case ETCD__COMPARE__COMPARE_RESULT__LESS:
      return order < 0;
    case ETCD__COMPARE__COMPARE_RESULT__NOT_EQUAL:
      return order != 0;
    default:
      return true;
  }
}

/* A compare must hold for each key of its range. A range without keys compares as a key whose
 * numbers are 0; a compare of its value never holds. */
static bool holds(const view *now, const Etcd__Compare *it) {
  static const etcd_key none;
  view found = view_range(now, bytes_of(it->key), bytes_of(it->range_end));
  if (found.n == 0) {
    return it->target != ETCD__COMPARE__COMPARE_TARGET__VALUE &&
           fits(it, &none);
  }
  for (size_t i = 0; i < found.n; i++) {
    if (!fits(it, found.keys[i])) return false;
  }
  return true;
}

static const branch *taken(const txn *it) {
  return it->succeeded ? &it->success : &it->failure;
}

/* Evaluates the compares of |it| and of the transactions in the branch that is taken, before any
 * operation. */
static void judge(const view *now, txn *it) {
  const branch *of;
  it->succeeded = true;
  for (size_t i = 0; i < it->request->n_compare && it->succeeded; i++) {
    it->succeeded = holds(now, it->request->compare[i]);
  }
  of = taken(it);
  for (size_t i = 0; i < of->n; i++) {
    if (of->nested[i] != NULL) judge(now, of->nested[i]);
  }
}

/* ---- what etcd refuses when it applies ---- */

static const failure *verify_range(const evaluation *ev, const view *now,
                                   int64_t rev) {
  if (rev == 0) return NULL;
  if (rev > now->rev) return &future_rev;
  return rev < ev->cluster->store.compacted_rev ? &compacted : NULL;
}

static const failure *verify_put(const evaluation *ev, const view *now,
                                 const Etcd__PutRequest *put) {
  if (put->lease != 0 && lease_find(ev->cluster, put->lease) == NULL) {
    return &etcd_lease_not_found;
  }
  if ((put->ignore_value || put->ignore_lease) &&
      view_range(now, bytes_of(put->key), (el_bytes){0}).n == 0) {
    return &key_not_found;
  }
  return NULL;
}

static const failure *verify(const evaluation *ev, const view *now,
                             const txn *it) {
  const branch *of = taken(it);
  for (size_t i = 0; i < of->n; i++) {
    const Etcd__RequestOp *op = of->ops[i];
    const failure *why = NULL;
    if (op->request_case == ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE) {
      why = verify_range(ev, now, op->request_range->revision);
    } else if (op->request_case == ETCD__REQUEST_OP__REQUEST_REQUEST_PUT) {
      why = verify_put(ev, now, op->request_put);
    } else if (of->nested[i] != NULL) {
      why = verify(ev, now, of->nested[i]);
    }
    if (why != NULL) return why;
  }
  return NULL;
}

/* ---- ranges ---- */

static int compare_by(Etcd__RangeRequest__SortTarget target, const etcd_key *a,
                      const etcd_key *b) {
  switch (target) {
    case ETCD__RANGE_REQUEST__SORT_TARGET__VERSION:
      return compare_numbers(a->version, b->version);
    case ETCD__RANGE_REQUEST__SORT_TARGET__CREATE:
      return compare_numbers(a->create_rev, b->create_rev);
    case ETCD__RANGE_REQUEST__SORT_TARGET__MOD:
      return compare_numbers(a->mod_rev, b->mod_rev);
    case ETCD__RANGE_REQUEST__SORT_TARGET__VALUE:
      return etcd_compare(a->value, b->value);
    default:
      return etcd_compare(a->key, b->key);
  }
}

static void sort(const etcd_key **keys, size_t n,
                 const Etcd__RangeRequest *by) {
  bool descends = by->sort_order == ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
  for (size_t i = 1; i < n; i++) {
    const etcd_key *it = keys[i];
    size_t at = i;
    for (; at > 0; at--) {
      int order = compare_by(by->sort_target, it, keys[at - 1]);
      if (descends) order = -order;
      if (order == 0 && n > SORTED_STABLY_MAX && world_chance(500)) order = -1;
      if (order >= 0) break;
      keys[at] = keys[at - 1];
    }
    keys[at] = it;
  }
}

static Etcd__ResponseHeader *header_of(int64_t rev, arena *memory) {
  Etcd__ResponseHeader *header = arena_take(memory, sizeof *header);
  etcd__response_header__init(header);
  header->revision = rev;
  return header;
}

static void fill_kvs(const evaluation *ev, const etcd_key *const *keys,
                     const Etcd__RangeRequest *range, Etcd__RangeResponse *to) {
  bool omits_lease =
      ev->omits->leases || (ev->omits->leases_of_names && range->keys_only);
  Etcd__KeyValue *kvs = arena_take(ev->memory, to->n_kvs * sizeof *kvs);
  to->kvs = arena_take(ev->memory, to->n_kvs * sizeof *to->kvs);
  for (size_t i = 0; i < to->n_kvs; i++) {
    to->kvs[i] = &kvs[i];
    etcd__key_value__init(&kvs[i]);
    kvs[i].key = data_of(keys[i]->key);
    if (!range->keys_only) kvs[i].value = data_of(keys[i]->value);
    kvs[i].create_revision = keys[i]->create_rev;
    kvs[i].mod_revision = keys[i]->mod_rev;
    kvs[i].version = keys[i]->version;
    kvs[i].lease = omits_lease ? 0 : keys[i]->lease;
  }
}

/* Tells whether etcd reads only the first keys of the range, one more than the limit. */
static bool takes_first(const Etcd__RangeRequest *range) {
  return range->limit > 0 && range->max_create_revision == 0 &&
         range->sort_order == ETCD__RANGE_REQUEST__SORT_ORDER__NONE;
}

/* The answer counts the keys of the whole range, whatever the filter and the limit are. */
static Etcd__RangeResponse *run_range(const evaluation *ev,
                                      const Etcd__RangeRequest *range) {
  int64_t now_rev = present(ev).rev;
  int64_t rev = range->revision > 0 ? range->revision : now_rev;
  view all = store_view(&ev->cluster->store, rev);
  view found =
      view_range(&all, bytes_of(range->key), bytes_of(range->range_end));
  const etcd_key **keys = arena_take(ev->memory, found.n * sizeof *keys);
  Etcd__RangeResponse *to = arena_take(ev->memory, sizeof *to);
  etcd__range_response__init(to);
  to->header = header_of(now_rev, ev->memory);
  for (size_t i = 0; i < found.n; i++) {
    if (range->max_create_revision == 0 ||
        found.keys[i]->create_rev <= range->max_create_revision) {
      keys[to->n_kvs++] = found.keys[i];
    }
  }
  if (takes_first(range) && to->n_kvs > (size_t)range->limit + 1) {
    to->n_kvs = (size_t)range->limit + 1;
  }
  sort(keys, to->n_kvs, range);
  if (range->limit > 0 && to->n_kvs > (size_t)range->limit) {
    to->n_kvs = (size_t)range->limit;
    to->more = !ev->omits->more;
  }
  to->count = ev->omits->more ? 0 : (int64_t)found.n;
  fill_kvs(ev, keys, range, to);
  return to;
}

/* ---- running a transaction ---- */

static void run_put(const evaluation *ev, const Etcd__PutRequest *put) {
  view now = present(ev);
  view found = view_range(&now, bytes_of(put->key), (el_bytes){0});
  el_bytes value = bytes_of(put->value);
  int64_t lease = put->lease;
  if (put->ignore_value) value = found.keys[0]->value;
  if (put->ignore_lease) lease = found.keys[0]->lease;
  store_put(&ev->cluster->store, bytes_of(put->key), value, lease);
}

static Etcd__TxnResponse *run(const evaluation *ev, const txn *it);

static void run_op(const evaluation *ev, const Etcd__RequestOp *op,
                   const txn *nested, Etcd__ResponseOp *to) {
  store *st = &ev->cluster->store;
  switch (op->request_case) {
    case ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE:
      to->response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE;
      to->response_range = run_range(ev, op->request_range);
      break;
    case ETCD__REQUEST_OP__REQUEST_REQUEST_PUT:
      run_put(ev, op->request_put);
      to->response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_PUT;
      to->response_put = arena_take(ev->memory, sizeof *to->response_put);
      etcd__put_response__init(to->response_put);
      to->response_put->header = header_of(st->rev, ev->memory);
      break;
    case ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE:
      to->response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE;
      to->response_delete_range =
          arena_take(ev->memory, sizeof *to->response_delete_range);
      etcd__delete_range_response__init(to->response_delete_range);
      to->response_delete_range->deleted =
          store_delete(st, bytes_of(op->request_delete_range->key),
                       bytes_of(op->request_delete_range->range_end));
      if (to->response_delete_range->deleted == 0 && st->client >= 0) {
        costs_of(ev->cluster, st->client)->n_in_vain++;
      }
      to->response_delete_range->header = header_of(st->rev, ev->memory);
      break;
    default:
      to->response_case = ETCD__RESPONSE_OP__RESPONSE_RESPONSE_TXN;
      to->response_txn = run(ev, nested);
      to->response_txn->header = header_of(0, ev->memory);
  }
}

static Etcd__TxnResponse *run(const evaluation *ev, const txn *it) {
  const branch *of = taken(it);
  Etcd__TxnResponse *to = arena_take(ev->memory, sizeof *to);
  Etcd__ResponseOp *ops = arena_take(ev->memory, of->n * sizeof *ops);
  etcd__txn_response__init(to);
  to->succeeded = it->succeeded;
  to->n_responses = of->n;
  to->responses = arena_take(ev->memory, of->n * sizeof *to->responses);
  for (size_t i = 0; i < of->n; i++) {
    to->responses[i] = &ops[i];
    etcd__response_op__init(&ops[i]);
    run_op(ev, of->ops[i], of->nested[i], &ops[i]);
  }
  return to;
}

const failure *txn_apply(etcd *cluster, txn *it, int64_t rev, int client,
                         const omissions *omits, arena *memory,
                         Etcd__TxnResponse **response) {
  bool is_read = txn_is_read(it);
  evaluation ev = {cluster, is_read ? rev : INT64_MAX, omits, memory};
  view now = present(&ev);
  const failure *why;
  judge(&now, it);
  why = verify(&ev, &now, it);
  if (why != NULL) return why;
  store_begin(&cluster->store, ETCD_BY_TXN, client);
  *response = run(&ev, it);
  (*response)->header =
      header_of(is_read ? now.rev : cluster->store.rev, memory);
  return NULL;
}
