/* lease_revocations: the lease revocation queue. */
#include "lock/lease_revocations.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "etcd/lease.h"
#include "lock/request_queue.h"
#include "protocol/retry.h"

struct el_revocation {
  int64_t id;
  int64_t until_ms; /* when the lease has ended by itself (el_now_ms) */
  STAILQ_ENTRY(el_revocation) link;
};

typedef struct el_revocation el_revocation;

static void drop_first(el_lease_revocations *revocations) {
  el_revocation *first = STAILQ_FIRST(&revocations->list);
  STAILQ_REMOVE_HEAD(&revocations->list, link);
  free(first);
}

static void send_first(el_lease_revocations *revocations);

/* Takes the answer to the revoke of the first lease. A final refusal counts as success, because it
 * most likely says that there is no such lease. */
static void on_answer(void *arg, const el_lease_answer *answer) {
  el_lease_revocations *revocations = arg;
  el_outcome failed = el_outcome_of(&answer->err, answer->sent_ms);
  revocations->is_in_flight = false;
  if (failed.is_done || el_outcome_is_final(&failed)) {
    revocations->failures = 0;
    drop_first(revocations);
    send_first(revocations);
  } else if (!revocations->is_stopping) {
    el_timers_set(
        revocations->shared->timers, &revocations->timer,
        el_retry_next(&failed, el_now_ms(), &revocations->failures,
                      (uint64_t)STAILQ_FIRST(&revocations->list)->id));
  }
}

static void send_first(el_lease_revocations *revocations) {
  el_revocation *first;
  if (revocations->is_stopping || revocations->is_in_flight) return;
  while ((first = STAILQ_FIRST(&revocations->list)) != NULL &&
         el_now_ms() >= first->until_ms) {
    drop_first(revocations);
  }
  if (first == NULL) return;
  revocations->is_in_flight = true;
  EL_COUNT(&revocations->shared->counters, revokes, 1);
  el_lease_revoke(revocations->shared->auth, first->id, on_answer, revocations);
}

static void on_timer(el_timer *timer) {
  send_first(EL_CONTAINER_OF(timer, el_lease_revocations, timer));
}

void el_lease_revocations_init(el_lease_revocations *revocations,
                               el_shared *shared) {
  revocations->shared = shared;
  STAILQ_INIT(&revocations->list);
  revocations->timer.on_due = on_timer;
}

void el_lease_revocations_add(el_lease_revocations *revocations, int64_t id,
                              int64_t ttl_ms) {
  el_revocation *added = el_alloc(sizeof *added);
  *added = (el_revocation){.id = id, .until_ms = el_now_ms() + ttl_ms};
  STAILQ_INSERT_TAIL(&revocations->list, added, link);
  /* if the timer is set, an earlier lease waits for its retry */
  if (revocations->timer.slot == 0) {
    send_first(revocations);
  }
}

void el_lease_revocations_stop(el_lease_revocations *revocations) {
  revocations->is_stopping = true;
  el_timers_stop(revocations->shared->timers, &revocations->timer);
}

void el_lease_revocations_destroy(el_lease_revocations *revocations) {
  while (!STAILQ_EMPTY(&revocations->list)) {
    drop_first(revocations);
  }
}
