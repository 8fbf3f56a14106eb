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

/* What one may wait for. */
typedef enum el_watcher_news {
  EL_WATCHER_NEWS = 1, /* there are some, or its end */
  EL_WATCHER_END = 2
} el_watcher_news;

/* One piece of news. */
typedef struct el_watcher_event {
  enum {
    /* Something may have been missed up to |rev|; what is of later revisions
     * follows. */
    EL_WATCHER_RESET,
    EL_WATCHER_AWAY, /* etcd is out of reach, and that is to be told at once */
    EL_WATCHER_PUT,
    EL_WATCHER_DELETED
  } kind;
  int64_t rev; /* 0: of none */
  /* The rest is of a put or a deletion. */
  int64_t create_rev;
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

/* Waits up to |timeout_ms| for |news|; false: none yet. @thread lua */
bool el_watcher_wait(el_watcher *watcher, el_watcher_news news,
                     int64_t timeout_ms);

/* Has |id| pushed to |wake| when there are |news|; false: there are already.
 * |wake| must live as long as the client. @thread lua */
bool el_watcher_arm(el_watcher *watcher, el_watcher_news news, el_wake *wake,
                    uint64_t id);

/* Takes that back. @thread lua */
void el_watcher_disarm(el_watcher *watcher, el_watcher_news news, uint64_t id);

/* The first piece of news, the same until el_watcher_pass, up to which it lives:
 * who is ended while he deals with it leaves it to others. NULL: none yet, or
 * it has ended, with |err|. @thread lua @locks watcher->mu */
const el_watcher_event *el_watcher_first(el_watcher *watcher, el_error *err);

/* That one was dealt with; harmless if there is none.
 * @thread lua @locks watcher->mu */
void el_watcher_pass(el_watcher *watcher);

#endif
