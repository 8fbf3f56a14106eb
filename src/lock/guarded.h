/* guarded: one transaction of a caller's own: the guarded reads and writes of a
 * lock, and the questions about a queue.
 */
#ifndef ETCDLOCK_LOCK_GUARDED_H
#define ETCDLOCK_LOCK_GUARDED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/completion.h"
#include "etcd/txn.h"
#include "lock/handle.h"
#include "lock/lock.h"
#include "lock/requests.h"

typedef struct el_guarded el_guarded;

/* What they work with; the I/O thread's. */
typedef struct el_guarded_world {
  el_requests *requests;
  el_timers *timers;
  TAILQ_HEAD(, el_guarded) resting; /* until their next attempt */
  el_error closed;                  /* code EL_OK: they are open */
  bool fail_fast; /* where etcd is away, nothing is repeated */
} el_guarded_world;

/* @thread io */
void el_guarded_world_init(el_guarded_world *world, el_requests *requests,
                           el_timers *timers, bool fail_fast);

/* Ends those that rest, and whatever comes, with |err|. @thread io */
void el_guarded_world_close(el_guarded_world *world, const el_error *err);

/* An empty transaction for |handle|'s client. NULL when there is no memory. The
 * caller owns it. @thread lua */
el_guarded *el_guarded_new(el_handle *handle, el_guarded_world *world);

/* Frees it, or leaves that to the I/O thread if it is under way.
 * @thread lua */
void el_guarded_drop(el_guarded *guarded);

/* Adds an operation; bytes are copied. False when there is no memory.
 * @thread lua */
bool el_guarded_add(el_guarded *guarded, const el_op *op);

/* The operations happen only if |key|, somebody else's, has this create_revision and is attached
 * to |lease| (0: to none). One guard at most. False when there is no memory. @thread lua */
bool el_guarded_guard(el_guarded *guarded, el_bytes key, int64_t rev,
                      int64_t lease);

/* The same with all keys and the token of |lk|; if it fails, |lk| is lost.
 * @thread lua */
void el_guarded_guard_lock(el_guarded *guarded, el_lock *lk);

/* The same, and it notes that |lk|, a writer's, is a reader's from then on. False when
 * there is no memory. @thread lua */
bool el_guarded_downgrade(el_guarded *guarded, el_lock *lk);

/* Guarded by |lk|, it gives our key |value|. False when there is no memory.
 * @thread lua */
bool el_guarded_proclaim(el_guarded *guarded, el_lock *lk, el_bytes value);

/* Sends it. Reads are repeated until |timeout_ms| has passed; one that writes is
 * repeated only after a definite failure, because a write of unknown fate that
 * is sent twice may undo a later one. False and |err| (closed, forked) if it
 * can't be sent. @thread lua */
bool el_guarded_start(el_guarded *guarded, int64_t timeout_ms, el_error *err);

/* Waits up to |timeout_ms| for the answer; NULL: none yet. The answer belongs
 * to |guarded|; answer->succeeded is false if the guard failed. @thread lua */
const el_txn_answer *el_guarded_wait(el_guarded *guarded, int64_t timeout_ms);

/* Has |id| pushed to |wake| when the answer is there; false: it is already.
 * |wake| must live as long as the client. @thread lua */
bool el_guarded_arm(el_guarded *guarded, el_wake *wake, uint64_t id);

#endif
