/* completion: what has become of something, from one thread to others: events
 * that come once each, unless they are cleared.
 *
 * What was written before el_completion_complete may be read by whoever has seen
 * the event: the mutex orders the two.
 */
#ifndef ETCDLOCK_BASE_COMPLETION_H
#define ETCDLOCK_BASE_COMPLETION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/wake.h"

struct el_arm;

typedef struct el_completion {
  pthread_mutex_t mu; /* guards the rest; only a wake is pushed under it */
  pthread_cond_t cond;
  unsigned events; /* bits: those that have come */
  unsigned n_arms;
  struct el_arm *arms; /* who is told of one, an array */
} el_completion;

/* @thread any */
void el_completion_init(el_completion *completion);

/* Nobody may be waiting. @thread any */
void el_completion_destroy(el_completion *completion);

/* The |events| (bits of the caller's choice) have come: wakes whoever waits for
 * one of them. Harmless when repeated. @thread any @locks completion->mu */
void el_completion_complete(el_completion *completion, unsigned events);

/* As if |events| had not come. @thread any @locks completion->mu */
void el_completion_clear(el_completion *completion, unsigned events);

/* Has |id| pushed to |wake|, too, when |event| comes. False, and nothing will
 * come, if it is there already. |wake| must live for as long as an
 * event may come.
 * @thread any @locks completion->mu */
bool el_completion_arm(el_completion *completion, unsigned event, el_wake *wake,
                       uint64_t id);

/* Takes back what was armed with |event| and |id|.
 * @thread any @locks completion->mu */
void el_completion_disarm(el_completion *completion, unsigned event,
                          uint64_t id);

/* Is |event| there? @thread any @locks completion->mu */
bool el_completion_has(el_completion *completion, unsigned event);

/* True as soon as |event| is there, false after |timeout_ms| milliseconds; 0
 * only asks. Signals don't end the wait, so callers that want Ctrl-C to work
 * wait in slices. @thread any @locks completion->mu */
bool el_completion_wait(el_completion *completion, unsigned event,
                        int64_t timeout_ms);

#endif
