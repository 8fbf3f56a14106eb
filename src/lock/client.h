/* client: one client of an etcd cluster, with its I/O thread, session and local queues. This module
 * makes these parts, passes events between them, and closes them. */
#ifndef ETCDLOCK_LOCK_CLIENT_H
#define ETCDLOCK_LOCK_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/completion.h"
#include "lock/breaker.h"
#include "lock/options.h"
#include "lock/shared.h"

/* el_client is one client. The Lua thread owns it; its parts belong to the I/O thread. */
typedef struct el_client el_client;

/* el_client_new starts the I/O thread and sends nothing yet. It returns NULL and |err| if an option
 * is wrong (invalid), a resource is missing (nomem), or this process was forked from one that had
 * used gRPC (forked). @thread lua */
el_client *el_client_new(const el_connect_options *options, el_error *err);

/* el_client_begin_close begins to release all locks, revoke the lease and stop the loop. It returns
 * at once. The loop stops when etcd has answered, or after |budget_ms|. Keys that are left then end
 * with their lease. The function may be called only once, and not in a forked child. @thread lua */
void el_client_begin_close(el_client *cl, int64_t budget_ms);

/* el_client_has_stopped tells whether the loop has ended: if so, el_client_join returns at once. It
 * must not be called after el_client_join. @thread lua */
bool el_client_has_stopped(el_client *cl);

/* el_client_shut makes all later calls fail with "closed". Call it only after
 * el_client_begin_close. @thread lua */
void el_client_shut(el_client *cl);

/* el_client_join waits until the loop has ended. Call it only after el_client_shut.
 * @thread any */
void el_client_join(el_client *cl);

/* el_client_free frees a client after el_client_join. Its el_locks may live longer. @thread any */
void el_client_free(el_client *cl);

/* el_client_shared returns the shared part of |cl|. @thread lua */
el_shared *el_client_shared(const el_client *cl);

/* el_client_breaker returns the circuit breaker of |cl|. @thread lua */
el_breaker *el_client_breaker(const el_client *cl);

/* el_client_wait_limit_ms returns the last el_request_queue_wait_limit_ms that the I/O thread has
 * published. @thread lua */
int64_t el_client_wait_limit_ms(const el_client *cl);

/* el_client_alive_ms returns for how many milliseconds the lease of the client is at least alive,
 * by the last answered keepalive; 0: there is no such lease. @thread lua */
int64_t el_client_alive_ms(const el_client *cl);

/* el_client_set_password copies |password|, which later Authenticates use. Returns false and |err|
 * if the client is closed, this process is a fork, or there is no memory. @thread lua */
bool el_client_set_password(el_client *cl, const char *password, el_error *err);

/* el_client_alarm pushes |id| to |wake| in |ms| milliseconds. |wake| must live as long as the
 * client. If |ms| is negative, the function cancels the alarm of |id| instead and ignores |wake|.
 * Returns false if the client is closed, this process is a fork, or there is no memory.
 * @thread lua */
bool el_client_alarm(el_client *cl, el_wake *wake, uint64_t id, int64_t ms);

#endif
