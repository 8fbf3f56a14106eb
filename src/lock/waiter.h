/* waiter: one acquisition of a lock, as the local queue sees it while it waits and while it holds.
 *
 * el_waiter is not declared in lock.h because the local queues (local_queue_driver.h) are below
 * lock.h and may not include it. An el_lock embeds its el_waiter, and the local queue reports to
 * the el_lock by function pointers. */
#ifndef ETCDLOCK_LOCK_WAITER_H
#define ETCDLOCK_LOCK_WAITER_H

#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/timer.h"
#include "lock/local_queue.h"
#include "lock/shared.h"
#include "protocol/key.h"

typedef struct el_waiter el_waiter;

/* el_grant describes a new hold; the argument of |granted|, valid during that call only. */
typedef struct el_grant {
  int64_t token;    /* create_revision of the key */
  int64_t held_rev; /* a revision at which the key held the lock */
  int64_t mod_rev;  /* where the write order begins (el_write_order_init) */
  const el_keys *keys;
  el_hold_deadline *deadline; /* the hold deadline of the key's session */
} el_grant;

/* el_waiter_events holds the functions that the local queue calls, on the I/O thread. */
typedef struct el_waiter_events {
  void (*granted)(el_waiter *waiter, const el_grant *grant);
  void (*failed)(el_waiter *waiter, const el_error *err);
  void (*lost)(el_waiter *waiter, el_loss loss);
  /* The release is over. EL_OK: the key is deleted, or stays because it was handed off, is shared
   * or lingers. EL_LOST: the key was gone before. Any other code: the delete was refused or is not
   * confirmed. */
  void (*released)(el_waiter *waiter, const el_error *err);
  /* called last; the queue does not use the waiter after that */
  void (*done)(el_waiter *waiter);
  /* Returns when max_hold ends the hold (el_now_ms); INT64_MAX: never. */
  int64_t (*max_hold_end)(const el_waiter *waiter);
  /* Returns the mod_rev with which the write order of the next hold begins if the key is handed off
   * (write_order.h). -1: the key must not be handed off. */
  int64_t (*mod_rev)(const el_waiter *waiter);
  /* A read has returned |holder|. */
  void (*saw_holder)(el_waiter *waiter, const el_holder *holder);
  /* An answer shows a key of the semaphore with another number of permits. */
  void (*saw_other_permits)(el_waiter *waiter, const el_holder *other);
} el_waiter_events;

/* el_waiter is one acquisition of a lock; embedded in el_lock. The fields up to |permits| are set
 * before el_waiter_join. After that only the I/O thread changes the fields. */
struct el_waiter {
  /* the waiter as local_queue.h sees it, with the options of the wait */
  el_acquisition local;
  const el_waiter_events *events;
  el_bytes name; /* owned; EL_MODE_MULTI: the names, separated by NUL */
  /* owned; the value that the enqueue puts; freed at the grant */
  el_bytes value;
  /* for messages: the caller's limit of the wait; if there is none, the limit until etcd is first
   * reached */
  int64_t timeout_ms;
  int64_t deadline_ms; /* when the wait ends (el_now_ms); INT64_MAX: never */
  uint8_t mode;        /* el_mode */
  uint16_t permits;    /* EL_MODE_PERMIT: size of the semaphore */

  /* Used by the local queue only. */
  struct el_queue_driver *queue; /* NULL until the waiter joins one */
  /* due at the deadline of the wait; during the hold, at the end of max_hold */
  el_timer timer;
};

#endif
