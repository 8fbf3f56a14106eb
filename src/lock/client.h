/* client: one connection to one etcd cluster, with its I/O thread, its session
 * and its locks: assembles the parts, carries news between them, and closes
 * them.
 */
#ifndef ETCDLOCK_LOCK_CLIENT_H
#define ETCDLOCK_LOCK_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "lock/guarded.h"
#include "lock/handle.h"
#include "lock/lock.h"
#include "lock/settings.h"
#include "lock/status.h"
#include "lock/watcher.h"

typedef struct el_client el_client;

/* Starts the I/O thread; nothing is sent yet. NULL and |err| (invalid, nomem,
 * forked) if that can't be. @thread lua */
el_client *el_client_new(const el_connect_options *options, el_error *err);

/* Begins to close: releases everything, revokes the lease and stops the I/O thread, within
 * |budget_ms| and a moment, whether or not etcd answers (what it didn't hear of ends with
 * the lease). Call it once, and not in a forked child. @thread lua */
void el_client_begin_close(el_client *cl, int64_t budget_ms);

/* Is that done, so that el_client_join returns at once? Not to be called after the join.
 * @thread lua */
bool el_client_has_stopped(el_client *cl);

/* Nobody asks a client any more that has begun to close: its handle answers "closed".
 * @thread lua */
void el_client_shut(el_client *cl);

/* Joins the I/O thread of a client that is shut. @thread any */
void el_client_join(el_client *cl);

/* Frees a client that was joined; its locks may live on. @thread any */
void el_client_free(el_client *cl);

/* What can be asked and read of it; lives on with its locks. @thread lua */
el_handle *el_client_handle(const el_client *cl);

/* A transaction of it, see el_guarded_new. @thread lua */
el_guarded *el_client_guarded(el_client *cl);

/* See el_watcher_new. @thread lua */
el_watcher *el_client_watcher(el_client *cl, el_bytes prefix, el_error *err);

/* See el_status_start. @thread lua */
el_status *el_client_status(el_client *cl, int64_t timeout_ms, el_error *err);

/* For how many milliseconds the session's lease is known to live: since the
 * last answered renewal; 0 if it isn't. @thread lua */
int64_t el_client_alive_ms(const el_client *cl);

/* Has |id| pushed to |wake|, which must live as long as the client, |ms|
 * milliseconds from now; negative: not any more. False if the client is closed.
 * @thread lua */
bool el_client_alarm(el_client *cl, el_wake *wake, uint64_t id, int64_t ms);

#endif
