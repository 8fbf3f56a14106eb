/* L3 retry: when a request that failed is sent again. */
#ifndef ETCDLOCK_RETRY_H
#define ETCDLOCK_RETRY_H

#include <stdbool.h>
#include <stdint.h>

/* How a request failed; the words are those of el_error. */
typedef struct el_outcome {
  bool definite, retriable, elsewhere;
  int64_t sent_ms;
} el_outcome;

/* When to repeat, at |now_ms|, what |failed| for the |n|-th time in a row (from
 * 1). The wait grows, and counts from the sending: what was long in failing is
 * repeated at once, and so is what another member may answer. What was refused
 * for a reason that somebody must mend waits longest. @thread any */
int64_t el_retry_at(const el_outcome *failed, int64_t now_ms, int n);

#endif
