/* breaker: the circuit breaker of one client: whether etcd is known to be unreachable.
 *
 * The I/O thread opens the breaker when a request finds etcd unreachable, and closes it when etcd
 * answers. After 2 s it closes by itself, because only another request can find out that etcd
 * answers again.
 *
 * Callers that fail at once while etcd is unreachable send no such request. For them a probe finds
 * out that etcd answers: one read in the background, for at most 5 s. To these callers etcd is
 * unreachable until a probe is answered. */
#ifndef ETCDLOCK_LOCK_BREAKER_H
#define ETCDLOCK_LOCK_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "lock/shared.h"

/* el_breaker is the circuit breaker of one client; a mutex of its own guards it. */
typedef struct el_breaker el_breaker;

/* el_breaker_new returns a closed breaker. NULL: no memory. @thread lua */
el_breaker *el_breaker_new(el_shared *shared);

/* el_breaker_free frees the breaker; the client's I/O thread has stopped. NULL is ignored.
 * @thread any */
void el_breaker_free(el_breaker *breaker);

/* el_breaker_update records that a request found etcd unreachable at |opened_ms| (el_now_ms), with
 * |err|; 0: etcd has answered. Returns whether that is new. @thread io @locks breaker->mu */
bool el_breaker_update(el_breaker *breaker, int64_t opened_ms,
                       const el_error *err);

/* el_breaker_is_open returns whether a request found etcd unreachable within the last 2 s and etcd
 * has not answered since. |err| then says why. @thread lua @locks breaker->mu */
bool el_breaker_is_open(el_breaker *breaker, el_error *err);

/* el_breaker_must_fail returns whether a call that must fail at once while etcd is unreachable fails:
 * the breaker is open, or the last probe is not answered. |err| then says why, and a probe that
 * reads |key| is under way. @thread lua @locks breaker->mu */
bool el_breaker_must_fail(el_breaker *breaker, el_bytes key, el_error *err);

/* el_breaker_probe starts a probe that reads |key|, unless one is under way. @thread lua */
void el_breaker_probe(el_breaker *breaker, el_bytes key);

#endif
