/* kv: sends transactions to etcd, and decodes its answers. */
#ifndef ETCDLOCK_ETCD_KV_H
#define ETCDLOCK_ETCD_KV_H

#include <stdint.h>

#include "etcd/auth.h"
#include "etcd/txn.h"

/* What the answer to a transaction must look like. */
typedef struct el_txn_shape {
  const uint8_t
      *kinds; /* of its operations: |n_then|, then |n_otherwise|; see kv.c */
  size_t n_then, n_otherwise;
  bool is_plain; /* it has no condition that can fail, so it succeeds */
} el_txn_shape;

/* A transaction as it travels. */
typedef struct el_packed_txn {
  uint8_t *bytes; /* NULL: none; behind |len| bytes: the key and the kinds */
  size_t len;
  size_t n_compares;
  el_txn_shape shape;
  bool is_read;  /* it can't write */
  bool is_serializable; /* one member answers it from what it has */
  bool may_be_slow;  /* where one endpoint is all there is, it outlasts a silence */
  el_bytes key;  /* of its first operation, else of its first compare */
} el_packed_txn;

/* Encodes |txn|, which has operations for |then|, or compares, and may be forgotten.
 * @thread any */
void el_kv_pack(el_packed_txn *to, const el_txn *txn);

/* Forgets the bytes. @thread any */
void el_packed_txn_free(el_packed_txn *packed);

/* Takes over |answer|. */
typedef void (*el_txn_done)(void *arg, el_txn_answer *answer);

/* Sends |packed|, which may be freed at once. |done| is called exactly once,
 * later, and owns the answer. @thread io */
void el_kv_send(el_auth *auth, const el_packed_txn *packed, int64_t timeout_ms,
                el_txn_done done, void *arg);

/* Fills succeeded and results of |answer| from its message. False, with nothing filled,
 * if the message is no answer to a transaction of |shape|. Readers rely on the number,
 * order and kinds of the results. @thread any */
bool el_txn_answer_read(el_txn_answer *answer, const el_txn_shape *shape);

/* @thread any */
void el_txn_answer_free(el_txn_answer *answer);

#endif
