/* local_queue_driver: the local queues of one client, with their entries and timers.
 *
 * The state machine in local_queue.h decides which waiter holds the lock and which waiter
 * is next. This module carries out the actions of that state machine: it steps entries, starts
 * watches and timers, and reports results to the waiters. A waiter is one acquisition of a lock
 * (lock/waiter.h), while it waits and while it holds. I/O thread only. */
#ifndef ETCDLOCK_LOCK_LOCAL_QUEUE_DRIVER_H
#define ETCDLOCK_LOCK_LOCAL_QUEUE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "lock/entry.h"
#include "lock/session.h"
#include "lock/waiter.h"

/* el_local_queues is the set of all local queues of one client. */
typedef struct el_local_queues el_local_queues;

/* el_local_queues_new returns an empty set of local queues. The entries of the queues belong to
 * |session|, which must outlive the set. |limits| is the handoff budget. @thread io */
el_local_queues *el_local_queues_new(el_session *session,
                                     const el_handoff_limits *limits);

/* el_local_queues_free frees |queues| with all its local queues and entries. A release that etcd
 * has not confirmed is reported to its waiter as unconfirmed. @thread io */
void el_local_queues_free(el_local_queues *queues);

/* ---- waiters ---- */

/* el_waiter_join adds |waiter| to the local queue for its lock name, mode and number of permits. If
 * the client is closed or has left its cluster, the callbacks |failed| and |done| of the waiter are
 * called before the function returns. Until |done| is called, |waiter| must live. @thread io */
void el_waiter_join(el_waiter *waiter, el_local_queues *queues);

/* el_waiter_leave ends the wait or the hold of |waiter|. |how| says why the waiter leaves; if that
 * is EL_LEAVE_LOST, |loss| is the reason of the loss. If the wait or the hold has already ended,
 * the function does nothing. @thread io */
void el_waiter_leave(el_waiter *waiter, el_leave how, el_loss loss);

/* el_waiter_is_holding tells whether the local queue counts |waiter| as a holder. @thread io */
bool el_waiter_is_holding(const el_waiter *waiter);

/* el_waiter_move_max_hold_end sets the timer of |waiter| again, because the time at which max_hold
 * ends its hold was changed. @thread io */
void el_waiter_move_max_hold_end(el_waiter *waiter);

/* el_waiter_downgrade tells the local queue that the write hold of |waiter| is a read hold from now
 * on. @thread io */
void el_waiter_downgrade(el_waiter *waiter);

/* el_waiter_key_gone tells the entry of |waiter| that a guarded transaction of the hold did not
 * find the key with create_revision |rev|. |detached|: the transaction found that key, but attached
 * to another lease or to none. If |waiter| does not hold, the function does nothing. @thread io */
void el_waiter_key_gone(el_waiter *waiter, int64_t rev, bool detached);

/* ---- events of the session ---- */

/* el_local_queues_leave_cluster ends everything that is in progress, because another cluster
 * answers: waits fail with |err|, holds are lost, and releases that etcd has not confirmed fail.
 * @thread io */
void el_local_queues_leave_cluster(el_local_queues *queues,
                                   const el_error *err);

/* el_local_queues_close fails all waits with |err| and ends all holds as lost (EL_LOSS_CLOSED).
 * Waiters that join later fail with |err|, too. @thread io */
void el_local_queues_close(el_local_queues *queues, const el_error *err);

/* el_local_queues_expire ends all holds, because the hold deadline has passed. @thread io */
void el_local_queues_expire(el_local_queues *queues);

/* el_local_queues_end_session removes all entries from their local queues, because the lease has
 * ended. |end| says how. Each entry lives on until its last request is answered. @thread io */
void el_local_queues_end_session(el_local_queues *queues, el_session_end end);

/* el_local_queues_add_found_key records that a lease audit found |key| attached to |lease|. If no
 * waiter wants the key, its entry deletes it. @thread io */
void el_local_queues_add_found_key(el_local_queues *queues, int64_t lease,
                                   el_bytes key);

/* el_local_queues_fail_for_lease fails all waits that need a lease, because etcd refuses to grant
 * one. @thread io */
void el_local_queues_fail_for_lease(el_local_queues *queues);

/* el_local_queues_fail_waiting fails all waits with |unreachable|, the error that says that etcd is
 * unreachable. @thread io */
void el_local_queues_fail_waiting(el_local_queues *queues,
                                  const el_error *unreachable);

/* el_local_queues_start marks all local queues as changed, because the session has a lease now. The
 * next el_local_queues_settle starts their waiters. @thread io */
void el_local_queues_start(el_local_queues *queues);

/* el_local_queues_settle starts the next waiters of each local queue that has changed, and frees
 * queues and entries that are not used any more. If waiters need a lease and the session has none,
 * the function sets |wanted| of the session. @thread io */
void el_local_queues_settle(el_local_queues *queues);

/* el_local_queues_are_settled tells whether no local queue has changed since the last
 * el_local_queues_settle. @thread io */
bool el_local_queues_are_settled(const el_local_queues *queues);

/* el_local_queue_size returns how many bytes the structs of one local queue, one entry and one
 * watch take, for benchmarks. @thread any */
size_t el_local_queue_size(void);

#endif
