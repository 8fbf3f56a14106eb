/* waiter: one acquisition of a lock, as the local queue sees it while it waits and while it holds.
 *
 *   WAITING -> ENQUEUED -> HOLDING -> RELEASING -> OUT
 *      |          |           |
 *      |          |           +-> OUT: lost, or the key was handed off, shared or lingers
 *      +----------+-> OUT: failed
 *                 +-> WAITING: the lease has ended
 *
 * An el_lock embeds its el_waiter. The local queues are below lock.h and may not include it, so
 * they report to the el_lock by function pointers. */
#ifndef ETCDLOCK_LOCK_WAITER_H
#define ETCDLOCK_LOCK_WAITER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/timer.h"
#include "lock/shared.h"
#include "protocol/key.h"
#include "protocol/loss.h"

typedef struct el_waiter el_waiter;

TAILQ_HEAD(el_waiter_list, el_waiter);

/* el_grant describes a new hold; the argument of |granted|, valid during that call only. */
typedef struct el_grant {
  int64_t token;    /* create_revision of the key */
  int64_t held_rev; /* a revision at which the key held the lock */
  int64_t mod_rev;  /* where the write order begins (el_write_order_init) */
  const el_keys *keys;
  el_hold_deadline *deadline; /* the hold deadline of the key's session */
} el_grant;

/* el_waiter_events holds the functions that the local queue calls, on the I/O thread. They must not
 * call the local queue. */
typedef struct el_waiter_events {
  void (*granted)(el_waiter *waiter, const el_grant *grant);
  void (*failed)(el_waiter *waiter, const el_error *err);
  void (*lost)(el_waiter *waiter, el_loss loss);
  /* The release is over. EL_OK: the key is deleted, or stays because it was handed off, is shared
   * or lingers. EL_LOST: the hold was lost, the key was gone before, or another cluster answers.
   * Any other code: the delete was refused or is not confirmed. */
  void (*released)(el_waiter *waiter, const el_error *err);
  /* called last; the queue does not use the waiter after that */
  void (*done)(el_waiter *waiter);
  /* Returns when max_hold ends the hold (el_now_ms); INT64_MAX: never. */
  int64_t (*max_hold_end)(const el_waiter *waiter);
  /* Returns the mod_rev with which the write order of the next hold begins if the key is handed off
   * or lingers (write_order.h). -1: the key must do neither. */
  int64_t (*mod_rev)(const el_waiter *waiter);
  /* The lease has ended while the waiter had a key in etcd's queue. The waiter waits again, at the
   * end of that queue. */
  void (*requeued)(el_waiter *waiter);
  /* An answer has shown |key|. */
  void (*saw_key)(el_waiter *waiter, const el_seen_key *key);
} el_waiter_events;

/* el_waiter is one acquisition of a lock; embedded in el_lock. The fields up to |is_share_only| are
 * set before el_waiter_join; the others are zero. After that only the I/O thread changes them. */
struct el_waiter {
  const el_waiter_events *events;
  el_bytes name; /* owned; EL_MODE_MULTI: the names, separated by NUL */
  /* owned; the value that an enqueue or a try puts; freed at the grant */
  el_bytes value;
  /* the caller's limit of the wait, for messages; if there is none, a limit until etcd has first
   * answered, which on_deadline raises */
  int64_t timeout_ms;
  int64_t deadline_ms; /* when the wait ends (el_now_ms); INT64_MAX: never */
  /* milliseconds for which the key stays after the unlock; 0: it is deleted at once */
  int32_t linger_ms;
  uint16_t permits;  /* EL_MODE_PERMIT: size of the semaphore */
  uint8_t mode;      /* el_mode */
  bool try_once : 1; /* fail instead of waiting */
  /* a reader that must not wait behind a writer, because that would deadlock: it only takes a lock
   * that is free, or shares a read hold of this client */
  bool is_share_only : 1;

  /* The local queue sets the fields below. */

  /* the waiter has to wait for another waiter, or its entry has waited */
  bool has_waited : 1;
  enum {
    EL_WAITER_OUT,      /* in no queue */
    EL_WAITER_WAITING,  /* waits for an entry */
    EL_WAITER_ENQUEUED, /* has an entry that is not granted yet */
    EL_WAITER_HOLDING,
    EL_WAITER_RELEASING /* the key of its entry is being deleted */
  } state : 8;
  /* WAITING, ENQUEUED, HOLDING: the queue; else it may be gone */
  struct el_local_queue *queue;
  struct el_local_entry *entry; /* ENQUEUED, HOLDING, RELEASING; else NULL */
  /* due at the deadline of the wait; during the hold, at the end of max_hold */
  el_timer timer;
  TAILQ_ENTRY(el_waiter) link;
};

#endif
