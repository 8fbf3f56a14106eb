/* watcher: counts changes of the keys with a common prefix, for a reader that then reads the keys.
 *
 * A watcher does not keep which keys have changed, so several changes between two reads cost one
 * read. */
#ifndef ETCDLOCK_LOCK_WATCHER_H
#define ETCDLOCK_LOCK_WATCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/completion.h"
#include "lock/shared.h"

/* el_watcher is one watcher. The I/O thread counts changes, a Lua thread reads their number. */
typedef struct el_watcher el_watcher;

/* el_watcher_event is an event of a watcher's completion, a bit. */
typedef enum el_watcher_event {
  /* there are changes that were not passed (el_watcher_pass), or the watcher has ended */
  EL_WATCHER_CHANGED = 1,
  EL_WATCHER_ENDED = 2
} el_watcher_event;

/* el_watcher_close_all ends all watchers of the client with the error shared->closed. That error
 * must be set. @thread io */
void el_watcher_close_all(el_shared *shared);

/* el_watcher_wake_all counts one change for each watcher, because etcd was found unreachable. With
 * the option fail_fast a waiting reader must fail then: it wakes up, reads, and the read fails.
 * @thread io */
void el_watcher_wake_all(el_shared *shared);

/* el_watcher_free_all stops all watches of the client's watchers, because the client is about to
 * stop. @thread io */
void el_watcher_free_all(el_shared *shared);

/* el_watcher_new watches the keys with |prefix|, which ends with a slash. It returns NULL and |err|
 * (closed, forked, nomem) if the client cannot be used. The caller owns the watcher. @thread lua */
el_watcher *el_watcher_new(el_shared *shared, el_bytes prefix, el_error *err);

/* el_watcher_close ends the watcher with "closed". @thread lua */
void el_watcher_close(el_watcher *watcher);

/* el_watcher_drop closes the watcher and gives up the caller's reference. @thread lua */
void el_watcher_drop(el_watcher *watcher);

/* el_watcher_wait waits up to |timeout_ms| for |event|. Returns whether |event| has occurred.
 * @thread lua */
bool el_watcher_wait(el_watcher *watcher, el_watcher_event event,
                     int64_t timeout_ms);

/* el_watcher_completion returns the completion of the events el_watcher_event. It lives as long as
 * |watcher|. A wake that is armed on it must live as long as the client. @thread lua */
el_completion *el_watcher_completion(el_watcher *watcher);

/* el_watcher_changes returns the number of counted changes, and in |rev| the store's revision of
 * the last one (0: unknown). See el_watcher_pass for those that are not counted. The creation of
 * the watch counts as a change of all keys, also when the watch is created again after an
 * interruption. |err| says why the watcher has ended; code EL_OK: it has not.
 * @thread lua @locks watcher->mu */
int64_t el_watcher_changes(el_watcher *watcher, int64_t *rev, el_error *err);

/* el_watcher_pass tells that the caller has read the keys after |changes| changes. If there are
 * more changes by now, it does nothing. Otherwise it clears EL_WATCHER_CHANGED, unless the watcher
 * has ended. From then on only a change of |only|, or of unknown keys, counts and sets that event;
 * after such a change, each one counts again. |only| without data: a change of any key counts.
 * @thread lua @locks watcher->mu */
void el_watcher_pass(el_watcher *watcher, int64_t changes, el_bytes only);

#endif
