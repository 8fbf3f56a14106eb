/* linger: a key that is kept for a while after its owner has let go. */
#include "lock/linger.h"

#include <stdlib.h>

#include "base/of.h"

el_linger *el_linger_new(int64_t ms) {
  el_linger *linger = calloc(1, sizeof *linger);
  if (linger == NULL) return NULL;
  atomic_init(&linger->ms, ms);
  atomic_init(&linger->until_ms, 0);
  atomic_init(&linger->is_contested, false);
  return linger;
}

static void on_counted(void *arg, el_behind behind) {
  el_linger *linger = arg;
  linger->census = NULL;
  if (behind == EL_BEHIND_SOMEBODY) {
    linger->found(linger->arg);
  }
}

/* Whoever was there before the watch is found by a look, whoever comes by his key, and who
 * is of this client in its local queues. One who may not watch can't know, and doesn't
 * linger. */
static void on_watch_event(el_watch *watch, const el_watch_event *event) {
  el_linger *linger = EL_OF(watch, el_linger, watch);
  switch (event->kind) {
    case EL_WATCH_CREATED:
      EL_COUNT(linger->driver->world->counters, watches, 1);
      el_census_forget(linger->census);
      linger->census = el_census_take(linger->driver, on_counted, linger);
      return;
    case EL_WATCH_PUT:
      if (event->lease != linger->driver->keys.lease &&
          el_kind_waits(&linger->driver->keys, event->key)) {
        linger->found(linger->arg);
      }
      return;
    case EL_WATCH_REFUSED:
      linger->found(linger->arg);
      return;
    case EL_WATCH_DELETED:
      return;
  }
}

void el_linger_watch(el_linger *linger, el_entry_driver *driver,
                     void (*found)(void *arg), void *arg) {
  linger->driver = driver;
  linger->found = found;
  linger->arg = arg;
  linger->watch.on_event = on_watch_event;
  el_watch_start_prefix(driver->world->watches, &linger->watch,
                        el_keys_below(&driver->keys));
}

void el_linger_unwatch(el_linger *linger) {
  if (linger->driver == NULL) return;
  el_watch_stop(linger->driver->world->watches, &linger->watch);
  el_census_forget(linger->census);
  linger->census = NULL;
  linger->driver = NULL;
}
