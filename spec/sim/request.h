/* sim request: applies our requests to the store, by the real transactions
 * (protocol/lock_txn.h). */
#ifndef SIM_REQUEST_H
#define SIM_REQUEST_H

#include "message.h"
#include "store.h"

/* Applies |what| at |now_ms|; |late_ms| is that of a lease that it grants. */
void request_apply(store *st, const call *what, int64_t now_ms, int late_ms,
                   reply *out);

enum { REQUEST_BATCH_MAX = 6 };

/* Applies |n| calls of entries in one transaction, with a reply for each. False: one of them cannot
 * be applied, so none was, and each has to be sent alone. */
bool request_apply_batch(store *st, const call *const *calls, int n,
                         reply *out);

/* Tells whether |what| is a serializable read. */
bool request_is_local(const call *what);

/* Answers a serializable read from a member's state as of |rev|. */
void request_read_at(store *st, const call *what, int64_t rev, reply *out);

#endif
