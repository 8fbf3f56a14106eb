/* lock_int: what the parts of lock share. They stand in their order: each calls only those
 * above it. */
#ifndef ETCDLOCK_LOCK_LOCK_INT_H
#define ETCDLOCK_LOCK_LOCK_INT_H

#include <stdatomic.h>

#include "base/completion.h"
#include "lock/lock.h"

struct el_lock {
  atomic_int refs;
  atomic_int state; /* el_hold, EL_HOLD_LOST + el_loss: any thread */
  el_handle *handle;

  union { /* a held lock has no byte to spare */
    /* Set before the I/O thread hears of it, and read until it is held. */
    int64_t max_hold_ms;
    /* From then on; 0: nobody reads of it. Any thread. */
    _Atomic int64_t held_since_us;
  };

  /* Written by the I/O thread before DECIDED. */
  el_error *err; /* NULL: held */
  int64_t token;
  el_keys keys;
  el_claim *claim;

  bool leads;                /* as el_lock_options; constant */
  atomic_bool is_downgraded; /* a note says that it is a reader's */
  atomic_bool stop_posted, expire_posted;

  int32_t lock_delay_ms; /* set as max_hold_ms is */

  /* Written by the I/O thread before RELEASED. */
  el_error *release_err; /* NULL: the key is out */

  el_completion news;            /* el_lock_news */
  _Atomic int64_t hold_until_us; /* INT64_MAX: no max_hold; any thread */
  el_command command;            /* to start, and from then on, to expire */
  el_command stop_command;

  /* The I/O thread's own. */
  el_owner owner;
  el_writes writes;
};

/* ---- lock_life.c ---- */

/* Posts |command| with a reference of its own; false: the client is closed.
 * @thread any */
bool el_lock_post(el_lock *lk, el_command *command);

/* ---- hold.c ---- */

/* It is held from now on, for |max_hold_ms| at most (0: no limit). @thread any */
void el_lock_note_begin(el_lock *lk, int64_t max_hold_ms);

/* Why its hold is over by now, whatever else has happened to it, EL_LOSS_NONE while it
 * isn't; in |left_us| for how long it isn't. @thread any */
el_loss el_lock_clock_loss(const el_lock *lk, int64_t *left_us);

/* Its hold is lost, or ended by its client, and that is noted with it and counted. False if it isn't
 * held. @thread any */
bool el_lock_lose(el_lock *lk, el_loss loss);

#endif
