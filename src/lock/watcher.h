/* watcher: counts the changes of the keys that begin alike, for a reader that
 * then reads the keys. It keeps nothing of what has changed: several changes
 * between two reads cost one read.
 */
#ifndef ETCDLOCK_LOCK_WATCHER_H
#define ETCDLOCK_LOCK_WATCHER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/completion.h"
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

/* What a reader may wait for. */
typedef enum el_watcher_news {
  EL_WATCHER_NEWS = 1, /* changes that were not passed, or the end */
  EL_WATCHER_END = 2
} el_watcher_news;

/* @thread io */
void el_watcher_world_init(el_watcher_world *world, el_watches *watches,
                           el_counters *counters);

/* Ends all, and whoever comes, with |err|. @thread io */
void el_watcher_world_close(el_watcher_world *world, const el_error *err);

/* etcd was found out of reach, and the client fails fast: counts as a change,
 * so that waiting readers learn it. @thread io */
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

/* Returns the number of changes so far, and in |rev| the store revision of the
 * last one, 0 if that is unknown. A watch that was created (anew) is a change
 * of all keys. |err|: why the watcher has ended, EL_OK: it has not.
 * @thread lua @locks watcher->mu */
int64_t el_watcher_changes(el_watcher *watcher, int64_t *rev, el_error *err);

/* The caller has read the keys since there were |changes|. Unless there are more
 * by now, EL_WATCHER_NEWS ends, and until el_watcher_pass is called again
 * changes of other keys than |only| do not bring it back; |only| without data:
 * changes of all keys do. @thread lua @locks watcher->mu */
void el_watcher_pass(el_watcher *watcher, int64_t changes, el_bytes only);

#endif
