/* watch_cache: keeps watches for the next wait for the same key. */
#include "lock/watch_cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/times.h"

enum { CACHED_MAX = 64 };

typedef struct cached {
  el_watch watch;
  el_watch_cache *cache;
  int64_t seen_rev; /* the store's revision when the watch had its last event */
  int64_t until_ms;
  TAILQ_ENTRY(cached) link;
  char key[];
} cached;

struct el_watch_cache {
  el_watches *watches;
  el_timers *timers;
  el_timer timer;
  TAILQ_HEAD(, cached) list; /* the oldest first */
  int n;
};

static void drop(cached *one) {
  el_watch_cache *cache = one->cache;
  TAILQ_REMOVE(&cache->list, one, link);
  cache->n--;
  el_watch_stop(cache->watches, &one->watch);
  free(one);
}

/* Records the revision of each event, also of EL_WATCH_CREATED: a watch that was created again, on
 * another stream, may have missed earlier events. */
static void on_watch_event(el_watch *watch, const el_watch_event *event) {
  cached *one = EL_CONTAINER_OF(watch, cached, watch);
  if (event->kind == EL_WATCH_REFUSED) {
    drop(one);
  } else if (event->rev > one->seen_rev) {
    one->seen_rev = event->rev;
  }
}

static void on_timer(el_timer *timer) {
  el_watch_cache *cache = EL_CONTAINER_OF(timer, el_watch_cache, timer);
  cached *one;
  while ((one = TAILQ_FIRST(&cache->list)) != NULL &&
         one->until_ms <= el_now_ms()) {
    drop(one);
  }
  if (one != NULL) {
    el_timers_set(cache->timers, timer, one->until_ms);
  }
}

el_watch_cache *el_watch_cache_new(el_watches *watches, el_timers *timers) {
  el_watch_cache *cache = el_alloc(sizeof *cache);
  cache->watches = watches;
  cache->timers = timers;
  cache->timer.on_due = on_timer;
  TAILQ_INIT(&cache->list);
  return cache;
}

void el_watch_cache_free(el_watch_cache *cache) {
  while (!TAILQ_EMPTY(&cache->list)) {
    drop(TAILQ_FIRST(&cache->list));
  }
  el_timers_stop(cache->timers, &cache->timer);
  free(cache);
}

void el_watch_cache_put(el_watch_cache *cache, el_watch *watch,
                        int64_t seen_rev) {
  cached *one;
  if (!watch->is_created || watch->is_prefix) {
    el_watch_stop(cache->watches, watch);
    return;
  }
  if (cache->n == CACHED_MAX) {
    drop(TAILQ_FIRST(&cache->list));
  }
  one = el_alloc(sizeof *one + watch->key.len);
  memcpy(one->key, watch->key.data, watch->key.len);
  one->watch.on_event = on_watch_event;
  one->cache = cache;
  one->seen_rev = seen_rev;
  one->until_ms = el_now_ms() + EL_WATCH_KEPT_MS;
  el_watch_move(cache->watches, watch, &one->watch,
                (el_bytes){one->key, watch->key.len});
  if (cache->n == 0) {
    el_timers_set(cache->timers, &cache->timer, one->until_ms);
  }
  TAILQ_INSERT_TAIL(&cache->list, one, link);
  cache->n++;
}

int64_t el_watch_cache_take(el_watch_cache *cache, el_watch *watch,
                            el_bytes key, int64_t known_rev) {
  cached *one;
  int64_t seen_rev;
  TAILQ_FOREACH(one, &cache->list, link) {
    if (el_bytes_are_equal(one->watch.key, key)) break;
  }
  if (one == NULL) return 0;
  seen_rev = one->seen_rev > known_rev ? one->seen_rev : known_rev;
  el_watch_move(cache->watches, &one->watch, watch, key);
  drop(one);
  return seen_rev;
}
