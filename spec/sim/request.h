/* sim request: applies the requests of peers to the store, by the transactions of the real client
 * (protocol/lock_txn.h). */
#ifndef SIM_REQUEST_H
#define SIM_REQUEST_H

#include "message.h"
#include "store.h"

/* Applies |what| at |now_ms| and fills |out|. If |what| grants a lease, the store notices the end
 * of this lease |late_ms| late. */
void request_apply(store *st, const call *what, int64_t now_ms, int late_ms,
                   reply *out);

enum { REQUEST_BATCH_MAX = 6 };

/* Applies |n| calls of entries in one transaction and fills |out| with a reply for each. Returns
 * false if one of them cannot be applied. Then none was applied, and each must be sent alone. */
bool request_apply_batch(store *st, const call *const *calls, int n,
                         reply *out);

/* Tells whether a member answers |what| from its own state: |what| is a serializable read or an
 * audit. */
bool request_is_local(const call *what);

/* Answers |what|, for which request_is_local is true, from a member's state as of |rev|. */
void request_read_at(store *st, const call *what, int64_t rev, reply *out);

#endif
