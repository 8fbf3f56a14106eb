/* lock: one request for a lock, and the hold that comes of it.
 *
 * Made by a Lua thread, served by the I/O thread (local_queues.h), shared by
 * both: Lua's side reads the atomic state and the claim; everything else passes
 * through the completion. Reference-counted, because either side may be done
 * first.
 *
 *   PENDING -granted-> HELD -unlock-> RELEASED
 *      |  |             |  +-- lost --> LOST + reason (latched by whoever sees
 *      |  +--> FAILED   |               it first; never undone)
 *      |                +- its holder ended --> OUTLIVED
 *      +- given up, or whoever waited ended --> RELEASED
 */
#ifndef ETCDLOCK_LOCK_LOCK_H
#define ETCDLOCK_LOCK_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/completion.h"
#include "base/error.h"
#include "lock/handle.h"
#include "lock/local_queues.h"
#include "rules/entry.h"
#include "rules/recipe.h"

typedef struct el_lock el_lock;

typedef struct el_lock_options {
  /* As in el_owner; each of at most EL_NAME_MAX bytes, none empty. */
  el_bytes name;
  el_bytes value; /* what the key says about us; copied */
  el_mode mode;
  uint16_t permits;    /* EL_MODE_PERMIT: of how many it wants one */
  bool try_once;       /* for Lua, try: don't wait for others */
  bool must_share;     /* a reader: who has it here can't let go meanwhile */
  bool leads;          /* for events: whoever holds this name leads */
  int64_t timeout_ms;  /* how long to wait; negative: for ever */
  int64_t max_hold_ms; /* hard end of the hold; 0: none */
  int64_t linger_ms;   /* how long the key stays after it; 0: it doesn't */
  int64_t
      lock_delay_ms; /* nobody follows it sooner, if it crashes; 0: at once */
} el_lock_options;

typedef enum el_hold {
  EL_HOLD_PENDING,
  EL_HOLD_HELD,
  EL_HOLD_RELEASED,
  EL_HOLD_OUTLIVED, /* released, because whoever held it has ended */
  EL_HOLD_FAILED,
  EL_HOLD_LOST /* see el_lock_loss */
} el_hold;

/* What can be waited for, as events of a completion. */
typedef enum el_lock_news {
  EL_LOCK_DECIDED = 1,  /* held or failed */
  EL_LOCK_RELEASED = 2, /* the key is out of etcd, or that failed */
  EL_LOCK_ENDED = 4     /* released or lost */
} el_lock_news;

/* Asks for a lock of |handle|'s client. NULL and |err| (closed, forked, nomem) if
 * nobody can be asked. The caller owns one reference. @thread lua */
el_lock *el_lock_new(el_handle *handle, const el_lock_options *options,
                     el_error *err);

/* @thread any */
el_lock *el_lock_ref(el_lock *lk);

/* @thread any */
void el_lock_unref(el_lock *lk);

/* Waits up to |timeout_ms| for the verdict; false: none yet. After a verdict
 * err->code is EL_OK if it is held. @thread lua */
bool el_lock_wait(el_lock *lk, int64_t timeout_ms, el_error *err);

/* The hold as it is at this moment, and for HELD the microseconds that may
 * still be relied on. No RPC; no mutex, unless it is lost. @thread lua */
el_hold el_lock_hold(el_lock *lk, int64_t *left_us);

/* Why it was lost, EL_LOSS_NONE if it wasn't. @thread any */
el_loss el_lock_loss(const el_lock *lk);

/* What stands, or stood, in the way of the proof that would have kept it.
 * @thread any */
void el_lock_read_cause(const el_lock *lk, el_error *cause);

/* How long it is held, or was; only once it was; 0 unless somebody reads of all that happens (events.h).
 * @thread any */
int64_t el_lock_held_us(const el_lock *lk);

/* Sets the hard end of the hold to |max_hold_ms| from now, instead of what it
 * was. False if it is not held. @thread lua */
bool el_lock_expire(el_lock *lk, int64_t max_hold_ms);

/* From now on it is a reader's hold: it doesn't linger, and nobody here gets its key
 * from it. The note that says so has to follow. @thread lua */
void el_lock_downgrade(el_lock *lk);

/* Lets go: gives up the wait or releases the hold, which is over for the
 * caller from here on. True if it was held. @thread any */
bool el_lock_release(el_lock *lk);

/* Lets go for whoever waited for it, or held it, and has ended without doing so: a
 * request of nginx, say. No mistake of his: who comes to unlock it afterwards finds
 * that done; but nobody gets the key from him. @thread any */
void el_lock_outlive(el_lock *lk);

/* Has that ended the hold? @thread any */
bool el_lock_is_outlived(const el_lock *lk);

/* Waits for the key to be out of etcd; false: not yet. err->code afterwards:
 * EL_OK, EL_LOST if it was gone already, or what etcd refused it for.
 * @thread lua */
bool el_lock_wait_released(el_lock *lk, int64_t timeout_ms, el_error *err);

/* Waits for the end of the hold, whatever the reason. @thread lua */
bool el_lock_wait_ended(el_lock *lk, int64_t timeout_ms);

/* Has |id| pushed to |wake| when there is |news|; false: there is already.
 * |wake| must live as long as the client. @thread lua */
bool el_lock_arm(el_lock *lk, el_lock_news news, el_wake *wake, uint64_t id);

/* Takes that back. @thread lua */
void el_lock_disarm(el_lock *lk, el_lock_news news, uint64_t id);

/* Releases the hold, if it was held (returned), and the caller's reference; never
 * blocks. @thread lua */
bool el_lock_drop(el_lock *lk);

/* Did somebody else have it when it was asked for? Only once it was held.
 * @thread lua */
bool el_lock_waited(const el_lock *lk);

/* The fencing token (create_revision of our key, or keys), the lease and the keys; only
 * once it was held. @thread any */
int64_t el_lock_token(const el_lock *lk);

/* @thread any */
int64_t el_lock_lease(const el_lock *lk);

/* @thread any */
const el_keys *el_lock_keys(const el_lock *lk);

/* @thread any */
el_handle *el_lock_handle(const el_lock *lk);

/* The guarded writes of a hold (guarded.c). */
typedef struct el_writes {
  el_write_order order;
  TAILQ_HEAD(, el_guarded) waiting; /* for the one that is under way */
} el_writes;

/* @thread io */
el_writes *el_lock_writes(el_lock *lk);

/* Who writes by it. Only once it was held. @thread any */
el_writer el_lock_writer(const el_lock *lk);

/* Is it not let go of yet? Then its writes may be sent. @thread io */
bool el_lock_is_kept(const el_lock *lk);

/* The note of its downgrade is about to be sent. @thread io */
void el_lock_note_downgrade(el_lock *lk);

/* A guarded request of the holder found its key gone, or |detached|. @thread io */
void el_lock_key_gone(el_lock *lk, bool detached);

/* For figures: the bytes of the structs of one hold. @thread any */
size_t el_lock_size(void);

#endif
