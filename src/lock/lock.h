/* lock: one acquisition of a lock, and the hold that it leads to.
 *
 * A Lua thread makes an el_lock, and the I/O thread serves it (local_queue.h). Lua reads the
 * state, the hold deadline, the end of max_hold and what was seen of other keys at any time: they
 * are atomic. All other results are written before an event of the completion. An el_lock is
 * reference-counted, because either thread may be done with it first.
 *
 *   PENDING -granted-> HELD -unlock-> RELEASED
 *      |  |             |  +-- lost --> LOST + reason (the first thread that sees the loss sets it;
 *      |  |             |               it never changes again)
 *      |  +--> FAILED   +- nginx request ended, or handle collected --> ABANDONED
 *      +- the wait was cancelled --> RELEASED */
#ifndef ETCDLOCK_LOCK_LOCK_H
#define ETCDLOCK_LOCK_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/completion.h"
#include "base/error.h"
#include "lock/shared.h"
#include "protocol/loss.h"
#include "protocol/lock_txn.h"
#include "protocol/write_order.h"

/* el_lock is one acquisition of a lock. Any thread that has a reference may use it. */
typedef struct el_lock el_lock;

/* el_lock_options are the options of one acquisition. They are borrowed for the call. */
typedef struct el_lock_options {
  /* Full name, with the client's prefix; EL_MODE_MULTI: the names, separated by NUL. Each has 1 to
   * EL_NAME_MAX bytes. */
  el_bytes name;
  el_bytes value; /* the value of the key in etcd; copied */
  el_mode mode;
  uint16_t permits; /* EL_MODE_PERMIT: size of the semaphore */
  bool try_once;    /* fail with "locked" instead of waiting */
  /* A read lock that must not wait behind a writer: this program has a read hold of the lock that
   * it cannot release during the wait, so the wait might never end. */
  bool must_share;
  bool leads;          /* this is an election; for events */
  bool is_in_with;     /* a with_lock call unlocks it; for events */
  int64_t timeout_ms;  /* limit of the wait; negative: no limit */
  int64_t max_hold_ms; /* how long the hold may last; 0: no limit */
  int64_t linger_ms;   /* how long to keep the key after unlock; 0: delete it */
} el_lock_options;

/* el_hold is the state of an el_lock: see the diagram above. */
typedef enum el_hold {
  EL_HOLD_PENDING,
  EL_HOLD_HELD,
  EL_HOLD_RELEASED,
  EL_HOLD_ABANDONED, /* released by el_lock_abandon or el_lock_drop */
  EL_HOLD_FAILED,
  EL_HOLD_LOST /* el_lock_loss returns why */
} el_hold;

/* el_lock_event is an event of a lock's completion, a bit. If the wait fails, all three events
 * occur. */
typedef enum el_lock_event {
  EL_LOCK_DECIDED = 1,  /* the lock is held, or the wait failed */
  EL_LOCK_RELEASED = 2, /* the release has ended: see el_lock_wait_released */
  EL_LOCK_ENDED = 4     /* the hold was released, abandoned or lost */
} el_lock_event;

/* el_lock_new begins to acquire a lock. It returns NULL and |err| (closed, forked, nomem) if the
 * client cannot be used. The caller owns one reference. @thread lua */
el_lock *el_lock_new(el_shared *shared, const el_lock_options *options,
                     el_error *err);

/* el_lock_ref adds a reference and returns |lk|. @thread any */
el_lock *el_lock_ref(el_lock *lk);

/* el_lock_unref drops a reference. @thread any */
void el_lock_unref(el_lock *lk);

/* el_lock_wait waits up to |timeout_ms| until the lock is granted or the wait has failed. Returns
 * false if neither has happened. Otherwise err->code is EL_OK if the lock was granted, else the
 * reason of the failure. @thread lua */
bool el_lock_wait(el_lock *lk, int64_t timeout_ms, el_error *err);

/* el_lock_hold returns the present state. In |left_us| it returns how many microseconds are left of
 * the hold; 0 unless the state is HELD. It sends requests and takes a mutex only when it finds a
 * loss. @thread lua */
el_hold el_lock_hold(el_lock *lk, int64_t *left_us);

/* el_lock_loss returns why the hold was lost; EL_LOSS_NONE: it was not. @thread any */
el_loss el_lock_loss(const el_lock *lk);

/* el_lock_read_proof_error copies the error that prevents the proof of this hold, or that prevented
 * it before the hold expired. Code EL_OK: there is none. Call it only after the lock was granted.
 * @thread any */
void el_lock_read_proof_error(const el_lock *lk, el_error *err);

/* el_lock_held_us returns how many microseconds ago the lock was granted. Call it only after the
 * grant. @thread any */
int64_t el_lock_held_us(const el_lock *lk);

/* el_lock_set_max_hold has the hold end |max_hold_ms| from now, in place of any earlier limit.
 * Returns false if the lock is not held or this process is a fork. @thread lua */
bool el_lock_set_max_hold(el_lock *lk, int64_t max_hold_ms);

/* el_lock_downgrade marks a write hold as a read hold, whose key neither lingers nor is handed off.
 * The caller must then send el_guarded_downgrade, by which other clients learn of the downgrade.
 * @thread lua */
void el_lock_downgrade(el_lock *lk);

/* el_lock_release cancels the wait or releases the hold, without waiting for etcd. Returns whether
 * the lock was held. @thread any */
bool el_lock_release(el_lock *lk);

/* el_lock_abandon releases the lock for an owner that ended without unlock, for example an nginx
 * request. The key is neither handed off nor lingers. A later unlock is no error. @thread any */
void el_lock_abandon(el_lock *lk);

/* el_lock_is_abandoned tells whether el_lock_abandon or el_lock_drop ended the hold.
 * @thread any */
bool el_lock_is_abandoned(const el_lock *lk);

/* el_lock_wait_released waits up to |timeout_ms| until the release has ended. Returns false if it
 * has not. Otherwise err->code is EL_OK if the key was deleted, was handed off, is shared or
 * lingers, or if the lock was never held. EL_LOST: the hold was lost, the key was gone before the
 * release, or another cluster answers. EL_CLOSED: the client was closed before etcd confirmed the
 * release. Any other code: etcd refused to delete the key. @thread lua */
bool el_lock_wait_released(el_lock *lk, int64_t timeout_ms, el_error *err);

/* el_lock_wait_ended waits up to |timeout_ms| for EL_LOCK_ENDED. Returns whether the hold has
 * ended. @thread lua */
bool el_lock_wait_ended(el_lock *lk, int64_t timeout_ms);

/* el_lock_completion returns the completion of the events el_lock_event. It lives as long as |lk|.
 * A wake that is armed on it must live as long as the client. @thread lua */
el_completion *el_lock_completion(el_lock *lk);

/* el_lock_drop releases a lock whose handle Lua has garbage-collected, and drops the caller's
 * reference. It never blocks. Returns true if the lock was held and so has leaked. @thread lua */
bool el_lock_drop(el_lock *lk);

/* el_lock_waited tells whether this acquisition has waited for another owner or client. Call it
 * only after the lock was granted. @thread lua */
bool el_lock_waited(const el_lock *lk);

/* el_lock_take_holder returns what an answer has last told about the lock's holder during the wait.
 * NULL: nothing since the last call. The caller frees the result. @thread any */
el_seen_key *el_lock_take_holder(el_lock *lk);

/* el_lock_take_other_permits returns the same about a key of the semaphore with another number of
 * permits. @thread any */
el_seen_key *el_lock_take_other_permits(el_lock *lk);

/* el_lock_token returns the fencing token: the create_revision of the lock's keys. Call it, and the
 * next three functions, only after the lock was granted. @thread any */
int64_t el_lock_token(const el_lock *lk);

/* el_lock_held_rev returns a revision at which the lock was held. Writes that holders of other
 * clients completed during earlier holds have lower revisions. @thread any */
int64_t el_lock_held_rev(const el_lock *lk);

/* el_lock_lease returns the ID of the lease of the lock's keys. @thread any */
int64_t el_lock_lease(const el_lock *lk);

/* el_lock_keys returns the keys of the lock in etcd. @thread any */
const el_keys *el_lock_keys(const el_lock *lk);

/* el_lock_shared returns the shared part of the lock's client. @thread any */
el_shared *el_lock_shared(const el_lock *lk);

/* ---- for guarded.c ---- */

/* el_writes holds the guarded writes of one hold; for the I/O thread only. */
typedef struct el_writes {
  el_write_order order;             /* the state machine */
  TAILQ_HEAD(, el_guarded) waiting; /* behind the write in progress */
} el_writes;

/* el_lock_writes returns the guarded writes of the hold. @thread io */
el_writes *el_lock_writes(el_lock *lk);

/* el_lock_writer returns the keys and the token that guard writes of the hold. Call it only after
 * the lock was granted. @thread any */
el_guard el_lock_writer(const el_lock *lk);

/* el_lock_is_holding tells whether the local queue still counts the lock as held. Writes of the
 * hold may be sent only then. @thread io */
bool el_lock_is_holding(const el_lock *lk);

/* el_lock_start_downgrade tells the local queue about the downgrade. It is called before the marker
 * key of the downgrade is written. @thread io */
void el_lock_start_downgrade(el_lock *lk);

/* el_lock_key_gone tells the local queue that a guarded transaction did not find the key of this
 * hold. If |is_detached|, the transaction found the key, but attached to another lease or to none.
 * @thread io */
void el_lock_key_gone(el_lock *lk, bool is_detached);

/* el_lock_size returns how many bytes the structs of one hold take, for benchmarks. @thread any */
size_t el_lock_size(void);

#endif
