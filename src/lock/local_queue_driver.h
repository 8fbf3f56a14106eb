/* local_queue_driver: the local queues of one client, with their entries, sessions and timers.
 *
 * protocol/local_queue.h decides which waiter holds and which is next. The driver carries out its
 * actions: events of entries, watches, timers, and reports to waiters. A waiter is one acquisition
 * (lock/waiter.h), while it waits and while it holds. I/O thread only. */
#ifndef ETCDLOCK_LOCK_LOCAL_QUEUE_DRIVER_H
#define ETCDLOCK_LOCK_LOCAL_QUEUE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "lock/entry_driver.h"
#include "lock/session_driver.h"
#include "lock/waiter.h"

enum {
  /* If etcd was never reached, a wait without a timeout fails after this, because the address may
   * be wrong. */
  EL_FIRST_CONTACT_MS = 5000
};

/* el_local_queues is the set of all local queues of one client. */
typedef struct el_local_queues el_local_queues;

/* el_local_queues_new returns an empty set of local queues. |limits| is the handoff budget.
 * @thread io */
el_local_queues *el_local_queues_new(el_sessions *sessions,
                                     const el_handoff_limits *limits);

/* el_local_queues_free frees |queues| with everything in it. @thread io */
void el_local_queues_free(el_local_queues *queues);

/* ---- waiters ---- */

/* el_waiter_join adds |waiter| to the local queue of its name, where it stays until its last
 * callback. After a crash of this client the next grant comes |lock_delay_ms| later. @thread io */
void el_waiter_join(el_waiter *waiter, el_local_queues *queues,
                    int64_t lock_delay_ms);

/* el_waiter_leave ends the wait or the hold of |waiter|, for |loss| if the hold is lost. Harmless
 * after its end. @thread io */
void el_waiter_leave(el_waiter *waiter, el_leave how, el_loss loss);

/* el_waiter_is_holding tells whether |waiter| holds. @thread io */
bool el_waiter_is_holding(const el_waiter *waiter);

/* el_waiter_move_max_hold_end follows a change of the time at which max_hold ends the hold.
 * @thread io */
void el_waiter_move_max_hold_end(el_waiter *waiter);

/* el_waiter_downgrade makes the write hold of |waiter| a read hold. @thread io */
void el_waiter_downgrade(el_waiter *waiter);

/* el_waiter_key_gone tells that another request of |waiter| did not find its key of |rev|, or found
 * it |detached| from the lease. @thread io */
void el_waiter_key_gone(el_waiter *waiter, int64_t rev, bool detached);

/* ---- events of sessions ---- */

/* el_local_queues_leave_cluster ends all waits and holds, and releases that are not confirmed yet,
 * because another cluster answers. |err| says which. @thread io */
void el_local_queues_leave_cluster(el_local_queues *queues,
                                   const el_error *err);

/* el_local_queues_close fails all waits with |err|, also those that join later; holds are lost.
 * @thread io */
void el_local_queues_close(el_local_queues *queues, const el_error *err);

/* el_local_queues_expire ends the holds of |session|: its hold deadline has passed. @thread io */
void el_local_queues_expire(el_local_queues *queues,
                            const el_client_session *session);

/* el_local_queues_end_session separates the entries of |session|, whose lease has ended, from their
 * queues. @thread io */
void el_local_queues_end_session(el_local_queues *queues,
                                 const el_client_session *session,
                                 el_session_end end);

/* el_local_queues_add_found_key tells that an audit found |key| on |lease|. If no waiter wants the
 * key, it is deleted. @thread io */
void el_local_queues_add_found_key(el_local_queues *queues, int64_t lease,
                                   el_bytes key);

/* el_local_queues_fail_for_lease fails with |err| the waits for a lease of |session|: etcd grants
 * none. @thread io */
void el_local_queues_fail_for_lease(el_local_queues *queues,
                                    const el_client_session *session,
                                    const el_error *err);

/* el_local_queues_fail_waiting fails all waits with |unreachable|. @thread io */
void el_local_queues_fail_waiting(el_local_queues *queues,
                                  const el_error *unreachable);

/* el_local_queues_start starts the waiters of |session|, which has a lease now. @thread io */
void el_local_queues_start(el_local_queues *queues,
                           const el_client_session *session);

/* el_local_queues_settle lets the next waiters of each changed queue go on, and frees what is not
 * used any more. If a session's lease is needed, it sets |wanted| of the session. @thread io */
void el_local_queues_settle(el_local_queues *queues);

/* el_local_queues_are_settled tells whether no queue has changed since. @thread io */
bool el_local_queues_are_settled(const el_local_queues *queues);

/* el_local_queue_size returns the bytes of the structs of one name, with its watch, for benchmarks.
 * @thread any */
size_t el_local_queue_size(void);

#endif
