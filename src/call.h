/* L3 call: one transaction of a caller's own: the guarded reads and writes of
 * a lock, and the questions about a queue.
 */
#ifndef ETCDLOCK_CALL_H
#define ETCDLOCK_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "client.h"
#include "kv.h"
#include "lock.h"
#include "wake.h"

typedef struct el_call el_call;

/* An empty call. NULL when there is no memory. The caller owns it.
 * @thread lua */
el_call *el_call_new(el_client *cl);

/* Frees the call, or leaves that to the I/O thread if it is under way.
 * @thread lua */
void el_call_drop(el_call *call);

/* Adds an operation; bytes are copied. False when there is no memory.
 * @thread lua */
bool el_call_add(el_call *call, const el_op *op);

/* The operations happen only if |key| has this create_revision. False when
 * there is no memory. @thread lua */
bool el_call_guard(el_call *call, const char *key, size_t key_len, int64_t rev);

/* The same with the key and the token of |lk|; if it fails, |lk| is lost.
 * @thread lua */
bool el_call_guard_lock(el_call *call, el_lock *lk);

/* Sends it. Reads are repeated until |timeout_ms| has passed; a call that
 * writes is repeated only after a definite failure, because a write of unknown
 * fate that is sent twice may undo a later one. False and |err| (closed,
 * forked) if it can't be sent. @thread lua */
bool el_call_start(el_call *call, int64_t timeout_ms, el_error *err);

/* Waits up to |timeout_ms| for the answer; NULL: none yet. The answer belongs
 * to the call; answer->succeeded is false if the guard failed. @thread lua */
const el_txn_answer *el_call_wait(el_call *call, int64_t timeout_ms);

/* Has |id| pushed to |wake| when the answer is there; false: it is already.
 * |wake| must live as long as the client. @thread lua */
bool el_call_arm(el_call *call, el_wake *wake, uint64_t id);

/* The client that it belongs to. @thread lua */
el_client *el_call_client(const el_call *call);

#endif
