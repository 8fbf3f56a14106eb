/* local_queue_places: the queues of a client, their places, and who has which. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/of.h"
#include "lock/local_queue_int.h"

void el_local_queue_touch(el_local_queue *queue) {
  if (!queue->changed) {
    queue->changed = true;
    TAILQ_INSERT_TAIL(&queue->queues->changed, queue, changed_link);
  }
}

/* ---- places ---- */

el_local_place *el_local_queue_find_place(const el_local_queue *queue,
                                          uint32_t slot) {
  el_local_place *at;
  TAILQ_FOREACH(at, &queue->places, link) {
    if (at->driver.slot == slot) return at;
  }
  return NULL;
}

void el_local_queue_free_place(el_local_place *at) {
  el_local_queue_drop_inquiry(at);
  at->queue->uncertain =
      at->queue->uncertain || !el_entry_is_certain(&at->driver.entry);
  TAILQ_REMOVE(&at->queue->places, at, link);
  at->driver.world->users -= is_orphan(at);
  el_handoff_destroy(&at->handoff);
  el_entry_driver_destroy(&at->driver);
  free(at);
}

void el_local_queue_stepped(el_entry_driver *driver) {
  el_local_place *at = EL_OF(driver, el_local_place, driver);
  if (!is_orphan(at)) {
    el_local_queue_touch(at->queue);
  } else if (el_entry_is_over(&driver->entry)) {
    el_local_queue_free_place(at);
  }
}

el_local_place *el_local_queue_new_place(el_local_queue *queue, el_bytes name,
                                         uint32_t slot) {
  el_place place = {
      .slot = slot, .mode = queue->mode, .permits = queue->permits};
  el_local_place *at = el_alloc(sizeof *at);
  at->driver.events = &queue->queues->place_events;
  at->queue = queue;
  TAILQ_INIT(&at->fronts);
  TAILQ_INSERT_TAIL(&queue->places, at, link);
  el_entry_driver_init(&at->driver, queue->world, name, &place);
  return at;
}

void el_local_queue_signal_last(el_local_place *at, int kind) {
  if (at != NULL && TAILQ_EMPTY(&at->fronts)) {
    el_entry_driver_signal(&at->driver, kind);
  }
}

/* ---- queues ---- */

enum { ID_MAX = EL_NAME_MAX + 1 + 2 * sizeof(uint32_t) };

/* Writes what tells the queue of |name| and |place| from others; returns its length. Who
 * wants several names has a queue, and a slot, for himself. */
static size_t write_id(char *id, const el_entry_world *world, el_bytes name,
                       const el_place *place) {
  uint32_t which = place->mode == EL_MODE_MULTI ? place->slot : place->permits;
  uint32_t delay = (uint32_t)world->delay_ms;
  if (name.len > 0) memcpy(id, name.data, name.len);
  id[name.len] = (char)place->mode;
  memcpy(id + name.len + 1, &which, sizeof which);
  memcpy(id + name.len + 1 + sizeof which, &delay, sizeof delay);
  return name.len + 1 + sizeof which + sizeof delay;
}

/* Did somebody ask for several names with it? */
static bool has_slot(const el_local_queue *queue) {
  return queue->mode == EL_MODE_MULTI && queue->name_len == 0;
}

uint32_t el_local_queue_first_slot(const el_local_queue *queue) {
  uint32_t slot = 0;
  if (queue->mode == EL_MODE_MULTI) {
    memcpy(&slot, queue->id + queue->name_len + 1, sizeof slot);
  }
  return slot;
}

static el_local_queue *find_id(const el_local_queues *queues, const char *id,
                               size_t len) {
  el_local_queue *queue = NULL;
  HASH_FIND(hh, queues->by_id, id, len, queue);
  return queue;
}

el_local_queue *el_local_queue_find(const el_local_queues *queues,
                                    const el_entry_world *world, el_bytes name,
                                    const el_place *place) {
  char id[ID_MAX];
  return find_id(queues, id, write_id(id, world, name, place));
}

el_local_queue *el_local_queue_find_or_add(el_local_queues *queues,
                                           el_entry_world *world, el_bytes name,
                                           const el_place *place) {
  char id[ID_MAX];
  size_t len = write_id(id, world, name, place);
  el_local_queue *queue = find_id(queues, id, len);
  if (queue == NULL) {
    queue = el_alloc(sizeof *queue);
    queue->queues = queues;
    queue->world = world;
    world->users++;
    queue->id = el_strndup(id, len);
    queue->name_len = (uint16_t)name.len;
    queue->mode = (uint8_t)place->mode;
    queue->permits = place->permits;
    TAILQ_INIT(&queue->waiting);
    TAILQ_INIT(&queue->places);
    HASH_ADD_KEYPTR(hh, queues->by_id, queue->id, len, queue);
  }
  return queue;
}

void el_local_queue_free(el_local_queue *queue) {
  el_local_place *at;
  while ((at = TAILQ_FIRST(&queue->places)) != NULL) {
    el_local_queue_free_place(at);
  }
  if (has_slot(queue) && !queue->uncertain) {
    el_slots_give_back(&queue->queues->slots, el_local_queue_first_slot(queue));
  }
  if (queue->changed) {
    TAILQ_REMOVE(&queue->queues->changed, queue, changed_link);
  }
  queue->world->users--;
  HASH_DEL(queue->queues->by_id, queue);
  free(queue->id);
  free(queue);
}

/* ---- who has which ---- */

bool el_local_queue_has_fronts(const el_local_queue *queue) {
  const el_local_place *at;
  TAILQ_FOREACH(at, &queue->places, link) {
    if (!TAILQ_EMPTY(&at->fronts)) return true;
  }
  return false;
}

bool el_local_queue_is_alone(const el_owner *owner) {
  return TAILQ_FIRST(&owner->place->fronts) == owner &&
         TAILQ_NEXT(owner, link) == NULL;
}

void el_local_queue_put_in_front(el_local_place *at, el_owner *owner) {
  TAILQ_REMOVE(&owner->queue->waiting, owner, link);
  TAILQ_INSERT_TAIL(&at->fronts, owner, link);
  owner->place = at;
  owner->state = EL_OWNER_FRONT;
}

/* What an enqueue puts is its first owner's; of several, that of one who is left. */
static void leave_place(el_local_place *at, el_owner *owner) {
  const el_owner *first;
  TAILQ_REMOVE(&at->fronts, owner, link);
  first = TAILQ_FIRST(&at->fronts);
  at->driver.value = first != NULL ? first->value : (el_bytes){0};
}

void el_local_queue_detach(el_owner *owner) {
  el_local_queue *queue = owner->queue;
  if (owner->state == EL_OWNER_WAITING) {
    TAILQ_REMOVE(&queue->waiting, owner, link);
  } else {
    leave_place(owner->place, owner);
  }
  el_timers_stop(timers_of(queue), &owner->timer);
  if (owner->linger != NULL) {
    el_linger_unwatch(owner->linger);
  }
  owner->queue = NULL;
  owner->place = NULL;
  owner->state = EL_OWNER_OUT;
  el_local_queue_touch(queue);
}
