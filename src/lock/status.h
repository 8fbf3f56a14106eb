/* status: a query of the status of all members, each asked on its own connection. */
#ifndef ETCDLOCK_LOCK_STATUS_H
#define ETCDLOCK_LOCK_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/completion.h"
#include "etcd/maintenance.h"
#include "lock/options.h"
#include "lock/shared.h"

/* el_status is one query of the status of all members. */
typedef struct el_status el_status;

enum {
  EL_STATUS_ANSWERED =
      1 /* event of the completion: each member has answered or failed */
};

/* el_status_answer is the answer of one member, or why it did not answer. */
typedef struct el_status_answer {
  char address[EL_ENDPOINT_MAX]; /* "host:port" or "unix:path" */
  el_transport transport;
  /* owns its strings, which may be NULL; |status.err| says why the member did not answer */
  el_member_status status;
} el_status_answer;

/* el_status_start asks each member of the client, with a timeout of |timeout_ms|. It returns NULL
 * and |err| (closed, forked, nomem) if the client cannot be used. The caller owns the query.
 * @thread lua */
el_status *el_status_start(el_shared *shared, int64_t timeout_ms,
                           el_error *err);

/* el_status_drop frees the query. If members have not answered yet, it is freed after their
 * answers. @thread lua */
void el_status_drop(el_status *status);

/* el_status_wait waits up to |timeout_ms| until each member has answered or failed. It returns an
 * array of |*n| answers, which belongs to |status|. NULL: not all members have answered or failed
 * yet. @thread lua */
const el_status_answer *el_status_wait(el_status *status, int64_t timeout_ms,
                                       size_t *n);

/* el_status_completion returns the completion of EL_STATUS_ANSWERED. It lives as long as |status|.
 * A wake that is armed on it must live as long as the client. @thread lua */
el_completion *el_status_completion(el_status *status);

#endif
