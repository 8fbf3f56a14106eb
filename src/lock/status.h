/* status: one question to all members of a cluster, each by itself: how are you? */
#ifndef ETCDLOCK_LOCK_STATUS_H
#define ETCDLOCK_LOCK_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/completion.h"
#include "etcd/maintenance.h"
#include "lock/handle.h"
#include "lock/settings.h"

typedef struct el_status el_status;

/* What they work with; the I/O thread's. */
typedef struct el_status_world {
  el_auth *auth;
  el_counters *counters;
  el_error closed; /* code EL_OK: it is open */
} el_status_world;

/* What one member has answered. */
typedef struct el_status_answer {
  char address[EL_ENDPOINT_MAX];
  el_transport transport; /* how it was asked */
  el_member_status said;  /* its texts are owned, and may be NULL */
} el_status_answer;

/* @thread io */
void el_status_world_init(el_status_world *world, el_auth *auth,
                          el_counters *counters);

/* From now on nobody is asked, because of |err|. @thread io */
void el_status_world_close(el_status_world *world, const el_error *err);

/* Asks each member of |handle|'s client, which has |timeout_ms| to answer. NULL and
 * |err| (closed, forked, nomem) if that can't be. The caller owns it. @thread lua */
el_status *el_status_start(el_handle *handle, el_status_world *world,
                           int64_t timeout_ms, el_error *err);

/* Frees it, or leaves that to the I/O thread if it is under way. @thread lua */
void el_status_drop(el_status *status);

/* Waits up to |timeout_ms| until all have answered, or failed: the answers, |*n| of
 * them; NULL: not yet. They belong to |status|. @thread lua */
const el_status_answer *el_status_wait(el_status *status, int64_t timeout_ms,
                                       size_t *n);

/* Has |id| pushed to |wake| when all have; false: they have already. |wake| must live
 * as long as the client. @thread lua */
bool el_status_arm(el_status *status, el_wake *wake, uint64_t id);

#endif
