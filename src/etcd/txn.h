/* txn: etcd's transactions as plain C data.
 *
 * Each read or write of a key is a Txn. A transaction that only reads is a linearizable read,
 * or a serializable one if all its ranges are serializable. So there is only one request to encode
 * and one response to decode. kv.h sends transactions; code that only builds a transaction does not
 * depend on kv.h.
 */
#ifndef ETCDLOCK_ETCD_TXN_H
#define ETCDLOCK_ETCD_TXN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

/* The largest revision that an answer may have. An answer with a larger one counts as unreadable.
 * etcd would need centuries to get there, and arithmetic on smaller ones cannot overflow. */
#define EL_REVISION_MAX (INT64_MAX / 2)

/* el_is_revision tells whether an answer may have the revision |rev|; 0: it is missing.
 * @thread any */
static inline bool el_is_revision(int64_t rev) {
  return rev >= 0 && rev <= EL_REVISION_MAX;
}

/* el_compare is a condition on a key, or on all keys of a range. For a range, the condition must
 * hold for each key. A range without keys is compared like a key with revision 0 and lease 0. */
typedef struct el_compare {
  enum {
    EL_CREATE_REV_IS,
    EL_CREATE_REV_BELOW,
    EL_MOD_REV_IS,
    EL_LEASE_IS
  } test;
  el_bytes key, range_end; /* if range_end is empty: one key */
  int64_t rev; /* the revision; EL_LEASE_IS: the lease, 0 for none */
} el_compare;

/* el_op is one operation of a transaction. The comment of a field names the kinds that use it. */
typedef struct el_op {
  enum { EL_OP_RANGE, EL_OP_PUT, EL_OP_DELETE, EL_OP_TXN } kind;
  el_bytes key;
  el_bytes range_end; /* range, delete: the end, exclusive; empty: one key */
  el_bytes value;     /* put: the new value; txn: the encoded transaction */
  int64_t lease;      /* put: 0 for none */
  bool touch;     /* put: the key, which must exist, keeps value and lease */
  int64_t limit;  /* range: 0 for no limit */
  int64_t at_rev; /* range: read the state at this revision; 0: the newest */
  /* range: only keys with a create_revision up to this one; 0: all keys */
  int64_t max_create_rev;
  enum { EL_SORT_BY_KEY, EL_SORT_OLDEST, EL_SORT_YOUNGEST } sort; /* range */
  /* range: the answer is the member's own state, which may be stale */
  bool serializable;
  /* range: the answer contains no values; etcd 3.7 omits the leases, too (etcd issue 22209) */
  bool keys_only;
} el_op;

/* el_txn is a transaction. The caller owns the arrays and the bytes in them. */
typedef struct el_txn {
  /* if all compares hold, |then| runs; otherwise |otherwise| */
  const el_compare *compares;
  size_t n_compares;
  const el_op *then;
  size_t n_then;
  const el_op *otherwise;
  size_t n_otherwise;
} el_txn;

/* el_kv is one key of etcd with its value, its revisions, and the ID of the lease it is attached to
 * (0: none). */
typedef struct el_kv {
  el_bytes key, value;
  int64_t create_rev, mod_rev, lease;
} el_kv;

/* el_op_result is the result of one operation of a transaction. */
typedef struct el_op_result {
  int kind;   /* the kind of the operation, as in el_op */
  el_kv *kvs; /* range */
  size_t n_kvs;
  bool more; /* range: there are more keys than the limit */
  /* range: the number of keys in the range, without regard to |limit| and |max_create_rev| */
  int64_t count;
  int64_t deleted; /* delete: the number of keys */
} el_op_result;

/* el_txn_answer is etcd's answer to a transaction, on the heap. Its owner frees it with
 * el_txn_answer_free. */
typedef struct el_txn_answer {
  el_error err;    /* code EL_OK: the rest is filled */
  int64_t sent_ms; /* el_now_ms when el_kv_send was called */
  int64_t rev;     /* the store's revision in the response header */
  uint64_t term;   /* raft term of the member that answered */
  uint64_t cluster_id, member_id; /* of the member that answered */
  /* the transaction was sent in a batch, so other transactions have the same revision */
  bool is_batched;
  bool succeeded;        /* |then| was run */
  el_op_result *results; /* the results of the operations that were run */
  size_t n_results;
  void *message; /* the decoded message; the results point into it */
} el_txn_answer;

#endif
