/* lingerers: what can't be freed yet, and is looked at until it can. */
#include "net/lingerers.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/of.h"

struct el_lingerer {
  bool (*look)(void *arg);
  void *arg;
  LIST_ENTRY(el_lingerer) link;
};

static void look_again(el_lingerers *lingerers) {
  el_timers_set(lingerers->timers, &lingerers->timer,
                el_now_ms() + EL_LINGERERS_LOOK_MS);
}

static void on_timer(el_timer *timer) {
  el_lingerers *lingerers = EL_OF(timer, el_lingerers, timer);
  if (el_lingerers_look(lingerers)) look_again(lingerers);
}

void el_lingerers_init(el_lingerers *lingerers, el_timers *timers) {
  lingerers->timers = timers;
  lingerers->timer.due = on_timer;
  LIST_INIT(&lingerers->all);
}

void el_lingerers_add(el_lingerers *lingerers, bool (*look)(void *arg),
                      void *arg) {
  el_lingerer *one = el_alloc(sizeof *one);
  one->look = look;
  one->arg = arg;
  LIST_INSERT_HEAD(&lingerers->all, one, link);
  look_again(lingerers);
}

bool el_lingerers_look(el_lingerers *lingerers) {
  el_lingerer *one, *next;
  for (one = LIST_FIRST(&lingerers->all); one != NULL; one = next) {
    next = LIST_NEXT(one, link);
    if (!one->look(one->arg)) {
      LIST_REMOVE(one, link);
      free(one);
    }
  }
  return el_lingerers_any(lingerers);
}

bool el_lingerers_any(const el_lingerers *lingerers) {
  return !LIST_EMPTY(&lingerers->all);
}
