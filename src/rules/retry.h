/* retry: when a request that failed is sent again. */
#ifndef ETCDLOCK_RULES_RETRY_H
#define ETCDLOCK_RULES_RETRY_H

#include <stdint.h>

#include "base/error.h"

/* When to repeat, at |now_ms|, what |failed| for the |n|-th time in a row (from
 * 1). The wait grows, and counts from the sending: what was long in failing is
 * repeated at once, and so is what another member may answer. What was refused
 * for a reason that somebody must mend waits longest. |salt|, different for all
 * who may fail at once, keeps them from coming back at once. @thread any */
int64_t el_retry_at(const el_outcome *failed, int64_t now_ms, int n,
                    uint64_t salt);

/* The same of one more of |*failures| in a row, which counts it: not if another
 * member is asked now. @thread any */
int64_t el_retry_next(const el_outcome *failed, int64_t now_ms,
                      uint8_t *failures, uint64_t salt);

#endif
