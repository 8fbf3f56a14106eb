/* L0 waiter: a one-shot signal from one thread to another.
 *
 * What was written before el_waiter_complete may be read by whoever
 * has seen the waiter done: the mutex orders the two.
 */
#ifndef ETCDLOCK_WAITER_H
#define ETCDLOCK_WAITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "wake.h"

struct el_arm;

typedef struct el_waiter {
  pthread_mutex_t mu; /* guards the rest; only a wake is pushed under it */
  pthread_cond_t cond;
  bool done;
  struct el_arm *arms; /* who is told of the end, an array */
  size_t n_arms;
} el_waiter;

/* @thread any */
void el_waiter_init(el_waiter *w);

/* Nobody may be waiting. @thread any */
void el_waiter_destroy(el_waiter *w);

/* Marks |w| done and wakes whoever waits; harmless when repeated.
 * @thread any */
void el_waiter_complete(el_waiter *w);

/* Has |id| pushed to |wake|, too, when |w| is done. False, and nothing will
 * come, if it is done already. |wake| must outlive |w|.
 * @thread any @locks w->mu */
bool el_waiter_arm(el_waiter *w, el_wake *wake, uint64_t id);

/* Takes back what was armed with |id|. @thread any @locks w->mu */
void el_waiter_disarm(el_waiter *w, uint64_t id);

/* True as soon as |w| is done, false after |timeout_ms| milliseconds; 0 only
 * asks. Signals don't end the wait, so callers that want Ctrl-C to work wait
 * in slices. @thread any */
bool el_waiter_wait(el_waiter *w, int64_t timeout_ms);

#endif
