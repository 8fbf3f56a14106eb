/* retry: the backoff before a failed request is sent again. */
#ifndef ETCDLOCK_PROTOCOL_RETRY_H
#define ETCDLOCK_PROTOCOL_RETRY_H

#include <stdint.h>

#include "base/error.h"

/* el_retry_at returns when (el_now_ms) to repeat a request that has |failed| |n| times in a row
 * (from 1), seen at |now_ms|. The backoff grows with |n| and counts from the sending: a request
 * that took long to fail is repeated at once, as is one that another member may answer. An outcome
 * that is final (el_outcome_is_final) has the longest backoff, because an operator has to act
 * first. |salt| differs between requests that may fail at the same time, so that their retries are
 * spread. @thread any */
int64_t el_retry_at(const el_outcome *failed, int64_t now_ms, int n,
                    uint64_t salt);

/* el_retry_next adds one to |*failures|, the number of failures in a row, and returns the result of
 * el_retry_at for it. It adds nothing if another member is asked next. @thread any */
int64_t el_retry_next(const el_outcome *failed, int64_t now_ms,
                      uint8_t *failures, uint64_t salt);

#endif
