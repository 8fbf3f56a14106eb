/* lock_txn: builds the transactions of which a lock consists, and reads their answers.
 *
 * Turns a request of an entry into a transaction on the keys of one queue, and the answer into an
 * event of the entry; and operations of a holder into a transaction that is guarded by the hold's
 * keys, and the answer into an event of the write order. It sends nothing.
 */
#ifndef ETCDLOCK_PROTOCOL_LOCK_TXN_H
#define ETCDLOCK_PROTOCOL_LOCK_TXN_H

#include "etcd/txn.h"
#include "protocol/conflict_matrix.h"
#include "protocol/entry.h"
#include "protocol/handoff_budget.h"
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

/* EL_UNINITIALIZED marks a variable, an el_lock_txn, that is not cleared. Only what was built is
 * read. The compiler is told to clear all variables (-ftrivial-auto-var-init), and to clear these
 * 60 KB takes longer than to build. */
#ifdef __has_attribute
#if __has_attribute(uninitialized)
#define EL_UNINITIALIZED __attribute__((uninitialized))
#endif
#endif
#ifndef EL_UNINITIALIZED
#define EL_UNINITIALIZED
#endif

/* el_lock_txn_build builds the request of |action|. |rev| is the create_revision of our key, 0 if
 * unknown. |value| is what an enqueue or a try puts; for a multi-lock, the value of the first key,
 * a NUL, and the value of the other keys. |keys| and |value| must live as long as |to|.
 * @thread any */
void el_lock_txn_build(el_lock_txn *to, const el_keys *keys,
                       const el_entry_action *action, int64_t rev,
                       el_bytes value);

/* el_lock_txn_read fills |event| from the |answer| to the request of |action|. @thread any */
void el_lock_txn_read(const el_keys *keys, const el_entry_action *action,
                      const el_txn_answer *answer, el_entry_event *event);

/* el_lock_txn_holder_value returns the value of the key that holds the lock, or of one of them, from
 * the |answer| to the request of |action|; it points into |answer|. Empty: |action| did not ask for
 * it, or it is unknown because the oldest key below the name is user data. @thread any */
el_bytes el_lock_txn_holder_value(const el_keys *keys,
                                  const el_entry_action *action,
                                  const el_txn_answer *answer);

/* el_lock_txn_build_contention builds the query whether keys wait for ours. @thread any */
void el_lock_txn_build_contention(el_lock_txn *to, const el_keys *keys);

/* el_lock_txn_read_contention reads the |answer| to that query; |rev| is the create_revision of our
 * key. With EL_CONTENTION_KEY_LOST, |*is_detached| tells whether all our keys exist but one is off
 * our lease. @thread any */
el_contention el_lock_txn_read_contention(const el_keys *keys, int64_t rev,
                                          const el_txn_answer *answer,
                                          bool *is_detached);

/* ---- transactions of a holder ---- */

/* el_guard holds the keys of a hold, by which its transactions are guarded. */
typedef struct el_guard {
  const el_keys *keys;
  int64_t rev; /* their create_revision: the token */
} el_guard;

/* el_lock_txn_build_guarded builds a transaction that carries out |ops| only while all keys of
 * |guard| exist, attached to their lease. |ops| must live as long as |to|. |order| is that of the
 * writes; NULL: |ops| only read, as all do under a read hold. @thread any */
void el_lock_txn_build_guarded(el_lock_txn *to, const el_guard *guard,
                               const el_write_order *order, const el_op *ops,
                               size_t n_ops);

/* el_lock_txn_build_touch builds a guarded transaction that gives the order key a new mod_revision
 * and changes nothing else. @thread any */
void el_lock_txn_build_touch(el_lock_txn *to, const el_guard *guard);

/* el_lock_txn_read_guarded fills |event| from the |answer| to a guarded transaction. @thread any */
void el_lock_txn_read_guarded(const el_guard *guard,
                              const el_txn_answer *answer,
                              el_write_event *event);

/* el_lock_txn_downgrade_op returns the write after which the writer of |guard| only reads. It
 * points to |key| (EL_KEY_SIZE bytes). @thread any */
el_op el_lock_txn_downgrade_op(const el_guard *guard, char *key);

/* el_lock_txn_proclaim_op returns the write that gives the key of |guard|, an election's leader,
 * another |value|. It puts the order key (write_order.h). @thread any */
el_op el_lock_txn_proclaim_op(const el_guard *guard, el_bytes value);

#endif
