/* watch_cache: keeps watches for the next wait for the same key.
 *
 * The clients that take turns with a busy lock mostly have the same predecessor each time.
 * With a watch from the last wait, a client creates none and needs no read: that saves a
 * quarter of all requests if 2 or 16 processes use one lock.
 */
#ifndef ETCDLOCK_LOCK_WATCH_CACHE_H
#define ETCDLOCK_LOCK_WATCH_CACHE_H

#include <stdint.h>

#include "base/timer.h"
#include "etcd/watch.h"

typedef struct el_watch_cache el_watch_cache;

/* @thread io */
el_watch_cache *el_watch_cache_new(el_watches *watches, el_timers *timers);

/* Before |watches| and |timers| are freed. @thread io */
void el_watch_cache_free(el_watch_cache *cache);

/* Stops |watch| for its owner, who has been told all until revision |told_rev|; keeps it
 * for a while if it is a watch of one key. @thread io */
void el_watch_cache_put(el_watch_cache *cache, el_watch *watch,
                        int64_t told_rev);

/* Starts |watch| with a kept one, for an owner who knows what |key| was at |known_rev|.
 * Returns the revision after which it reports each change: |known_rev|, or a later one if
 * the key may have changed in between. 0: there is none, |watch| isn't started.
 * @thread io */
int64_t el_watch_cache_take(el_watch_cache *cache, el_watch *watch,
                            el_bytes key, int64_t known_rev);

#endif
