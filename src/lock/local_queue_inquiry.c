/* local_queue_inquiry: has he crashed whose key is in the way of a try? Where his lease's
 * id tells of a delay (rules/delay.h), etcd is asked how long it keeps that yet, before the
 * try is told.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "lock/local_queue_int.h"
#include "rules/delay.h"

struct el_inquiry {
  el_local_queues *queues;
  el_local_place *at; /* NULL: nobody waits for it any more */
  el_local_queue_told *told;
  TAILQ_ENTRY(el_inquiry) link;
};

static el_inquiry *find(const el_local_place *at) {
  el_inquiry *inquiry;
  TAILQ_FOREACH(inquiry, &at->queue->queues->inquiries, link) {
    if (inquiry->at == at) return inquiry;
  }
  return NULL;
}

static void on_answer(void *arg, const el_lease_keys *answer) {
  el_inquiry *inquiry = arg;
  el_local_place *at = inquiry->at;
  el_local_queue_told *told = inquiry->told;
  const el_lease_answer *lease = &answer->lease;
  bool is_known =
      lease->err.code == EL_OK && lease->ttl_ms > 0 &&
      el_requests_judge_lease(inquiry->queues->world->requests, lease);
  TAILQ_REMOVE(&inquiry->queues->inquiries, inquiry, link);
  free(inquiry);
  if (at == NULL) return;
  told(at, is_known ? el_delay_left(lease->id, lease->ttl_ms) : 0);
  at->driver.events->stepped(&at->driver);
}

bool el_local_queue_inquire(el_local_place *at, int64_t lease,
                            el_local_queue_told *told) {
  el_inquiry *inquiry;
  el_entry_world *world = at->driver.world;
  if (el_delay_of(lease) == 0) return false;
  inquiry = el_alloc(sizeof *inquiry);
  inquiry->queues = at->queue->queues;
  inquiry->at = at;
  inquiry->told = told;
  TAILQ_INSERT_TAIL(&inquiry->queues->inquiries, inquiry, link);
  EL_COUNT(world->counters, audits, 1);
  el_lease_ask(world->auth, lease, EL_ATTEMPT_MS, on_answer, inquiry);
  return true;
}

bool el_local_queue_is_inquired(const el_local_place *at) {
  return find(at) != NULL;
}

bool el_local_queue_drop_inquiry(const el_local_place *at) {
  el_inquiry *inquiry = find(at);
  if (inquiry == NULL) return false;
  inquiry->at = NULL;
  return true;
}
