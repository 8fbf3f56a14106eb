/* lock_txn: builds the etcd transactions of the lock protocol, and reads their answers.
 *
 * It turns a request of an entry into a transaction, and reads the answer for the entry. It
 * turns operations of a holder into a transaction that is guarded by the keys of the hold, and the
 * answer into an event of the write order. It sends nothing.
 */
#ifndef ETCDLOCK_PROTOCOL_LOCK_TXN_H
#define ETCDLOCK_PROTOCOL_LOCK_TXN_H

#include "etcd/txn.h"
#include "protocol/conflict_matrix.h"
#include "protocol/entry.h"
#include "protocol/key.h"
#include "protocol/write_order.h"

/* el_lock_txn is a transaction with its memory: |txn| points to the other fields, so the struct
 * must not be moved. */
typedef struct el_lock_txn {
  el_txn txn;
  el_compare compares[2 * EL_MULTI_MAX + 1];
  el_op then[2 * EL_MULTI_MAX], otherwise[2 * EL_MULTI_MAX];
  char text[EL_CONFLICT_TEXT_SIZE], holder_text[EL_CONFLICT_HOLDER_SIZE];
} el_lock_txn;

/* el_lock_txn_build builds the transaction for the request of |action|. |rev| is the
 * create_revision of our key; 0: unknown. |value| is the value that an enqueue or a try puts. For a
 * multi-lock, |value| is the value of the first key, a NUL, and the value of all other keys. |keys|
 * and |value| must live as long as |to|. @thread any */
void el_lock_txn_build(el_lock_txn *to, const el_keys *keys,
                       const el_entry_action *action, int64_t rev,
                       el_bytes value);

/* el_lock_txn_read fills |seen| from the |answer| to the request of |action|, which was built with
 * |rev| and |value|. If the answer lacks what it must contain, sets its error. @thread any */
void el_lock_txn_read(const el_keys *keys, const el_entry_action *action,
                      int64_t rev, el_bytes value, el_txn_answer *answer,
                      el_entry_answer *seen);

/* el_lock_txn_holder_value returns the value of the holder's key from |answer|, the answer to the
 * request of |action|. If several keys hold the lock, it is the value of the oldest of them. The
 * value points into |answer|. It is empty if |action| did not ask for it. It is also empty if the
 * oldest key below the name is user data, because then the holder's key was not read.
 * @thread any */
el_bytes el_lock_txn_holder_value(const el_keys *keys,
                                  const el_entry_action *action,
                                  const el_txn_answer *answer);

/* el_lock_txn_other_permits tells whether |answer|, the answer to the request of |action|, lists a
 * key of the semaphore of |keys| with another number of permits. If so, it fills |permits| with
 * that number, and |label| with the value of the key, which points into |answer|. @thread any */
bool el_lock_txn_other_permits(const el_keys *keys,
                               const el_entry_action *action,
                               const el_txn_answer *answer, uint16_t *permits,
                               el_bytes *label);

/* el_contention is the answer to a contention query: whether younger keys wait for our key. */
typedef enum el_contention {
  EL_CONTENTION_UNKNOWN, /* there was no answer */
  EL_CONTENTION_NONE,
  /* a key waits; or the query reached its limit before it could tell, because other keys, for
   * example user data, are younger */
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

/* el_guard holds the keys of a hold. Each transaction of the hold is guarded by the existence of
 * these keys. */
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

/* el_lock_txn_read_guarded fills |event| from the |answer| to a guarded transaction. @thread any */
void el_lock_txn_read_guarded(const el_guard *guard,
                              const el_txn_answer *answer,
                              el_write_event *event);

/* el_lock_txn_downgrade_op returns the put of the marker key that turns the write hold of |guard|
 * into a read hold. The put points to |key| (EL_KEY_SIZE bytes). @thread any */
el_op el_lock_txn_downgrade_op(const el_guard *guard, char *key);

/* el_lock_txn_proclaim_op returns the put that gives the key of |guard|, the key of an election's
 * leader, the value |value|. This key is also the order key (write_order.h). @thread any */
el_op el_lock_txn_proclaim_op(const el_guard *guard, el_bytes value);

#endif
