/* kept_watches: watches that the next wait may go on with. */
#include "lock/kept_watches.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/of.h"

enum {
  /* Longer than a turn of a busy queue takes; until then its keys' events come. */
  KEEP_MS = 1000,
  KEPT_MAX = 64
};

typedef struct kept_watch {
  el_watch watch;
  el_kept_watches *kept;
  int64_t rev; /* the store's when something was heard of it last */
  int64_t until_ms;
  TAILQ_ENTRY(kept_watch) link;
  char key[];
} kept_watch;

struct el_kept_watches {
  el_watches *watches;
  el_timers *timers;
  el_timer timer;
  TAILQ_HEAD(, kept_watch) list; /* the oldest first */
  int n;
};

static void forget(kept_watch *one) {
  el_kept_watches *kept = one->kept;
  TAILQ_REMOVE(&kept->list, one, link);
  kept->n--;
  el_watch_stop(kept->watches, &one->watch);
  free(one);
}

/* One that had to be created anew, on another stream, has missed what was before. */
static void on_watch_event(el_watch *watch, const el_watch_event *event) {
  kept_watch *one = EL_OF(watch, kept_watch, watch);
  if (event->kind == EL_WATCH_REFUSED) {
    forget(one);
  } else if (event->rev > one->rev) {
    one->rev = event->rev;
  }
}

static void on_timer(el_timer *timer) {
  el_kept_watches *kept = EL_OF(timer, el_kept_watches, timer);
  kept_watch *one;
  while ((one = TAILQ_FIRST(&kept->list)) != NULL &&
         one->until_ms <= el_now_ms()) {
    forget(one);
  }
  if (one != NULL) {
    el_timers_set(kept->timers, timer, one->until_ms);
  }
}

el_kept_watches *el_kept_watches_new(el_watches *watches, el_timers *timers) {
  el_kept_watches *kept = el_alloc(sizeof *kept);
  kept->watches = watches;
  kept->timers = timers;
  kept->timer.due = on_timer;
  TAILQ_INIT(&kept->list);
  return kept;
}

void el_kept_watches_free(el_kept_watches *kept) {
  while (!TAILQ_EMPTY(&kept->list)) {
    forget(TAILQ_FIRST(&kept->list));
  }
  el_timers_stop(kept->timers, &kept->timer);
  free(kept);
}

void el_kept_watches_put(el_kept_watches *kept, el_watch *watch, int64_t rev) {
  kept_watch *one;
  if (!watch->created || watch->is_prefix) {
    el_watch_stop(kept->watches, watch);
    return;
  }
  one = el_alloc(sizeof *one + watch->key.len);
  memcpy(one->key, watch->key.data, watch->key.len);
  one->watch.on_event = on_watch_event;
  one->kept = kept;
  one->rev = rev;
  one->until_ms = el_now_ms() + KEEP_MS;
  el_watch_move(kept->watches, watch, &one->watch,
                (el_bytes){one->key, watch->key.len});
  if (kept->n == 0) {
    el_timers_set(kept->timers, &kept->timer, one->until_ms);
  } else if (kept->n == KEPT_MAX) {
    forget(TAILQ_FIRST(&kept->list));
  }
  TAILQ_INSERT_TAIL(&kept->list, one, link);
  kept->n++;
}

static kept_watch *find(el_kept_watches *kept, el_bytes key) {
  kept_watch *one;
  TAILQ_FOREACH(one, &kept->list, link) {
    if (one->watch.key.len == key.len &&
        memcmp(one->key, key.data, key.len) == 0) {
      break;
    }
  }
  return one;
}

int64_t el_kept_watches_take(el_kept_watches *kept, el_watch *watch,
                             el_bytes key, int64_t rev) {
  kept_watch *one = find(kept, key);
  int64_t told_rev;
  if (one == NULL) return 0;
  told_rev = one->rev > rev ? one->rev : rev;
  el_watch_move(kept->watches, &one->watch, watch, key);
  forget(one);
  return told_rev;
}
