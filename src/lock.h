/* L3 lock: one request for a lock, and the hold that comes of it.
 *
 * Made by a Lua thread, served by the I/O thread (line.c), shared by both:
 * Lua's side reads the atomic state and the claim; everything else passes
 * through the waiters. Reference-counted, because either side may be done
 * first.
 *
 *   PENDING -granted-> HELD -unlock-> RELEASED
 *      |                 +-- lost --> LOST + reason (latched by whoever sees
 *      +--> FAILED                    it first; never undone)
 */
#ifndef ETCDLOCK_LOCK_H
#define ETCDLOCK_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "entry.h"
#include "error.h"
#include "wake_server.h"

typedef struct el_lock el_lock;
typedef struct el_client el_client;

typedef struct el_lock_options {
  const char *name; /* not empty, at most EL_NAME_MAX bytes */
  size_t name_len;
  const char *value; /* what the key says about us; copied */
  size_t value_len;
  bool try_once;       /* don't wait for others */
  int64_t timeout_ms;  /* how long to wait; negative: for ever */
  int64_t max_hold_ms; /* hard end of the hold; 0: none */
} el_lock_options;

typedef enum el_hold {
  EL_HOLD_PENDING,
  EL_HOLD_HELD,
  EL_HOLD_RELEASED,
  EL_HOLD_FAILED,
  EL_HOLD_LOST /* see el_lock_loss */
} el_hold;

/* Asks for a lock. NULL and |err| (closed, forked, nomem) if nobody can be
 * asked. The caller owns one reference. @thread lua */
el_lock *el_lock_new(el_client *cl, const el_lock_options *options,
                     el_error *err);

/* Waits up to |timeout_ms| for the verdict; false: none yet. After a verdict
 * err->code is EL_OK if it is held. @thread lua */
bool el_lock_wait(el_lock *lk, int64_t timeout_ms, el_error *err);

/* The hold as it is at this moment, and for HELD the milliseconds that may
 * still be relied on. No RPC, no mutex. @thread lua */
el_hold el_lock_hold(el_lock *lk, int64_t *left_ms);

/* Why it was lost, EL_LOSS_NONE if it wasn't. @thread lua */
el_loss el_lock_loss(const el_lock *lk);

/* For a hold that has EXPIRED: what stood in the way of the proof; code EL_OK
 * if nothing is known. @thread lua */
void el_lock_trouble(const el_lock *lk, el_error *err);

/* Sets the hard end of the hold to |max_hold_ms| from now, instead of what it
 * was. False if it is not held. @thread lua */
bool el_lock_expire(el_lock *lk, int64_t max_hold_ms);

/* Lets go: gives up the wait or releases the hold, which is over for the
 * caller from here on. True if it was held. @thread lua */
bool el_lock_release(el_lock *lk);

/* Waits for the key to be out of etcd; false: not yet. err->code afterwards:
 * EL_OK, EL_LOST if it was gone already, or what etcd refused it for.
 * @thread lua */
bool el_lock_wait_released(el_lock *lk, int64_t timeout_ms, el_error *err);

/* Waits for the end of the hold, whatever the reason. @thread lua */
bool el_lock_wait_ended(el_lock *lk, int64_t timeout_ms);

/* What the three waits above are for. */
typedef enum el_lock_news {
  EL_LOCK_DECIDED,
  EL_LOCK_RELEASED,
  EL_LOCK_ENDED
} el_lock_news;

/* Has |id| pushed to |wake| when there is |news|; false: there is already.
 * |wake| must live as long as the client. @thread lua */
bool el_lock_arm(el_lock *lk, el_lock_news news, el_wake *wake, uint64_t id);

/* Takes that back. @thread lua */
void el_lock_disarm(el_lock *lk, el_lock_news news, uint64_t id);

/* Has whoever takes away |server|'s wait |id| release |lk|, until it is
 * taken (wake_server.h). @thread lua */
void el_lock_leash(el_lock *lk, el_wake_server *server, uint64_t id);

/* Takes wait |id|, leash or not; false: nobody expects it any more.
 * @thread lua */
bool el_lock_unleash(el_wake_server *server, uint64_t id);

/* Releases the hold and the caller's reference; never blocks. @thread lua */
void el_lock_drop(el_lock *lk);

/* Did somebody else have it when it was asked for? Only once it was held.
 * @thread lua */
bool el_lock_waited(const el_lock *lk);

/* The fencing token (create_revision of our key), the lease and the key; only
 * once it was held. @thread lua */
int64_t el_lock_token(const el_lock *lk);

/* @thread lua */
int64_t el_lock_lease(const el_lock *lk);

/* @thread lua */
const char *el_lock_key_bytes(const el_lock *lk, size_t *len);

/* @thread any */
el_client *el_lock_client(const el_lock *lk);

#endif
