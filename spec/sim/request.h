/* sim request: what each of our requests does to the store and finds there;
 * by way of the real recipe and of transactions. */
#ifndef SIM_REQUEST_H
#define SIM_REQUEST_H

#include "message.h"
#include "store.h"

/* Applies |what| at |now_ms|; |late_ms| is for a lease that it makes. */
void request_apply(store *st, const call *what, int64_t now_ms, int late_ms,
                   reply *out);

enum { REQUEST_BATCH_MAX = 6 };

/* The same for |n| entries' calls in one transaction, with a reply for each; false,
 * and nothing is applied: one of them can't be, so each has to go alone. */
bool request_apply_batch(store *st, const call *const *calls, int n,
                         reply *out);

/* Is |what| a read that a member answers alone, from what it has? */
bool request_is_local(const call *what);

/* Answers a serializable look from the member's state as of |rev|. */
void request_look_at(store *st, const call *what, int64_t rev, reply *out);

#endif
