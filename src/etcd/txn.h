/* txn: etcd's transactions, in plain C.
 *
 * Everything that etcdlock asks of etcd's key space is one Txn: a transaction
 * that only reads is a linearizable read (a serializable one when all its
 * ranges are), so there is one request to encode and one answer to decode.
 * Data only, so that whoever decides what to ask need not know how it is sent.
 */
#ifndef ETCDLOCK_ETCD_TXN_H
#define ETCDLOCK_ETCD_TXN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

/* A condition on a revision or lease; on a range (range_end.len > 0) it must be true of
 * every key in it, and an empty range counts as revision 0. */
typedef struct el_compare {
  enum {
    EL_CREATE_REV_IS,
    EL_CREATE_REV_BELOW,
    EL_MOD_REV_IS,
    EL_LEASE_IS
  } test;
  el_bytes key, range_end;
  int64_t rev; /* EL_LEASE_IS: the lease, 0 for none */
} el_compare;

/* One operation of a transaction. */
typedef struct el_op {
  enum { EL_OP_RANGE, EL_OP_PUT, EL_OP_DELETE, EL_OP_TXN } kind;
  el_bytes key;
  el_bytes range_end; /* range, delete: up to here, exclusive; empty: one key */
  el_bytes value;     /* put; txn: another transaction, encoded */
  int64_t lease;      /* put: 0 for none */
  bool touch;         /* put: value and lease stay, of a key that is there */
  int64_t limit;      /* range: 0 for all */
  int64_t at_rev; /* range: what was there at this revision; 0: what is now */
  int64_t max_create_rev; /* range: only keys created up to here; 0: all */
  enum { EL_SORT_BY_KEY, EL_SORT_OLDEST, EL_SORT_YOUNGEST } sort;
  bool serializable; /* range: this member's state, perhaps stale */
  bool keys_only;    /* range */
} el_op;

typedef struct el_txn {
  const el_compare *compares; /* all must be true for |then| */
  size_t n_compares;
  const el_op *then;
  size_t n_then;
  const el_op *otherwise;
  size_t n_otherwise;
} el_txn;

typedef struct el_kv {
  el_bytes key, value;
  int64_t create_rev, mod_rev, lease;
} el_kv;

/* What one operation answered. */
typedef struct el_op_result {
  int kind;
  el_kv *kvs; /* range */
  size_t n_kvs;
  bool more;       /* range: the limit left some out */
  int64_t deleted; /* delete */
} el_op_result;

typedef struct el_txn_answer {
  el_error err;    /* code EL_OK when the rest is filled */
  int64_t sent_ms; /* when the request left us */
  int64_t rev;     /* of the store the answer was made from */
  uint64_t term;   /* raft term of the member that answered */
  uint64_t cluster_id;
  bool is_batched;   /* others may have been carried out in the same revision */
  bool succeeded; /* |then| was run */
  el_op_result *results;
  size_t n_results;
  void *message; /* what the bytes above point into */
} el_txn_answer;

#endif
