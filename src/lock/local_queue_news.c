/* local_queue_news: what the news of a session mean to its queues. */
#include <string.h>

#include "lock/local_queue_int.h"

void el_local_queues_begin(el_local_queues *queues,
                           const el_entry_world *world) {
  el_local_queue *queue, *next;
  HASH_ITER(hh, queues->by_id, queue, next) {
    if (queue->world == world) el_local_queue_touch(queue);
  }
}

void el_local_queues_refuse(el_local_queues *queues,
                            const el_entry_world *world, const el_error *err) {
  el_local_queue *queue, *next;
  HASH_ITER(hh, queues->by_id, queue, next) {
    /* Of those in front their own requests tell. */
    if (queue->world != world || el_local_queue_has_fronts(queue)) continue;
    while (!TAILQ_EMPTY(&queue->waiting)) {
      el_local_queue_fail(TAILQ_FIRST(&queue->waiting), err);
    }
  }
}

/* Those who drive |at| without holding fail, for |away|. */
static void fail_fronts(el_local_place *at, const el_error *away) {
  el_owner *owner;
  while ((owner = TAILQ_FIRST(&at->fronts)) != NULL &&
         owner->state == EL_OWNER_FRONT) {
    el_local_queue_fail_away(owner, away);
    el_local_queue_signal_last(at, EL_ENTRY_STOP);
  }
}

void el_local_queues_fail_waiting(el_local_queues *queues,
                                  const el_error *away) {
  el_local_queue *queue, *next;
  el_local_place *at;
  HASH_ITER(hh, queues->by_id, queue, next) {
    TAILQ_FOREACH(at, &queue->places, link) { fail_fronts(at, away); }
    while (!TAILQ_EMPTY(&queue->waiting)) {
      el_local_queue_fail_away(TAILQ_FIRST(&queue->waiting), away);
    }
  }
}

void el_local_queues_lapse(el_local_queues *queues,
                           const el_entry_world *world) {
  el_local_queue *queue, *next;
  el_local_place *at;
  HASH_ITER(hh, queues->by_id, queue, next) {
    if (queue->world != world) continue;
    TAILQ_FOREACH(at, &queue->places, link) {
      el_entry_driver_signal(&at->driver, EL_ENTRY_LAPSED);
    }
  }
}

/* That of who wants several names, by a key in the queue of one of them. */
static el_local_place *find_multi(const el_local_queues *queues,
                                  const el_entry_world *world,
                                  const el_place *place) {
  const el_local_queue *queue =
      place->mode == EL_MODE_MULTI
          ? el_local_queue_find(queues, world, (el_bytes){0}, place)
          : NULL;
  return queue != NULL ? TAILQ_FIRST(&queue->places) : NULL;
}

static el_entry_world *world_of(const el_local_queues *queues, int64_t lease) {
  el_entry_world *world = queues->world;
  while (world != NULL && el_session_driver_lease(world->session) != lease) {
    world = world->next;
  }
  return world;
}

/* The name and the place of a |key| that |lease| has; empty: it is none of ours. No name
 * of ours has a NUL: many others' keys may. */
static el_bytes own_name(el_bytes key, int64_t lease, el_place *place) {
  el_bytes name = el_key_name(key, place);
  if (name.len == 0 || name.len > EL_NAME_MAX ||
      memchr(name.data, '\0', name.len) != NULL || place->is_timed ||
      place->lease != lease || place->mode > EL_MODE_MULTI) {
    return (el_bytes){0};
  }
  return name;
}

void el_local_queues_find_key(el_local_queues *queues, int64_t lease,
                              el_bytes key) {
  el_entry_world *world = world_of(queues, lease);
  el_place place = {0};
  el_bytes name = own_name(key, lease, &place);
  el_local_queue *queue;
  el_local_place *at;
  if (name.len == 0) return;
  at = find_multi(queues, world, &place);
  if (at == NULL && place.mode == EL_MODE_MULTI &&
      el_slots_is_free(&queues->slots, place.slot)) {
    return; /* it has gone since, and who asks next may have its name */
  }
  if (at == NULL) {
    queue = el_local_queue_find_or_add(queues, world, name, &place);
    at = el_local_queue_find_place(queue, place.slot);
  }
  if (at == NULL) {
    at = el_local_queue_new_place(queue, name, place.slot);
  }
  el_entry_driver_signal(&at->driver, EL_ENTRY_KEY_FOUND);
}

/* Its place stays until the last request is answered, because the answer comes to
 * it; but it is not the queue's any more, whose next one begins anew, with another
 * lease and so with another key. */
static void bury_place(el_local_place *at, el_session_end end) {
  el_local_queue *queue = at->queue;
  if (el_local_queue_drop_inquiry(at)) {
    el_local_queue_fail_kept_out(at, 0);
  }
  el_entry_driver_orphan(&at->driver, end);
  TAILQ_REMOVE(&queue->places, at, link);
  at->queue = &queue->queues->orphans;
  TAILQ_INSERT_TAIL(&at->queue->places, at, link);
  at->driver.world->users++;
  if (el_entry_is_over(&at->driver.entry)) {
    el_local_queue_free_place(at);
  }
}

static void bury(el_local_queue *queue, el_session_end end) {
  if (TAILQ_EMPTY(&queue->places)) return;
  while (!TAILQ_EMPTY(&queue->places)) {
    /* Who began last goes to the head of those who wait first. */
    bury_place(TAILQ_LAST(&queue->places, el_local_place_list), end);
  }
  el_local_queue_touch(queue);
}

void el_local_queues_bury(el_local_queues *queues, const el_entry_world *world,
                          el_session_end end) {
  el_local_queue *queue, *next;
  HASH_ITER(hh, queues->by_id, queue, next) {
    if (queue->world == world) bury(queue, end);
  }
}

/* Those who hold by |at| lose; those who wait fail. */
static void end_fronts(el_local_place *at, const el_error *err, el_loss loss) {
  el_owner *owner;
  while ((owner = TAILQ_FIRST(&at->fronts)) != NULL) {
    if (owner->state == EL_OWNER_HOLDING) {
      el_local_queue_end_lost(owner, loss);
    } else {
      el_local_queue_fail(owner, err);
    }
  }
}

static void fail_all(el_local_queues *queues, const el_error *err,
                     el_loss loss) {
  el_local_queue *queue, *next;
  el_local_place *at;
  HASH_ITER(hh, queues->by_id, queue, next) {
    TAILQ_FOREACH(at, &queue->places, link) { end_fronts(at, err, loss); }
    while (!TAILQ_EMPTY(&queue->waiting)) {
      el_local_queue_fail(TAILQ_FIRST(&queue->waiting), err);
    }
  }
}

void el_local_queues_leave(el_local_queues *queues, const el_error *err) {
  el_local_queue *queue, *next;
  el_local_place *at, *after;
  el_error lost = *err;
  lost.code = EL_LOST;
  fail_all(queues, err, EL_LOSS_CLUSTER);
  HASH_ITER(hh, queues->by_id, queue, next) {
    bury(queue, EL_SESSION_CUT_SHORT);
  }
  for (at = TAILQ_FIRST(&queues->orphans.places); at != NULL; at = after) {
    after = TAILQ_NEXT(at, link);
    if (at->releasing != NULL) {
      el_local_queue_finish(at, &lost);
    }
    el_entry_driver_orphan(&at->driver, EL_SESSION_CUT_SHORT);
  }
}

void el_local_queues_close(el_local_queues *queues, const el_error *err) {
  queues->closed = *err;
  fail_all(queues, err, EL_LOSS_CLOSED);
}
