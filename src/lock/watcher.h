/* watcher: what happens to the keys that begin alike, in order, for whoever
 * asks. What nobody takes is kept, up to 4 MiB of it; then only that is told.
 */
#ifndef ETCDLOCK_LOCK_WATCHER_H
#define ETCDLOCK_LOCK_WATCHER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/wake.h"
#include "etcd/watch.h"
#include "lock/counters.h"
#include "lock/handle.h"

typedef struct el_watcher el_watcher;

/* What they work with; the I/O thread's. */
typedef struct el_watcher_world {
  el_watches *watches;
  el_counters *counters;
  el_error closed; /* code EL_OK: they are open */
  TAILQ_HEAD(, el_watcher) all;
} el_watcher_world;

/* One piece of news. */
typedef struct el_watcher_event {
  enum {
    EL_WATCHER_RESET, /* something may have been missed before this */
    EL_WATCHER_AWAY,  /* etcd is out of reach, and that is to be told at once */
    EL_WATCHER_PUT,
    EL_WATCHER_DELETED
  } kind;
  /* The rest is of a put or a deletion. */
  int64_t rev, create_rev;
  bool more;           /* of this revision, follows */
  el_bytes key, value; /* owned */
  STAILQ_ENTRY(el_watcher_event) link;
} el_watcher_event;

/* @thread io */
void el_watcher_world_init(el_watcher_world *world, el_watches *watches,
                           el_counters *counters);

/* Ends all, and whoever comes, with |err|. @thread io */
void el_watcher_world_close(el_watcher_world *world, const el_error *err);

/* etcd was found out of reach, and the client fails fast. @thread io */
void el_watcher_world_tell_outage(el_watcher_world *world);

/* The client stops. @thread io */
void el_watcher_world_free(el_watcher_world *world);

/* Watches what begins with |prefix|, which ends with a slash, for |handle|'s
 * client. NULL and |err| (closed, forked, nomem) if nobody can. The caller owns it.
 * @thread lua */
el_watcher *el_watcher_new(el_handle *handle, el_watcher_world *world,
                           el_bytes prefix, el_error *err);

/* It tells nothing any more but that it is closed. @thread lua */
void el_watcher_close(el_watcher *watcher);

/* Frees it, and ends it if need be. @thread lua */
void el_watcher_drop(el_watcher *watcher);

/* Waits up to |timeout_ms| for news, or the end; false: none yet.
 * @thread lua */
bool el_watcher_wait(el_watcher *watcher, int64_t timeout_ms);

/* Has |id| pushed to |wake| when there are some; false: there are already.
 * |wake| must live as long as the client. @thread lua */
bool el_watcher_arm(el_watcher *watcher, el_wake *wake, uint64_t id);

/* Takes that back. @thread lua */
void el_watcher_disarm(el_watcher *watcher, uint64_t id);

/* The next news, the caller's, to be freed with el_watcher_event_free. NULL: none
 * yet, or it has ended, with |err|. @thread lua @locks watcher->mu */
el_watcher_event *el_watcher_take(el_watcher *watcher, el_error *err);

/* @thread any */
void el_watcher_event_free(el_watcher_event *event);

#endif
