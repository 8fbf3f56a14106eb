/* local_queue: the waiters of one client for one lock. It decides which of them holds the lock and
 * which is next, keeps their entries in etcd's queue, and reports to them. I/O thread only.
 *
 * A client has one local queue for each combination of name, mode and number of permits. Each
 * multi-lock has a local queue of its own. Here, a candidate is a multi-lock with one name. Waiters
 * (waiter.h) wait in the order in which they joined. The first ones get an entry (entry.h), which
 * is the client's key in etcd's queue. They hold the lock when their entry does.
 *
 * - A plain lock, a write lock and a multi-lock have one entry. A write lock has one more for each
 *   holder that was downgraded. A semaphore has up to as many entries as permits. While keys are
 *   being deleted, there may be more entries (may_start in local_queue.c).
 * - Handoff: a waiter that ends its hold passes its key to the next one. This saves two writes to
 *   etcd, but other clients that queue behind the key wait longer. So the handoff budget limits the
 *   holds by one key, and the time from the grant by etcd until the last of them begins. (Cohort
 *   locks, Dice et al. 2012, limit the number, too.)
 * - Sharing: several readers hold by one key, within the same budget. When it is spent, the next
 *   reader gets a key of its own, unless it is |is_share_only| (waiter.h).
 * - Linger: after the last unlock the entry may keep its key for a while, without a waiter. The
 *   next waiter that joins gets the key, as in a handoff, but with a new handoff budget. The key is
 *   deleted when its time is over, or when a contender comes. A contender is a key of another
 *   client that waits behind this key, or a waiter that joins a conflicting local queue of this
 *   client.
 *
 * Measured (make cost): lock and unlock send two requests. With handoff they send none and cost
 * half the instructions, with linger less than a third. If many owners wait, the default handoff
 * budget, 32 holds in 50 ms, leaves 0.093 requests per hold; a budget that also grew while no other
 * client waited left 0.084.
 *
 * A waiter that joins, or an entry that becomes free, starts no waiter, but marks its queue as
 * changed. el_local_queues_serve then starts the next waiters. Each function here changes its lists
 * before it calls an entry or a waiter, because an entry may report during the call. */
#ifndef ETCDLOCK_LOCK_LOCAL_QUEUE_H
#define ETCDLOCK_LOCK_LOCAL_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "lock/session.h"
#include "lock/waiter.h"

/* el_handoff_limits is the handoff budget of one key. */
typedef struct el_handoff_limits {
  int32_t holds; /* below 2: no handoff */
  int64_t ms;    /* milliseconds after the grant; no further hold begins then */
} el_handoff_limits;

/* el_local_queues is the set of all local queues of one client. */
typedef struct el_local_queues el_local_queues;

/* el_leave is how a waiter leaves its queue. */
typedef enum el_leave {
  EL_LEAVE_VOLUNTARY, /* it unlocks, or gives up its wait */
  /* its hold ends because its nginx request has ended, or because Lua has collected its handle: the
   * key is neither handed off nor lingers */
  EL_LEAVE_ABANDONED,
  EL_LEAVE_LOST /* its hold is lost */
} el_leave;

/* ---- life ---- */

/* el_local_queues_new returns an empty set of local queues. The entries of the queues belong to
 * |session|, which must outlive the set. |limits| is the handoff budget. @thread io */
el_local_queues *el_local_queues_new(el_session *session,
                                     const el_handoff_limits *limits);

/* el_local_queues_free frees |queues| with all its local queues and entries. A release that etcd
 * has not confirmed is reported to its waiter as unconfirmed. @thread io */
void el_local_queues_free(el_local_queues *queues);

/* ---- waiters ---- */

/* el_waiter_join adds |waiter| to the local queue for its lock name, mode and number of permits. If
 * the client is closed or has left its cluster, or |waiter| is a try that would wait for another
 * waiter of that queue, its callbacks |failed| and |done| are called before the function returns.
 * Until |done| is called, |waiter| must live. @thread io */
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
 * find the key with create_revision |rev|. |is_detached|: the transaction found that key, but
 * attached to another lease or to none. If |waiter| does not hold, the function does nothing.
 * @thread io */
void el_waiter_key_gone(el_waiter *waiter, int64_t rev, bool is_detached);

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
 * unreachable or too slow. @thread io */
void el_local_queues_fail_waiting(el_local_queues *queues,
                                  const el_error *unreachable);

/* el_local_queues_mark_changed marks all local queues as changed, for example because the session
 * has a lease now. @thread io */
void el_local_queues_mark_changed(el_local_queues *queues);

/* el_local_queues_serve starts the next waiters of each local queue that has changed, and frees
 * queues and entries that are not used any more. If waiters need a lease and the session has none,
 * the function sets |wanted| of the session. @thread io */
void el_local_queues_serve(el_local_queues *queues);

/* el_local_queues_are_served tells whether no local queue has changed since the last
 * el_local_queues_serve. @thread io */
bool el_local_queues_are_served(const el_local_queues *queues);

/* el_local_queue_size returns how many bytes the structs of one local queue, one entry and one
 * watch take, for benchmarks. @thread any */
size_t el_local_queue_size(void);

#endif
