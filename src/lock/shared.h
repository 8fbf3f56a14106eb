/* shared: the part of a client that Lua threads and the I/O thread share.
 *
 * It holds the counters and events of the client, its last errors, and what Lua threads need to
 * reach the loop. It is reference-counted, because locks and transactions keep using it after their
 * client was closed. */
#ifndef ETCDLOCK_LOCK_SHARED_H
#define ETCDLOCK_LOCK_SHARED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "base/timer.h"
#include "base/wake_queue.h"
#include "etcd/auth.h"
#include "etcd/watch.h"
#include "lock/contact.h"
#include "lock/events.h"
#include "net/loop.h"
#include "protocol/loss.h"

/* ---- counters ---- */

/* el_stats is a copy of the counters of a client. The fields have the names that they have in Lua's
 * client:stats. Except for |held| and |waiting|, they count since connect and never decrease. */
typedef struct el_stats {
  /* Requests sent to etcd, by kind. looks: reads of a queue or of the client's key in it, and those
   * that wait until etcd has elected a leader; watches: those that etcd has created; calls:
   * transactions of a caller (guarded.h), probes (breaker.h), status queries, and the transactions
   * that check whether an answer was stale. */
  int64_t enqueues, tries, looks, deletes, lease_checks;
  int64_t keepalives, grants, revokes, audits, watches, calls;
  /* Authenticates that have ended, and the milliseconds that they have taken together */
  int64_t authentications, authentication_ms;
  /* requests that left in a batch, without the first of each batch */
  int64_t batched;
  int64_t acquired; /* number of holds that were granted */
  int64_t lost;     /* number of holds that were lost, except by close */
  /* number of locks that were garbage-collected while held */
  int64_t leaked;
  /* failed transactions, grants, keepalives and lease audits; each retry counts */
  int64_t failed_attempts;
  int64_t held, waiting; /* present numbers of holds and of waiters */
} el_stats;

/* el_counters holds the counters of a client, in the order of el_stats. Any thread reads and adds.
 */
typedef struct el_counters {
  _Atomic int64_t values[sizeof(el_stats) / sizeof(int64_t)];
} el_counters;

/* el_counters_add adds |n| to the counter at |offset| in el_stats. @thread any */
void el_counters_add(el_counters *counters, size_t offset, int64_t n);

/* el_counters_read copies all counters into |stats|. @thread any */
void el_counters_read(const el_counters *counters, el_stats *stats);

/* el_seen_key is what an answer has told about another key: that of the holder of the lock, or a
 * key of the semaphore with another number of permits. */
typedef struct el_seen_key {
  int64_t seen_ms;  /* when the answer came (el_now_ms) */
  uint16_t permits; /* the other number of permits; 0: the holder's key */
  size_t len;
  char label[]; /* the value of the key, |len| bytes */
} el_seen_key;

/* EL_COUNT adds |n| to the counter |field| of el_stats. */
#define EL_COUNT(counters, field, n) \
  el_counters_add(counters, offsetof(el_stats, field), n)

/* ---- hold deadline ---- */

/* el_hold_deadline is the hold deadline of a session: the time until which its holds are proven.
 * All holds of the session share it, so one renewal prolongs them all. The I/O thread writes it,
 * any thread reads it. Reference-counted.
 *
 * A hold is valid if its lock's state is HELD and neither this deadline nor its max_hold end has
 * passed. A reader loads the deadline first and the lock's state after it. The I/O thread marks
 * lost locks first and prolongs the deadline after that. So a lost lock never looks held again. */
typedef struct el_hold_deadline el_hold_deadline;

/* el_hold_deadline_new returns a deadline that has passed, with one reference. @thread any */
el_hold_deadline *el_hold_deadline_new(void);

/* el_hold_deadline_ref adds a reference and returns |deadline|. @thread any */
el_hold_deadline *el_hold_deadline_ref(el_hold_deadline *deadline);

/* el_hold_deadline_unref drops a reference. @thread any */
void el_hold_deadline_unref(el_hold_deadline *deadline);

/* el_hold_deadline_get returns the deadline (el_now_ms) and sets |loss| to EL_LOSS_EXPIRED, the
 * reason for which a hold is lost after the deadline. After el_hold_deadline_end, until the next
 * el_hold_deadline_set, it returns 0, and in |loss| the reason that ended the holds. @thread any */
int64_t el_hold_deadline_get(const el_hold_deadline *deadline, el_loss *loss);

/* el_hold_deadline_set moves the deadline to |until_ms| (el_now_ms). @thread io */
void el_hold_deadline_set(el_hold_deadline *deadline, int64_t until_ms);

/* el_hold_deadline_end ends all holds of the session at once, for |loss|, because the lease has
 * ended before the deadline, or another cluster answers. The caller marks the locks as lost one by
 * one after that. If the deadline has passed, the function does nothing. @thread io */
void el_hold_deadline_end(el_hold_deadline *deadline, el_loss loss);

/* ---- the shared part ---- */

/* el_shared is the shared part of one client. The comments of the fields name the threads that may
 * use them. */
typedef struct el_shared {
  atomic_int refs;
  /* fork generation of the process that made the client; constant */
  unsigned fork_generation;

  /* The loop. NULL: it is not started yet, or the client is closed. The Lua thread sets and clears
   * the pointer. The thread of the wake server reads it, too, and is joined before the pointer is
   * cleared. */
  el_loop *loop;

  /* Wakes event loops; NULL until the first el_shared_wake_queue. Used by the Lua thread, and by
   * the thread that joins the client. */
  el_wake_queue *wake_queue;

  /* Used by the I/O thread only; freed when the client stops. */
  struct el_local_queues *queues;
  struct el_request_queue *requests;
  el_auth *auth;
  el_watches *watches;
  el_timers *timers;
  /* the option: calls fail at once while etcd is unreachable */
  bool fail_fast;
  /* the error of calls after close; code EL_OK: the client is open */
  el_error closed;
  /* guarded transactions that wait for their turn or their next attempt */
  TAILQ_HEAD(, el_guarded) resting;
  /* the watchers that are started and not stopped */
  TAILQ_HEAD(, el_watcher) watchers;

  /* The next four fields are written by the I/O thread and read by any thread. Times are
   * el_now_ms. */
  /* ID of the lease; 0: the client has none that is alive */
  _Atomic int64_t lease;
  /* until when the lease is at least alive, by the last answered keepalive; 0: no lease */
  _Atomic int64_t alive_until_ms;
  /* when the timer of the session is due; 0: never */
  _Atomic int64_t due_ms;
  /* el_request_queue_wait_limit_ms, a duration */
  _Atomic int64_t wait_limit_ms;
  el_counters counters;

  /* guards the next three fields; no other mutex is locked under it */
  pthread_mutex_t mu;
  /* The error that keeps the session from proving its lease; code EL_OK: none. */
  el_error proof_error;
  /* why a hold deadline last passed */
  el_error last_proof_error;
  int64_t expired_ms; /* when last_proof_error was set; 0: never */

  el_contact contact; /* see the struct for the threads that use it */
  el_events events;   /* has a mutex of its own; used by any thread */
} el_shared;

/* el_shared_new returns the shared part of a client that is not started, with one reference.
 * NULL: no memory. @thread lua */
el_shared *el_shared_new(void);

/* el_shared_ref adds a reference and returns |shared|. @thread any */
el_shared *el_shared_ref(el_shared *shared);

/* el_shared_unref drops a reference. @thread any */
void el_shared_unref(el_shared *shared);

/* el_shared_is_forked tells whether this process is a fork of the one that made the client.
 * @thread any */
bool el_shared_is_forked(const el_shared *shared);

/* el_shared_is_usable tells whether this process can use the client. If not, the code of |err| is
 * "closed" or "forked". @thread lua */
bool el_shared_is_usable(const el_shared *shared, el_error *err);

/* el_shared_stood_still tells whether the timer of the session has not run for a second or more
 * after it was due, because the process or the machine did not run. |err| then says for how long.
 * @thread any */
bool el_shared_stood_still(const el_shared *shared, el_error *err);

/* el_shared_wait waits up to |timeout_ms| until |event| of |completion| is set. Returns whether it
 * is. See el_loop_wait. @thread lua */
bool el_shared_wait(el_shared *shared, el_completion *completion,
                    unsigned event, int64_t timeout_ms);

/* el_shared_post passes |command| to the loop. If no thread is at work in the loop, it may run
 * |command| in the calling thread (el_loop_run_command). Returns false if the client is closed or
 * another process made it. @thread any */
bool el_shared_post(el_shared *shared, el_command *command);

/* el_shared_wake_queue returns the queue that wakes event loops. It lives as long as |shared|; its
 * descriptor closes with the client. The function returns NULL and |err| if no descriptor or memory
 * is free, if the client was closed before the first call, or if this process is a fork.
 * @thread lua */
el_wake_queue *el_shared_wake_queue(el_shared *shared, el_error *err);

/* ---- last errors ---- */

/* el_shared_set_proof_error records |err|, which keeps the session from proving its lease.
 * @thread io @locks shared->mu */
void el_shared_set_proof_error(el_shared *shared, const el_error *err);

/* el_shared_clear_proof_error records that a proof succeeded. @thread io @locks shared->mu */
void el_shared_clear_proof_error(el_shared *shared);

/* el_shared_keep_proof_error records that a hold deadline has passed, because of the present proof
 * error, or because of |otherwise| if there is none. @thread io @locks shared->mu */
void el_shared_keep_proof_error(el_shared *shared, const el_error *otherwise);

/* el_shared_read_proof_error copies the proof error because of which a hold deadline last passed.
 * If none has passed yet, or the I/O thread has not yet recorded that one passed at |ended_ms| (0:
 * none did), it copies the present proof error. @thread any @locks shared->mu */
void el_shared_read_proof_error(el_shared *shared, int64_t ended_ms,
                                el_error *err);

#endif
