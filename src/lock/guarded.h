/* guarded: one transaction of a caller: guarded reads and writes under a hold, and queries of a
 * queue.
 */
#ifndef ETCDLOCK_LOCK_GUARDED_H
#define ETCDLOCK_LOCK_GUARDED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/completion.h"
#include "etcd/txn.h"
#include "lock/lock.h"
#include "lock/shared.h"

/* el_guarded is one transaction of a caller, from the request to the answer. A Lua thread makes it
 * and reads the answer, the I/O thread sends it; reference-counted. */
typedef struct el_guarded el_guarded;

enum {
  EL_GUARDED_ANSWERED = 1 /* event of the completion: the answer is there */
};

/* el_guarded_fail_all fails the transactions that wait to be sent, with shared->closed, which is
 * set. @thread io */
void el_guarded_fail_all(el_shared *shared);

/* el_guarded_new returns an empty transaction, which the caller owns. NULL: no memory.
 * @thread lua */
el_guarded *el_guarded_new(el_shared *shared);

/* el_guarded_drop frees the transaction, after its answer if it is under way. A transaction that
 * was not sent yet is cancelled. @thread lua */
void el_guarded_drop(el_guarded *guarded);

/* el_guarded_add adds an operation, with a copy of its bytes. False: no memory. @thread lua */
bool el_guarded_add(el_guarded *guarded, const el_op *op);

/* el_guarded_guard has the operations happen only if |key|, of another client, has the
 * create_revision |rev| and is attached to |lease| (0: to none). A transaction has at most one
 * guard, of this or of the next three kinds. False: no memory. @thread lua */
bool el_guarded_guard(el_guarded *guarded, el_bytes key, int64_t rev,
                      int64_t lease);

/* el_guarded_guard_lock has the operations happen only if all keys of |lk| exist, with its token
 * and lease; otherwise |lk| is lost. @thread lua */
void el_guarded_guard_lock(el_guarded *guarded, el_lock *lk);

/* el_guarded_downgrade guards the transaction as el_guarded_guard_lock does, by the write hold
 * |lk|, and adds the marker key that makes it a read hold. False: no memory. @thread lua */
bool el_guarded_downgrade(el_guarded *guarded, el_lock *lk);

/* el_guarded_proclaim guards the transaction by |lk|, and adds a put of |value| to our key. False:
 * no memory. @thread lua */
bool el_guarded_proclaim(el_guarded *guarded, el_lock *lk, el_bytes value);

/* el_guarded_start sends the transaction. If it only reads, it is repeated until |timeout_ms| has
 * passed. If it writes, it is repeated only after a definite failure: a write of unknown outcome
 * that is sent twice could overwrite a later one. False and |err| (closed, forked): it cannot be
 * sent. @thread lua */
bool el_guarded_start(el_guarded *guarded, int64_t timeout_ms, el_error *err);

/* el_guarded_wait waits up to |timeout_ms| for the answer, which belongs to |guarded|;
 * answer->succeeded is false if the guard failed. NULL: no answer yet. @thread lua */
const el_txn_answer *el_guarded_wait(el_guarded *guarded, int64_t timeout_ms);

/* el_guarded_completion returns the completion of EL_GUARDED_ANSWERED. It lives as long as
 * |guarded|. A wake that is armed on it must live as long as the client. @thread lua */
el_completion *el_guarded_completion(el_guarded *guarded);

#endif
