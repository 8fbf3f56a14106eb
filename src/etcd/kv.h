/* kv: sends transactions to etcd and decodes the answers. */
#ifndef ETCDLOCK_ETCD_KV_H
#define ETCDLOCK_ETCD_KV_H

#include <stdint.h>

#include "etcd/auth.h"
#include "etcd/txn.h"

/* el_txn_shape is the number and kinds of the results that the answer to a transaction must
 * have. */
typedef struct el_txn_shape {
  /* the kinds of the |n_then| operations, then of the |n_otherwise| ones; see ONE_KEY in kv.c */
  const uint8_t *kinds;
  size_t n_then, n_otherwise;
  /* no condition can fail, so the answer must say that the transaction succeeded */
  bool is_plain;
} el_txn_shape;

/* el_packed_txn is an encoded transaction. */
typedef struct el_packed_txn {
  /* the encoded transaction (|len| bytes), then the bytes of |key| and the kinds; NULL: none */
  uint8_t *bytes;
  size_t len;
  size_t n_compares;
  el_txn_shape shape;
  bool is_read;         /* no operation writes */
  bool is_serializable; /* one member answers from its own state */
  /* set by the caller: if there is only one member, the health check does not cancel the request */
  bool may_be_slow;
  size_t pinned_member; /* set by the caller, see net/call.h */
  /* the key of the first operation of |then|; if there is none, of the first compare */
  el_bytes key;
} el_packed_txn;

/* el_kv_pack encodes |txn| into |to|. The caller may free |txn| afterwards. @thread any */
void el_kv_pack(el_packed_txn *to, const el_txn *txn);

/* el_packed_txn_free frees what |packed| holds. @thread any */
void el_packed_txn_free(el_packed_txn *packed);

/* el_txn_done receives the answer, and must free it with el_txn_answer_free. */
typedef void (*el_txn_done)(void *arg, el_txn_answer *answer);

/* el_kv_send sends |packed|, which the caller may free at once. |done| is called exactly once, and
 * only after el_kv_send has returned, except after el_auth_stop. @thread io */
void el_kv_send(el_auth *auth, const el_packed_txn *packed, int64_t timeout_ms,
                el_txn_done done, void *arg);

/* el_txn_answer_read fills |succeeded| and the results of |answer| from its message. Returns false,
 * and fills nothing, if the message cannot be the answer to a transaction of |shape|. The check is
 * necessary, because code that reads the results relies on the number, order and kinds of the
 * results. @thread any */
bool el_txn_answer_read(el_txn_answer *answer, const el_txn_shape *shape);

/* el_txn_answer_free frees |answer| and its message. @thread any */
void el_txn_answer_free(el_txn_answer *answer);

#endif
