/* contenders: tells when a key comes behind one that may linger. */
#include "lock/contenders.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/container_of.h"

struct el_contenders {
  el_entry_driver *driver;
  void (*found)(void *arg);
  void *arg;
  el_watch watch;
  el_census *census; /* NULL: none is out */
};

static void on_counted(void *arg, el_behind behind) {
  el_contenders *contenders = arg;
  contenders->census = NULL;
  if (behind == EL_BEHIND_SOMEBODY || behind == EL_BEHIND_UNKNOWN) {
    contenders->found(contenders->arg);
  }
}

/* The look finds what was there before the watch, the watch what comes after. */
static void on_watch_event(el_watch *watch, const el_watch_event *event) {
  el_contenders *contenders = EL_CONTAINER_OF(watch, el_contenders, watch);
  el_entry_driver *driver = contenders->driver;
  switch (event->kind) {
    case EL_WATCH_CREATED:
      EL_COUNT(driver->world->counters, watches, 1);
      el_census_forget(contenders->census);
      contenders->census = el_census_take(driver, on_counted, contenders);
      return;
    case EL_WATCH_PUT:
      if (!el_bytes_are_equal(event->key, el_keys_own(&driver->keys)) &&
          el_kind_waits(&driver->keys, event->key, event->lease)) {
        contenders->found(contenders->arg);
      }
      return;
    case EL_WATCH_REFUSED:
      contenders->found(contenders->arg);
      return;
    case EL_WATCH_DELETED:
      return;
  }
}

el_contenders *el_contenders_watch(el_entry_driver *driver,
                                   void (*found)(void *arg), void *arg) {
  el_contenders *contenders = el_alloc(sizeof *contenders);
  contenders->driver = driver;
  contenders->found = found;
  contenders->arg = arg;
  contenders->watch.on_event = on_watch_event;
  el_watch_start_prefix(driver->world->watches, &contenders->watch,
                        el_keys_below(&driver->keys));
  return contenders;
}

void el_contenders_free(el_contenders *contenders) {
  if (contenders == NULL) return;
  el_watch_stop(contenders->driver->world->watches, &contenders->watch);
  el_census_forget(contenders->census);
  free(contenders);
}
