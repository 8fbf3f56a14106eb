/* lock_txn: builds the etcd transactions of the lock protocol, and reads their answers.
 *
 * It turns a request of an entry into a transaction, and reads the answer for the entry. It turns
 * operations of a holder into a transaction that is guarded by the keys of the hold, and reads the
 * answer for the write order. It sends nothing.
 */
#ifndef ETCDLOCK_PROTOCOL_LOCK_TXN_H
#define ETCDLOCK_PROTOCOL_LOCK_TXN_H

#include "etcd/txn.h"
#include "protocol/conflict_matrix.h"
#include "protocol/key.h"
#include "protocol/write_order.h"

/* ---- requests of an entry ---- */

/* el_request_kind is the kind of an entry's request. */
typedef enum el_request_kind {
  EL_REQUEST_TRY, /* put our key if all keys that may conflict are older than |bound_rev| */
  /* put our key and read its predecessor; if our key exists, only read our key */
  EL_REQUEST_ENQUEUE,
  EL_REQUEST_READ,  /* read our key and its predecessor */
  EL_REQUEST_DELETE /* delete our key, guarded by |guard_rev| */
} el_request_kind;

/* el_walk is a part of the older keys of a queue. A queue may be long, and its keys may have large
 * values. If the keys next to ours do not tell whether our key must wait, for example because all
 * of them are user data, the entry walks: it reads the older keys part by part, the youngest first.
 * No key that is put later is older than ours, so the parts may have different revisions. */
typedef struct el_walk {
  /* only keys with a lower create_revision; 0: all keys that are older than ours, or all keys if
   * ours does not exist */
  int64_t below;
  /* the largest number of keys of each range; 0: the smallest number that is likely to suffice */
  uint32_t limit;
  /* semaphore: the number of older permits in the parts that were read before */
  uint32_t n_ahead;
  /* revision up to which the first part shows the state; 0: this is the first part */
  int64_t rev;
  /* an answer was too large: go on in parts that do not overlap */
  bool is_shrunk;
} el_walk;

/* el_entry_request is what an entry asks etcd. The comments of the fields name the kinds that use
 * them. */
typedef struct el_entry_request {
  el_request_kind kind;
  bool is_serializable; /* read: one member may answer from its own state */
  bool is_own_only;     /* read: our own key, and no other keys */
  bool is_audit;        /* read: for a key that an audit has found */
  /* read: read also the value of the holder's key, for messages, in the queue |holder_index| */
  bool reads_holder;
  uint8_t holder_index;
  el_walk walk; /* read, try, enqueue: the part of the queue to list */
  /* try: put our key only if all keys that may conflict have a create_revision below this */
  int64_t bound_rev;
  /* delete: delete only the key with this create_revision; 0: only if it is attached to our lease
   */
  int64_t guard_rev;
} el_entry_request;

/* el_entry_answer is the answer to the request in flight. */
typedef struct el_entry_answer {
  /* how the request ended; if not outcome.is_done, only |is_too_large| and |walk| have a meaning */
  el_outcome outcome;
  uint64_t member;  /* ID of the member that has answered */
  uint64_t term;    /* raft term */
  int64_t rev;      /* revision */
  el_queue_key own; /* our key, with its lease; rev 0: it does not exist */
  /* some of our keys exist, but not all with one create_revision; delete: the hold had been lost
   * before */
  bool is_partial;
  /* the youngest older key that blocks ours; rev 0: none. Semaphore: if ours must wait, rev 1 and
   * lease 0, which name no key */
  el_queue_key predecessor;
  /* the answer does not tell whether our key must wait: read |walk| */
  bool is_truncated;
  /* the answer was too large to be received: ask for |walk|, which is smaller */
  bool is_too_large;
  /* the part of the queue to read next; if there is none, only its |rev| has a meaning */
  el_walk walk;
  /* semaphore: at least this many older keys must go before ours holds a permit */
  uint32_t n_blockers;
  bool is_locked; /* try: a key blocks ours */
  /* enqueue, try with |bound_rev| above 1: our key was put, and the older keys are listed */
  bool is_put;
  /* the request was in a batch, so writes of other requests may have the revision |rev| */
  bool is_batched;
  bool is_serializable; /* read: one member's state, which may be stale */
  bool is_deleted;      /* delete: the key existed, and was deleted */
  /* try, enqueue: another client has put a key with the name of ours, so ours was not put */
  bool is_name_taken;
} el_entry_answer;

/* el_lock_txn is a transaction with its memory: |txn| points to the other fields, so the struct
 * must not be moved. */
typedef struct el_lock_txn {
  el_txn txn;
  el_compare compares[2 * EL_MULTI_MAX + 1];
  el_op then[2 * EL_MULTI_MAX], otherwise[2 * EL_MULTI_MAX];
  char text[EL_CONFLICT_TEXT_SIZE], holder_text[EL_CONFLICT_HOLDER_SIZE];
} el_lock_txn;

/* el_lock_txn_build builds the transaction for |what|. |rev| is the create_revision of our key; 0:
 * unknown. |value| is the value that an enqueue or a try puts. For a multi-lock of several names,
 * |value| is the value of the first key, a NUL, and the value of all other keys. |keys| and |value|
 * must live as long as |to|. @thread any */
void el_lock_txn_build(el_lock_txn *to, const el_keys *keys,
                       const el_entry_request *what, int64_t rev,
                       el_bytes value);

/* el_lock_txn_read fills |seen| from the |answer| to |what|, which was built with |rev| and
 * |value|. If the answer lacks what it must contain, first sets |answer->err|. @thread any */
void el_lock_txn_read(const el_keys *keys, const el_entry_request *what,
                      int64_t rev, el_bytes value, el_txn_answer *answer,
                      el_entry_answer *seen);

/* el_lock_txn_holder_value returns the value of the holder's key from |answer|, the answer to
 * |what|. If several keys hold the lock, it is the value of the oldest of them. The value points
 * into |answer|. It is empty if etcd was not asked for it, or if the oldest key that was read does
 * not hold the lock, for example because it is user data. @thread any */
el_bytes el_lock_txn_holder_value(const el_keys *keys,
                                  const el_entry_request *what,
                                  const el_txn_answer *answer);

/* el_lock_txn_other_permits tells whether |answer|, the answer to |what|, lists a key of the
 * semaphore of |keys| with another number of permits. If so, it fills |permits| with that number,
 * and |label| with the value of the key, which points into |answer|. @thread any */
bool el_lock_txn_other_permits(const el_keys *keys,
                               const el_entry_request *what,
                               const el_txn_answer *answer, uint16_t *permits,
                               el_bytes *label);

/* el_contention is the answer to a contention query: whether younger keys wait for our key. */
typedef enum el_contention {
  EL_CONTENTION_UNKNOWN, /* the query failed */
  EL_CONTENTION_NONE,
  /* a key waits; or the answer cannot tell: up to its limit it has only younger keys that do not
   * wait, for example user data, or it omits our lease */
  EL_CONTENTION_WAITERS,
  EL_CONTENTION_KEY_LOST /* our key is gone, or is detached from our lease */
} el_contention;

/* el_lock_txn_build_contention builds the contention query: a read that shows whether younger keys
 * wait for ours. @thread any */
void el_lock_txn_build_contention(el_lock_txn *to, const el_keys *keys);

/* el_lock_txn_read_contention returns the result of a contention query from its |answer|. |rev| is
 * the create_revision of our keys. If the result is EL_CONTENTION_KEY_LOST, |*is_detached| is true
 * if all our keys exist but one is not attached to our lease; it is false if a key is gone.
 * @thread any */
el_contention el_lock_txn_read_contention(const el_keys *keys, int64_t rev,
                                          const el_txn_answer *answer,
                                          bool *is_detached);

/* ---- transactions of a holder ---- */

/* el_guard holds the keys of a hold. Each transaction of the hold is guarded by these keys: see
 * el_lock_txn_build_guarded. */
typedef struct el_guard {
  const el_keys *keys;
  int64_t rev; /* create_revision of |keys|: the token */
} el_guard;

/* el_lock_txn_build_guarded builds a transaction that carries out |ops| only while all keys of
 * |guard| exist and are attached to their lease. |ops| must live as long as |to|. |order| is the
 * write order of the hold. If |ops| only read, as they always do under a read hold, |order| is
 * NULL. @thread any */
void el_lock_txn_build_guarded(el_lock_txn *to, const el_guard *guard,
                               const el_write_order *order, const el_op *ops,
                               size_t n_ops);

/* el_lock_txn_build_touch builds a guarded transaction that gives the order key (write_order.h) a
 * new mod_revision and changes nothing else. @thread any */
void el_lock_txn_build_touch(el_lock_txn *to, const el_guard *guard);

/* el_lock_txn_read_guarded reads the |answer| to a transaction that |guard| guards. If guard->keys
 * is NULL, no hold guards it. @thread any */
el_write_answer el_lock_txn_read_guarded(const el_guard *guard,
                                         const el_txn_answer *answer);

/* el_lock_txn_downgrade_op returns the put of the marker key that turns the write hold of |guard|
 * into a read hold. The put points to |key| (EL_KEY_SIZE bytes). @thread any */
el_op el_lock_txn_downgrade_op(const el_guard *guard, char *key);

/* el_lock_txn_proclaim_op returns the put that gives the key of |guard|, the key of an election's
 * leader, the value |value|. This key is also the order key (write_order.h). @thread any */
el_op el_lock_txn_proclaim_op(const el_guard *guard, el_bytes value);

#endif
