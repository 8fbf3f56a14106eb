/* guarded_int: what guarded.c and guarded_build.c share. */
#ifndef ETCDLOCK_LOCK_GUARDED_INT_H
#define ETCDLOCK_LOCK_GUARDED_INT_H

#include <stdatomic.h>

#include "base/completion.h"
#include "lock/guarded.h"

enum { EL_GUARDED_ANSWERED = 1 }; /* its one event */

struct el_guarded {
  atomic_int refs;
  el_handle *handle;
  el_guarded_world *world;
  el_lock *lk; /* guarded by this lock's token; NULL: by ... */
  el_compare
      guards[2]; /* ... a key of somebody else's and its lease, if it has one */
  el_op *ops;
  size_t n_ops;
  bool writes;
  bool downgrades;
  bool proclaims;      /* it writes our key */
  atomic_bool dropped; /* nobody waits for the answer */
  int64_t deadline_ms;
  uint8_t failures; /* in a row */
  el_request request;
  bool queued;   /* behind another write of the same hold, ... */
  bool has_turn; /* ... or the one that others wait for */
  bool sent;     /* the request has a reference of its own */
  bool finished; /* its answer comes too late */
  bool detached; /* a key of |lk| was found off its lease */
  el_command command;
  el_timer
      timer; /* until the next attempt, in world->resting meanwhile; or, while
                     the request is on its way, until the deadline */
  TAILQ_ENTRY(el_guarded) order_link;
  TAILQ_ENTRY(el_guarded) link;
  el_completion news;
  el_txn_answer *answer;
};

/* Gives back a reference. @thread any */
void el_guarded_unref(el_guarded *guarded);

#endif
