/* sim txn: applies transactions to the store of the model. */
#include "txn.h"

#include <assert.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "key_id.h"

/* gRPC's NOT_FOUND, etcd's answer for a lease that does not exist. */
enum { STATUS_NOT_FOUND = 5 };

/* ---- keys as text ---- */

size_t txn_name(char *to, int key_id) {
  int key_ids[NAMES_MAX], n = key_id_all(key_id, key_ids);
  size_t len = 0;
  for (int i = 0; i < n; i++) {
    if (i > 0) to[len++] = '\0';
    len += (size_t)snprintf(to + len, TXN_TEXT_MAX - len, "lock%d",
                            key_id_name(key_ids[i]));
  }
  return len;
}

/* Appends |text| without printf, which would take most of the time of a history. */
static size_t put_text(char *to, const char *text) {
  size_t len = strlen(text);
  memcpy(to, text, len);
  return len;
}

static size_t put_hex(char *to, uint64_t number) {
  size_t len = 1;
  for (uint64_t rest = number >> 4; rest != 0; rest >>= 4) {
    len++;
  }
  for (size_t i = len; i-- > 0; number >>= 4) {
    to[i] = "0123456789abcdef"[number & 15];
  }
  return len;
}

static el_bytes text_of(const key *it, char *to) {
  bool is_nested = key_is_nested(it);
  size_t len = put_text(to, "lock");
  to[len++] = (char)('0' + key_id_name(it->key_id));
  to[len++] = '/';
  if (is_nested) {
    len += put_text(to + len, it->owner % 2 == 0 ? "permit/below/" : "below/");
  } else {
    len += put_text(to + len, key_id_infix(key_id_mode(it->key_id)));
  }
  len += put_hex(to + len, (uint64_t)(is_nested ? -it->owner : it->owner));
  if (key_id_slot(it->key_id) != 0) {
    to[len++] = '-';
    len += put_hex(to + len, key_id_slot(it->key_id));
  }
  if (key_id_permits(it->key_id) != 0) {
    to[len++] = '.';
    len += put_hex(to + len, key_id_permits(it->key_id));
  }
  return (el_bytes){to, len};
}

static int compare_bytes(el_bytes a, el_bytes b) {
  size_t len = a.len < b.len ? a.len : b.len;
  int order = memcmp(a.data, b.data, len);
  return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static bool is_in(el_bytes text, el_bytes from, el_bytes to) {
  if (to.len == 0) return compare_bytes(text, from) == 0;
  return compare_bytes(text, from) >= 0 && compare_bytes(text, to) < 0;
}

/* Tells whether |it| exists and is below the name with which |from| begins. A range has keys of one
 * name only. This test saves time, because the other keys need not be written as text. */
static bool may_be_in(const key *it, el_bytes from) {
  return it->create_rev != 0 &&
         from.data[sizeof "lock" - 1] - '0' == key_id_name(it->key_id);
}

/* Returns the mode of the longest infix with which |rest|, the part after the name, begins. */
static el_mode mode_of(const char *rest) {
  el_mode found = EL_MODE_LOCK;
  for (int mode = 0; mode <= EL_MARKER_WRITE_ORDER; mode++) {
    const char *stem = key_id_infix((el_mode)mode);
    if (strlen(stem) > strlen(key_id_infix(found)) &&
        strncmp(rest, stem, strlen(stem)) == 0) {
      found = (el_mode)mode;
    }
  }
  return found;
}

/* Parses |text|, the key of an entry or of a marker. Sets |*key_id|. Sets |*owner| to the lease in
 * the key, or for a marker to the create_revision in the key. */
static void parse(el_bytes text, int *key_id, int64_t *owner) {
  char copy[TXN_TEXT_MAX];
  unsigned long long hex;
  unsigned slot = 0, permits = 0;
  int name, n, at = 0;
  el_mode mode;
  assert(text.len < sizeof copy);
  memcpy(copy, text.data, text.len);
  copy[text.len] = '\0';
  if (sscanf(copy, "lock%d/%n", &name, &at) != 1 || at == 0) abort();
  mode = mode_of(copy + at);
  at += (int)strlen(key_id_infix(mode));
  n = sscanf(copy + at, "%llx-%x.%x", &hex, &slot, &permits);
  if (n < 1) abort(); /* the write is to a key of no lock */
  if (n == 1) sscanf(copy + at, "%llx.%x", &hex, &permits);
  if (mode == EL_MODE_LOCK && slot != 0) mode = EL_MODE_MULTI;
  *key_id = mode == EL_MODE_PERMIT
                ? key_id_permit(name, (int)slot, (int)permits)
                : key_id_make(name, mode, (int)slot);
  *owner = (int64_t)hex;
}

/* Tells whether |text| is the key of a datum. */
static bool parse_datum(el_bytes text, int *datum) {
  char copy[TXN_TEXT_MAX];
  snprintf(copy, sizeof copy, "%.*s", (int)text.len, text.data);
  return sscanf(copy, "data%d", datum) == 1;
}

size_t txn_datum(char *to, int datum) {
  return (size_t)snprintf(to, TXN_TEXT_MAX, "data%d", datum);
}

/* ---- reads ---- */

static bool fits(const el_compare *compare, int64_t create_rev, int64_t mod_rev,
                 int64_t lease_id) {
  switch (compare->test) {
    case EL_CREATE_REV_IS:
      return create_rev == compare->rev;
    case EL_CREATE_REV_BELOW:
      return create_rev < compare->rev;
    case EL_LEASE_IS:
      return lease_id == compare->rev;
    default:
      return mod_rev == compare->rev;
  }
}

/* Tells whether |compare| holds for each key in its range. An empty range compares as revision
 * 0. */
static bool holds(const view *at, const el_compare *compare) {
  char text[TXN_TEXT_MAX];
  bool empty = true;
  for (int i = 0; i < at->n; i++) {
    const key *it = &at->keys[i];
    if (!may_be_in(it, compare->key) ||
        !is_in(text_of(it, text), compare->key, compare->range_end)) {
      continue;
    }
    empty = false;
    if (!fits(compare, it->create_rev, it->mod_rev, it->lease)) return false;
  }
  return !empty || fits(compare, 0, 0, 0);
}

static bool comes_before(const el_op *op, const el_kv *a, const el_kv *b) {
  switch (op->sort) {
    case EL_SORT_OLDEST:
      return a->create_rev < b->create_rev;
    case EL_SORT_YOUNGEST:
      return a->create_rev > b->create_rev;
    default:
      return compare_bytes(a->key, b->key) < 0;
  }
}

static void insert(txn_result *out, int index, const el_op *op, el_kv kv) {
  el_op_result *result = &out->results[index];
  el_kv *kvs = out->kvs[index];
  size_t at = result->n_kvs++;
  assert(at < TXN_KEYS_MAX);
  while (at > 0 && comes_before(op, &kv, &kvs[at - 1])) {
    kvs[at] = kvs[at - 1];
    at--;
  }
  kvs[at] = kv;
}

static void range(const view *at, const el_op *op, int index, txn_result *out) {
  el_op_result *result = &out->results[index];
  *result = (el_op_result){.kind = EL_OP_RANGE, .kvs = out->kvs[index]};
  for (int i = 0; i < at->n; i++) {
    const key *it = &at->keys[i];
    char *buffer = out->texts[index][result->n_kvs];
    el_bytes text;
    if (!may_be_in(it, op->key)) continue;
    text = text_of(it, buffer);
    if (!is_in(text, op->key, op->range_end)) continue;
    result->count++;
    if (op->max_create_rev != 0 && it->create_rev > op->max_create_rev) {
      continue;
    }
    insert(out, index, op,
           (el_kv){.key = text,
                   .value = op->keys_only ? (el_bytes){0} : text,
                   .create_rev = it->create_rev,
                   .mod_rev = it->mod_rev,
                   /* keys_only: etcd 3.7 (issue 22209) */
                   .lease = op->keys_only || at->omits_leases ? 0 : it->lease});
  }
  if (op->limit != 0 && result->n_kvs > (size_t)op->limit) {
    result->n_kvs = (size_t)op->limit;
    result->more = !at->omits_more;
  }
}

/* ---- writes ---- */

/* etcd checks the leases of a branch before it applies any operation. */
static bool leases_live(const store *st, const el_op *ops, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const lease *ls = store_find_lease(st, ops[i].lease);
    if (ops[i].kind == EL_OP_PUT && ops[i].lease != 0 &&
        (ls == NULL || !ls->alive)) {
      return false;
    }
  }
  return true;
}

static void put(store *st, const el_op *op) {
  int key_id, datum;
  int64_t owner;
  uint32_t value;
  if (parse_datum(op->key, &datum)) {
    memcpy(&value, op->value.data, sizeof value);
    store_write(st, datum, value);
    return;
  }
  parse(op->key, &key_id, &owner);
  if (op->touch) {
    store_touch(st, key_id, owner);
  } else {
    store_put(st, key_id, owner, op->lease);
  }
}

static int64_t delete (store *st, const el_op *op) {
  char text[TXN_TEXT_MAX];
  int64_t deleted = 0;
  for (int i = 0; i < st->n_keys; i++) {
    const key *it = &st->keys[i];
    if (may_be_in(it, op->key) &&
        is_in(text_of(it, text), op->key, op->range_end)) {
      deleted += store_release(st, it->key_id, it->owner);
    }
  }
  return deleted;
}

static void run(store *st, const el_op *op, int index, txn_result *out) {
  view at = store_view(st, st->rev);
  if (op->kind == EL_OP_RANGE) {
    range(&at, op, index, out);
    return;
  }
  out->results[index] = (el_op_result){.kind = op->kind};
  if (op->kind == EL_OP_PUT) {
    put(st, op);
  } else {
    out->results[index].deleted = delete (st, op);
  }
}

/* ---- a transaction ---- */

static bool all_hold(const view *at, const el_txn *txn) {
  for (size_t i = 0; i < txn->n_compares; i++) {
    if (!holds(at, &txn->compares[i])) return false;
  }
  return true;
}

static void begin(txn_result *out, const store *st, bool succeeded, size_t n) {
  assert(n <= TXN_OPS_MAX);
  out->answer = (el_txn_answer){.term = st->term,
                                .succeeded = succeeded,
                                .results = out->results,
                                .n_results = n};
}

bool txn_judge(store *st, const el_txn *txn) {
  view at = store_view(st, st->rev);
  return all_hold(&at, txn);
}

bool txn_is_sound(const store *st, const el_txn *txn, bool succeeded) {
  return succeeded ? leases_live(st, txn->then, txn->n_then)
                   : leases_live(st, txn->otherwise, txn->n_otherwise);
}

void txn_run(store *st, const el_txn *txn, bool succeeded, txn_result *out) {
  const el_op *ops = succeeded ? txn->then : txn->otherwise;
  size_t n = succeeded ? txn->n_then : txn->n_otherwise;
  bool alone = !st->in_batch;
  begin(out, st, succeeded, n);
  if (alone) store_begin_batch(st);
  for (size_t i = 0; i < n; i++) {
    run(st, &ops[i], (int)i, out);
  }
  if (alone) store_end_batch(st);
}

void txn_apply(store *st, const el_txn *txn, txn_result *out) {
  bool succeeded = txn_judge(st, txn);
  if (!txn_is_sound(st, txn, succeeded)) {
    begin(out, st, succeeded, 0);
    el_error_from_status(&out->answer.err, STATUS_NOT_FOUND,
                         "etcdserver: requested lease not found", "sim");
    return;
  }
  txn_run(st, txn, succeeded, out);
  out->answer.rev = st->rev;
}

void txn_read(store *st, const el_txn *txn, int64_t rev, txn_result *out) {
  view at = store_view(st, rev);
  begin(out, st, true, txn->n_then);
  assert(txn->n_compares == 0);
  for (size_t i = 0; i < txn->n_then; i++) {
    range(&at, &txn->then[i], (int)i, out);
  }
  out->answer.rev = at.rev;
}
