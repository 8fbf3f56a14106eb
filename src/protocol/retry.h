/* retry: the backoff before a failed request is sent again. */
#ifndef ETCDLOCK_PROTOCOL_RETRY_H
#define ETCDLOCK_PROTOCOL_RETRY_H

#include <stdint.h>

#include "base/error.h"

/* el_retry_at returns the time (el_now_ms) at which to repeat a request that has failed |n| times
 * in a row. |failed| is the last outcome, seen at |now_ms|. |salt| differs between requests that
 * may fail at the same time, so that their retries are spread.
 * - The backoff grows with |n|, and counts from the time at which the request was sent. So a
 *   request that took long to fail is repeated after only 10 ms.
 * - If another member can answer the request, it is also repeated after 10 ms.
 * - After a final outcome (el_outcome_is_final) the backoff is the longest, because an operator has
 *   to act before a repeat can succeed.
 *
 * @thread any */
int64_t el_retry_at(const el_outcome *failed, int64_t now_ms, int n,
                    uint64_t salt);

/* el_retry_next counts the failure in |*failures|, the number of failures in a row, and returns the
 * result of el_retry_at for that number. If another member can answer, it does not count the
 * failure. @thread any */
int64_t el_retry_next(const el_outcome *failed, int64_t now_ms,
                      uint8_t *failures, uint64_t salt);

#endif
