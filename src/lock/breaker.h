/* breaker: the circuit breaker of one client: whether etcd is known to be unreachable.
 *
 * The breaker opens when a request finds etcd unreachable, and closes when etcd answers. It closes
 * by itself EL_FAIL_FAST_MS after the last such request, because only another request can find out
 * that etcd answers again.
 *
 * A caller that fails at once while etcd is unreachable sends no request. Instead, the client sends
 * a probe: one read that no caller waits for, with a timeout of EL_CALL_MS. Such callers fail until
 * a probe is answered. */
#ifndef ETCDLOCK_LOCK_BREAKER_H
#define ETCDLOCK_LOCK_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "lock/shared.h"

/* el_breaker is the circuit breaker of one client. Only the Lua thread uses it; any thread may free
 * it. */
typedef struct el_breaker el_breaker;

/* el_breaker_new returns a closed breaker. NULL: there is no memory. @thread lua */
el_breaker *el_breaker_new(el_shared *shared);

/* el_breaker_free frees |breaker|; NULL does nothing. @thread any */
void el_breaker_free(el_breaker *breaker);

/* el_breaker_is_open returns whether a request found etcd unreachable within the last
 * EL_FAIL_FAST_MS and etcd has not answered since. |err| then says why. @thread lua */
bool el_breaker_is_open(const el_breaker *breaker, el_error *err);

/* el_breaker_must_fail returns whether a call that fails at once while etcd is unreachable must
 * fail now. It must while the last probe is unanswered, or while the breaker is open. Then the
 * function fills |err|, and sends a probe of |key| unless one is under way. The first call after
 * the answer to a probe need not fail. @thread lua */
bool el_breaker_must_fail(el_breaker *breaker, el_bytes key, el_error *err);

/* el_breaker_probe starts a probe that reads |key|, unless one is under way. @thread lua */
void el_breaker_probe(el_breaker *breaker, el_bytes key);

#endif
