/* local_queue_seal: one who leaves his key to others while a write of his may still come.
 *
 * Of a key that is deleted nothing can come any more: every write is guarded by it. Where
 * others hold on to it, the note that the order of his writes hangs on is written anew
 * instead: what is late finds another mod_revision, and changes nothing. Until that is
 * sure, he isn't released, and nobody gets a turn here: it might be him again, who
 * writes something newer.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/of.h"
#include "lock/local_queue_int.h"
#include "rules/kind.h"
#include "rules/retry.h"

struct el_seal {
  el_request request;
  el_timer timer;
  el_local_queue *queue;
  el_owner *owner; /* NULL: he has been told that he lost */
  el_keys keys;
  int64_t rev; /* create_revision of the key */
  el_bytes note;
  int attempts;
  TAILQ_ENTRY(el_seal) link;
};

static void free_seal(el_seal *seal) {
  TAILQ_REMOVE(&seal->queue->queues->seals, seal, link);
  seal->queue->n_seals--;
  el_local_queue_touch(seal->queue);
  el_bytes_free(seal->note);
  el_keys_destroy(&seal->keys);
  free(seal);
}

static void send(el_seal *seal) {
  el_compare guard = {.test = EL_CREATE_REV_IS,
                      .key = el_keys_own(&seal->keys),
                      .rev = seal->rev};
  el_op put = {.kind = EL_OP_PUT, .key = seal->note, .lease = seal->keys.lease};
  el_txn txn = {&guard, 1, &put, 1, NULL, 0};
  seal->request.background = seal->attempts > 1;
  el_requests_send(seal->queue->queues->world->requests, &seal->request, &txn);
}

/* The client was closed: it isn't waited for. */
static void forget(el_seal *seal) {
  el_timers_stop(timers_of(seal->queue), &seal->timer);
  if (seal->owner != NULL) {
    el_local_queue_end_unconfirmed(seal->owner);
  }
  free_seal(seal);
}

static void on_timer(el_timer *timer) { send(EL_OF(timer, el_seal, timer)); }

/* Another cluster has nothing of ours. */
static bool is_elsewhere(const el_seal *seal, el_error *err) {
  const el_error *wrong =
      el_requests_wrong_cluster(seal->queue->queues->world->requests);
  if (wrong == NULL) return false;
  *err = *wrong;
  err->code = EL_LOST;
  return true;
}

/* If the key is gone nothing can come any more, either. */
static void on_answer(el_request *request, el_txn_answer *answer) {
  el_seal *seal = EL_OF(request, el_seal, request);
  el_error err;
  el_outcome outcome;
  if (answer == NULL) {
    forget(seal);
    return;
  }
  err = answer->err;
  outcome = el_outcome_of(&err, answer->sent_ms);
  el_txn_answer_free(answer);
  if (!is_elsewhere(seal, &err) && !outcome.done &&
      (!outcome.definite || outcome.retriable)) {
    seal->attempts += !outcome.elsewhere;
    el_timers_set(timers_of(seal->queue), &seal->timer,
                  el_retry_at(&outcome, el_now_ms(), seal->attempts,
                              (uint64_t)seal->rev));
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
  char key[EL_KEY_SIZE];
  el_place note;
  size_t len;
  el_kind_order_note(owner->mode, driver->entry.rev, owner->share, &note);
  len = el_key_write(key, owner->name, &note);
  seal->request.done = on_answer;
  seal->request.counted_as = offsetof(el_stats, calls);
  seal->timer.due = on_timer;
  seal->queue = owner->queue;
  seal->owner = is_lost ? NULL : owner;
  seal->rev = driver->entry.rev;
  seal->note = (el_bytes){el_strndup(key, len), len};
  el_keys_copy(&seal->keys, &driver->keys);
  TAILQ_INSERT_TAIL(&owner->queue->queues->seals, seal, link);
  owner->queue->n_seals++;
  if (!is_lost) {
    el_local_queue_detach(owner);
    owner->state = EL_OWNER_RELEASING;
  }
  send(seal);
}

void el_local_queue_forget_seals(el_local_queues *queues) {
  while (!TAILQ_EMPTY(&queues->seals)) {
    forget(TAILQ_FIRST(&queues->seals));
  }
}
