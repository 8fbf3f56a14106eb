/* local_queue_seal: one who leaves his key to others while a write of his may still come
 * (rules/write_order.h). Until that can't be any more he isn't released, and nobody gets a
 * turn here.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/of.h"
#include "lock/local_queue_int.h"
#include "rules/recipe.h"
#include "rules/retry.h"

struct el_seal {
  el_request request;
  el_timer timer;
  el_local_queue *queue;
  el_owner *owner; /* NULL: he has been told that he lost */
  el_keys keys;
  el_writer who;
  el_write_order order;
  uint8_t failures; /* in a row */
  TAILQ_ENTRY(el_seal) link;
};

static void free_seal(el_seal *seal) {
  TAILQ_REMOVE(&seal->queue->queues->seals, seal, link);
  seal->queue->n_seals--;
  el_local_queue_touch(seal->queue);
  el_keys_destroy(&seal->keys);
  free(seal);
}

static void send(el_seal *seal) {
  EL_UNCLEARED el_recipe recipe;
  el_recipe_build_touch(&recipe, &seal->who);
  seal->request.background = seal->failures > 1;
  el_requests_send(seal->queue->queues->world->requests, &seal->request,
                   &recipe.txn);
}

/* The client was closed: it isn't waited for. */
static void forget(el_seal *seal) {
  el_timers_stop(timers_of(seal->queue), &seal->timer);
  if (seal->owner != NULL) {
    el_local_queue_end_unconfirmed(seal->owner);
  }
  free_seal(seal);
}

static void on_timer(el_timer *timer) {
  el_seal *seal = EL_OF(timer, el_seal, timer);
  el_write_event retry = {.kind = EL_WRITE_RETRY};
  el_write_order_step(&seal->order, &retry);
  send(seal);
}

/* Another cluster has nothing of ours. */
static bool is_elsewhere(const el_seal *seal, el_error *err) {
  const el_error *wrong =
      el_requests_wrong_cluster(seal->queue->queues->world->requests);
  if (wrong == NULL) return false;
  *err = *wrong;
  err->code = EL_LOST;
  return true;
}

static void rest(el_seal *seal, const el_outcome *failed) {
  el_timers_set(timers_of(seal->queue), &seal->timer,
                el_retry_next(failed, el_now_ms(), &seal->failures,
                              (uint64_t)seal->who.rev));
}

static void on_answer(el_request *request, el_txn_answer *answer) {
  el_seal *seal = EL_OF(request, el_seal, request);
  el_error err;
  el_write_event event;
  el_write_action action;
  if (answer == NULL) {
    forget(seal);
    return;
  }
  err = answer->err;
  el_recipe_read_guarded(&seal->who, answer, &event);
  el_txn_answer_free(answer);
  action = el_write_order_step(&seal->order, &event);
  if (!is_elsewhere(seal, &err) && action == EL_WRITE_AGAIN) {
    rest(seal, &event.outcome);
    return;
  }
  if (seal->owner != NULL) {
    el_local_queue_end_released(seal->owner, &err);
  }
  free_seal(seal);
}

void el_local_queue_seal(el_owner *owner, bool is_lost) {
  const el_entry_driver *driver = &owner->place->driver;
  el_seal *seal = el_alloc(sizeof *seal);
  el_write_event event = {.kind = EL_WRITE_SEAL};
  seal->request.done = on_answer;
  seal->request.counted_as = offsetof(el_stats, calls);
  seal->timer.due = on_timer;
  seal->queue = owner->queue;
  seal->owner = is_lost ? NULL : owner;
  el_keys_copy(&seal->keys, &driver->keys);
  seal->who = (el_writer){
      .keys = &seal->keys, .rev = driver->entry.rev, .share = owner->share};
  TAILQ_INSERT_TAIL(&owner->queue->queues->seals, seal, link);
  owner->queue->n_seals++;
  if (!is_lost) {
    el_local_queue_detach(owner);
    owner->state = EL_OWNER_RELEASING;
  }
  el_write_order_step(&seal->order, &event);
  send(seal);
}

void el_local_queue_forget_seals(el_local_queues *queues) {
  while (!TAILQ_EMPTY(&queues->seals)) {
    forget(TAILQ_FIRST(&queues->seals));
  }
}
