/* local_queue: the owners of one client who want one name. */
#include "lock/local_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/of.h"
#include "lock/local_queue_int.h"

/* ---- places ---- */

static void on_stepped(el_entry_driver *driver);

el_local_place *el_local_queue_find_place(const el_local_queue *queue,
                                          uint32_t slot) {
  el_local_place *at;
  TAILQ_FOREACH(at, &queue->places, link) {
    if (at->driver.slot == slot) return at;
  }
  return NULL;
}

el_local_place *el_local_queue_new_place(el_local_queue *queue, el_bytes name,
                                         uint32_t slot) {
  el_place place = {
      .slot = slot, .mode = queue->mode, .permits = queue->permits};
  el_local_place *at = el_alloc(sizeof *at);
  at->driver.decided = el_local_queue_decided;
  at->driver.stepped = on_stepped;
  at->queue = queue;
  TAILQ_INIT(&at->fronts);
  TAILQ_INSERT_TAIL(&queue->places, at, link);
  el_entry_driver_init(&at->driver, queue->world, name, &place);
  return at;
}

void el_local_queue_free_place(el_local_place *at) {
  el_local_queue_end_inquiry(at);
  at->queue->uncertain =
      at->queue->uncertain || !el_entry_is_certain(&at->driver.entry);
  TAILQ_REMOVE(&at->queue->places, at, link);
  at->driver.world->users -= is_orphan(at);
  el_handoff_destroy(&at->handoff);
  el_entry_driver_destroy(&at->driver);
  free(at);
}

/* Can nothing of it be left in etcd, and does nobody need it? */
static bool is_idle(const el_local_place *at) {
  return TAILQ_EMPTY(&at->fronts) && at->releasing == NULL &&
         el_entry_is_over(&at->driver.entry);
}

/* ---- queues ---- */

void el_local_queue_touch(el_local_queue *queue) {
  if (!queue->changed) {
    queue->changed = true;
    TAILQ_INSERT_TAIL(&queue->queues->changed, queue, changed_link);
  }
}

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

static uint32_t slot_of_multi(const el_local_queue *queue) {
  uint32_t slot;
  memcpy(&slot, queue->id + queue->name_len + 1, sizeof slot);
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

static void free_queue(el_local_queue *queue) {
  el_local_place *at;
  while ((at = TAILQ_FIRST(&queue->places)) != NULL) {
    el_local_queue_free_place(at);
  }
  if (has_slot(queue) && !queue->uncertain) {
    el_slots_give_back(&queue->queues->slots, slot_of_multi(queue));
  }
  if (queue->changed) {
    TAILQ_REMOVE(&queue->queues->changed, queue, changed_link);
  }
  queue->world->users--;
  HASH_DEL(queue->queues->by_id, queue);
  free(queue->id);
  free(queue);
}

/* Where nothing is handed on, readers share their key all the same. */
const el_turn_limits *el_local_queue_limits(const el_local_queue *queue) {
  static const el_turn_limits usual = {.holds = 32, .ms = 50};
  const el_turn_limits *limits = &queue->queues->limits;
  return is_shared(queue) && limits->holds < 2 ? &usual : limits;
}

/* Its entry may be free for the next one now, or over. */
static void on_stepped(el_entry_driver *driver) {
  el_local_place *at = EL_OF(driver, el_local_place, driver);
  if (!is_orphan(at)) {
    el_local_queue_touch(at->queue);
  } else if (el_entry_is_over(&driver->entry)) {
    el_local_queue_free_place(at);
  }
}

void el_local_queue_signal_last(el_local_place *at, int kind) {
  if (at != NULL && TAILQ_EMPTY(&at->fronts)) {
    el_entry_driver_signal(&at->driver, kind);
  }
}

/* ---- joining and leaving ---- */

bool el_local_queue_has_fronts(const el_local_queue *queue) {
  const el_local_place *at;
  TAILQ_FOREACH(at, &queue->places, link) {
    if (!TAILQ_EMPTY(&at->fronts)) return true;
  }
  return false;
}

/* How many places there may be. A writer who only reads on is not in the way of the next
 * one's place in etcd's queue. */
static uint32_t capacity(const el_local_queue *queue) {
  const el_local_place *at;
  uint32_t n = 1;
  switch (queue->mode) {
    case EL_MODE_READ:
      return UINT32_MAX;
    case EL_MODE_PERMIT:
      return queue->permits;
    default:
      TAILQ_FOREACH(at, &queue->places, link) {
        n += at->is_downgraded && !TAILQ_EMPTY(&at->fronts);
      }
      return n;
  }
}

/* Are there as many others in front, or waiting before him, as there are places? */
static bool has_to_wait(const el_owner *owner) {
  const el_local_queue *queue = owner->queue;
  const el_owner *other = TAILQ_FIRST(&queue->waiting);
  const el_local_place *at;
  uint32_t n = 0, most = capacity(queue);
  if (is_shared(queue)) return false;
  TAILQ_FOREACH(at, &queue->places, link) {
    n += !TAILQ_EMPTY(&at->fronts) ||
         at->driver.entry.state == EL_ENTRY_DELAYING;
  }
  for (; other != owner && n < most; other = TAILQ_NEXT(other, link)) {
    n++;
  }
  return n >= most;
}

static void begin_wait(el_owner *owner) {
  el_local_queue_contest_for(owner);
  if (owner->state != EL_OWNER_WAITING) return; /* it is his at once */
  owner->waited = has_to_wait(owner);
  if (owner->try_once && owner->waited) {
    el_local_queue_fail_locked(owner);
  } else {
    el_local_queue_set_deadline(owner);
  }
}

/* A queue for one who wants several names: his alone, with a slot that nobody has. */
static el_local_queue *add_multi(el_local_queues *queues,
                                 el_entry_world *world) {
  el_place wanted = {.slot = el_slots_take(&queues->slots),
                     .mode = EL_MODE_MULTI};
  return el_local_queue_find_or_add(queues, world, (el_bytes){0}, &wanted);
}

static el_local_queue *queue_for(el_local_queues *queues, el_entry_world *world,
                                 const el_owner *owner) {
  el_place wanted = {.mode = owner->mode, .permits = owner->permits};
  return owner->mode == EL_MODE_MULTI
             ? add_multi(queues, world)
             : el_local_queue_find_or_add(queues, world, owner->name, &wanted);
}

void el_local_queue_join(el_local_queues *queues, el_owner *owner,
                         int64_t delay_ms) {
  el_entry_world *world = queues->closed.code == EL_OK
                              ? el_sessions_find(queues->sessions, delay_ms)
                              : queues->world;
  el_local_queue *queue =
      queue_for(queues, world != NULL ? world : queues->world, owner);
  const el_error *wrong = el_requests_wrong_cluster(queues->world->requests);
  EL_COUNT(queues->world->counters, waiting, 1);
  owner->queue = queue;
  owner->state = EL_OWNER_WAITING;
  owner->timer.due = el_local_queue_on_timer;
  TAILQ_INSERT_TAIL(&queue->waiting, owner, link);
  el_local_queue_touch(queue);
  if (queues->closed.code != EL_OK) {
    el_local_queue_fail(owner, &queues->closed);
  } else if (wrong != NULL) {
    el_local_queue_fail(owner, wrong);
  } else if (world == NULL) {
    el_local_queue_fail_delays(owner, delay_ms);
  } else {
    begin_wait(owner);
  }
}

void el_local_queue_leave(el_owner *owner, el_leave how, el_loss loss) {
  el_local_place *at = owner->place;
  switch (owner->state) {
    case EL_OWNER_OUT:
    case EL_OWNER_RELEASING:
      return;
    case EL_OWNER_HOLDING:
      if (how == EL_LEAVE_LOST) {
        el_local_queue_leave_lost(owner, loss);
      } else {
        el_local_queue_let_go(owner, how == EL_LEAVE_BY_ITSELF);
      }
      return;
    case EL_OWNER_WAITING:
    case EL_OWNER_FRONT:
      el_local_queue_fail_cancelled(owner);
      el_local_queue_signal_last(at, EL_ENTRY_STOP);
  }
}

void el_local_queue_downgrade(el_owner *owner) {
  if (owner->state == EL_OWNER_HOLDING) {
    owner->place->is_downgraded = true;
    el_local_queue_touch(owner->queue);
  }
}

void el_local_queue_key_gone(el_owner *owner, int64_t rev) {
  if (owner->state == EL_OWNER_HOLDING) {
    el_entry_driver_key_gone(&owner->place->driver, rev);
  }
}

/* ---- whose turn ---- */

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

/* Not before the one in front has left etcd's queue for good: it is the same key,
 * and of two requests about it that are out at once etcd may carry out the later
 * one first. */
static bool is_free(const el_local_place *at) {
  return TAILQ_EMPTY(&at->fronts) && el_entry_is_free(&at->driver.entry);
}

/* A place for |next|; NULL: he has to wait for one. */
static el_local_place *take_place(el_local_queue *queue, const el_owner *next) {
  el_local_place *at, *found = NULL;
  uint32_t n = 0;
  uint32_t slot = queue->mode == EL_MODE_MULTI ? slot_of_multi(queue) : 0;
  TAILQ_FOREACH(at, &queue->places, link) {
    if (at->driver.slot >= slot) slot = at->driver.slot + 1; /* nobody's */
    if (!is_free(at)) {
      n++;
    } else if (found == NULL) {
      found = at;
    }
  }
  if (n >= capacity(queue)) return NULL;
  return found != NULL ? found
                       : el_local_queue_new_place(queue, next->name, slot);
}

static void hurry(el_local_queue *queue) {
  el_local_place *at;
  TAILQ_FOREACH(at, &queue->places, link) {
    if (TAILQ_EMPTY(&at->fronts)) {
      el_entry_driver_hurry(&at->driver);
    }
  }
}

/* Who began last is the last of the places. */
static void begin_at(el_local_place *at, el_owner *next) {
  el_local_queue *queue = at->queue;
  TAILQ_REMOVE(&queue->places, at, link);
  TAILQ_INSERT_TAIL(&queue->places, at, link);
  at->is_downgraded = false;
  el_local_queue_put_in_front(at, next);
  el_entry_driver_start(&at->driver, el_local_queue_tries(next), next->value);
}

/* Gives the first who waits his turn; false: not yet. */
static bool give_turn(el_local_queue *queue) {
  el_owner *next = TAILQ_FIRST(&queue->waiting);
  el_sharing how = el_local_queue_share_turn(queue, next);
  el_local_place *at = how == EL_SHARE_NOT ? take_place(queue, next) : NULL;
  if (how == EL_SHARE_NOW) return true;
  if (at != NULL) {
    begin_at(at, next);
    return true;
  }
  hurry(queue);
  return false;
}

/* Gives turns to those who wait, as long as there are any. */
static void give_turns(el_local_queue *queue) {
  el_local_place *at;
  while (!TAILQ_EMPTY(&queue->waiting) && give_turn(queue)) {
  }
  TAILQ_FOREACH(at, &queue->places, link) { el_handoff_settle(&at->handoff); }
}

/* The next one's turn, or the end of the queue. That comes only when nothing of
 * ours can be left in etcd: a place has to outlive the last who wanted it, to take its
 * key out. */
static void settle(el_local_queue *queue) {
  el_local_place *at, *next;
  if (!el_session_driver_is_alive(queue->world->session)) {
    queue->world->wanted =
        queue->world->wanted ||
        (!TAILQ_EMPTY(&queue->waiting) && !el_local_queue_has_fronts(queue));
  } else if (queue->n_seals == 0) {
    give_turns(queue);
  }
  for (at = TAILQ_FIRST(&queue->places); at != NULL; at = next) {
    next = TAILQ_NEXT(at, link);
    if (TAILQ_EMPTY(&queue->waiting) && is_idle(at)) {
      el_local_queue_free_place(at);
    }
  }
  if (TAILQ_EMPTY(&queue->waiting) && TAILQ_EMPTY(&queue->places) &&
      queue->n_seals == 0) {
    free_queue(queue);
  }
}

void el_local_queues_settle(el_local_queues *queues) {
  el_local_queue *queue;
  while ((queue = TAILQ_FIRST(&queues->changed)) != NULL) {
    TAILQ_REMOVE(&queues->changed, queue, changed_link);
    queue->changed = false;
    settle(queue);
  }
}

bool el_local_queues_are_settled(const el_local_queues *queues) {
  return TAILQ_EMPTY(&queues->changed);
}

/* ---- life ---- */

el_local_queues *el_local_queues_new(el_sessions *sessions,
                                     const el_turn_limits *limits) {
  el_local_queues *queues = el_alloc(sizeof *queues);
  queues->sessions = sessions;
  queues->world = el_sessions_first(sessions);
  queues->limits = *limits;
  TAILQ_INIT(&queues->changed);
  queues->orphans.queues = queues;
  TAILQ_INIT(&queues->orphans.places);
  TAILQ_INIT(&queues->seals);
  TAILQ_INIT(&queues->inquiries);
  return queues;
}

void el_local_queues_free(el_local_queues *queues) {
  el_local_queue *queue, *next;
  el_local_place *at;
  el_local_queue_forget_seals(queues);
  HASH_ITER(hh, queues->by_id, queue, next) {
    TAILQ_FOREACH(at, &queue->places, link) { el_local_queue_give_up(at); }
    free_queue(queue);
  }
  while ((at = TAILQ_FIRST(&queues->orphans.places)) != NULL) {
    el_local_queue_give_up(at);
    el_local_queue_free_place(at);
  }
  el_slots_destroy(&queues->slots);
  free(queues);
}

size_t el_local_queue_size(void) {
  return sizeof(el_local_queue) + sizeof(el_local_place) +
         el_entry_driver_watch_size();
}
