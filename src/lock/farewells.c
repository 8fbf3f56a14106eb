/* farewells: ends leases that nobody needs any more. */
#include "lock/farewells.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "etcd/lease.h"
#include "lock/requests.h"
#include "rules/retry.h"

struct el_farewell {
  int64_t id;
  int64_t until_ms; /* then etcd has ended it without us */
  STAILQ_ENTRY(el_farewell) link;
};

typedef struct el_farewell el_farewell;

static void drop_first(el_farewells *farewells) {
  el_farewell *first = STAILQ_FIRST(&farewells->list);
  STAILQ_REMOVE_HEAD(&farewells->list, link);
  free(first);
}

static void send_first(el_farewells *farewells);

/* A refusal that will be one again is most likely that there is no such lease. */
static void on_answer(void *arg, const el_lease_answer *answer) {
  el_farewells *farewells = arg;
  el_outcome failed = el_outcome_of(&answer->err, answer->sent_ms);
  farewells->is_out = false;
  if (failed.is_done || el_outcome_is_final(&failed)) {
    farewells->failures = 0;
    drop_first(farewells);
    send_first(farewells);
  } else if (!farewells->stopping) {
    el_timers_set(farewells->timers, &farewells->timer,
                  el_retry_next(&failed, el_now_ms(), &farewells->failures,
                                (uint64_t)STAILQ_FIRST(&farewells->list)->id));
  }
}

/* One at a time: nobody waits for these, and there may be many after an outage. */
static void send_first(el_farewells *farewells) {
  el_farewell *first;
  if (farewells->stopping || farewells->is_out) return;
  while ((first = STAILQ_FIRST(&farewells->list)) != NULL &&
         el_now_ms() >= first->until_ms) {
    drop_first(farewells);
  }
  if (first == NULL) return;
  farewells->is_out = true;
  EL_COUNT(farewells->counters, revokes, 1);
  el_lease_revoke(farewells->auth, first->id, EL_ATTEMPT_MS, on_answer,
                  farewells);
}

static void on_timer(el_timer *timer) {
  send_first(EL_CONTAINER_OF(timer, el_farewells, timer));
}

void el_farewells_init(el_farewells *farewells) {
  STAILQ_INIT(&farewells->list);
  farewells->timer.on_due = on_timer;
}

void el_farewells_add(el_farewells *farewells, int64_t id, int64_t ttl_ms) {
  el_farewell *farewell = el_alloc(sizeof *farewell);
  *farewell = (el_farewell){.id = id, .until_ms = el_now_ms() + ttl_ms};
  STAILQ_INSERT_TAIL(&farewells->list, farewell, link);
  /* Else one before it waits to be repeated. */
  if (farewells->timer.slot == 0) {
    send_first(farewells);
  }
}

void el_farewells_stop(el_farewells *farewells) {
  farewells->stopping = true;
  el_timers_stop(farewells->timers, &farewells->timer);
}

void el_farewells_destroy(el_farewells *farewells) {
  while (!STAILQ_EMPTY(&farewells->list)) {
    drop_first(farewells);
  }
}
