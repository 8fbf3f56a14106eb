/* leader: which thread runs a loop (the leader/followers pattern).
 *
 * That is the I/O thread, unless a Lua thread blocks until something has come of what
 * it asked for: it would have to wake the I/O thread with its question and be woken
 * with the answer, and runs the loop itself instead. When it has its answer it leaves
 * the loop to nobody: who asks again and again comes back at once. The I/O thread
 * takes over if he doesn't. Who leads may do all that "@thread io" may.
 */
#ifndef ETCDLOCK_NET_LEADER_H
#define ETCDLOCK_NET_LEADER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/completion.h"

typedef struct el_leader {
  pthread_mutex_t mu; /* guards the rest; only a completion is asked under it */
  pthread_cond_t left;
  enum {
    EL_LEADER_THREAD, /* the I/O thread */
    EL_LEADER_WAITER,
    EL_LEADER_NOBODY
  } who;
  int64_t since_ms; /* not the I/O thread: since when he leads, or nobody */
  bool was_left;    /* since the I/O thread took it last */
  bool sleeps;      /* the I/O thread, until who leads leaves */
  /* What is waited for while the I/O thread leads; NULL: nothing. */
  el_completion *awaited;
  unsigned event;
} el_leader;

/* The I/O thread leads. @thread lua */
void el_leader_init(el_leader *leader);

/* @thread io */
void el_leader_destroy(el_leader *leader);

/* The I/O thread: returns when it leads. Did it leave in between?
 * @thread io @locks leader->mu */
bool el_leader_take(el_leader *leader);

/* The I/O thread, between two events: leaves if who waits has his answer, and will
 * come back, perhaps. @thread io @locks leader->mu */
void el_leader_step_aside(el_leader *leader);

/* For who waits for |event|: true if he leads from now on; else the I/O thread does,
 * and steps aside when |event| has come. @thread lua @locks leader->mu */
bool el_leader_try(el_leader *leader, el_completion *awaited, unsigned event);

/* He waits no more; |leads| is what try said. @thread lua @locks leader->mu */
void el_leader_leave(el_leader *leader, bool leads);

/* Does a thread lead that waits for something? @thread any @locks leader->mu */
bool el_leader_is_waiter(el_leader *leader);

/* Is there anybody to be told that something was posted? If not, then whoever leads
 * next looks. @thread any @locks leader->mu */
bool el_leader_is_there(el_leader *leader);

/* Nobody will come back: the I/O thread leads on. @thread lua @locks leader->mu */
void el_leader_recall(el_leader *leader);

#endif
