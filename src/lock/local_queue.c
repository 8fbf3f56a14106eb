/* local_queue: the owners of one client who want one name. */
#include "lock/local_queue.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "lock/local_queue_int.h"

/* ---- joining and leaving ---- */

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
  uint32_t slot = el_local_queue_first_slot(queue);
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

/* Can nothing of it be left in etcd, and does nobody need it? */
static bool is_idle(const el_local_place *at) {
  return TAILQ_EMPTY(&at->fronts) && at->releasing == NULL &&
         el_entry_is_over(&at->driver.entry);
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
  } else {
    give_turns(queue);
  }
  for (at = TAILQ_FIRST(&queue->places); at != NULL; at = next) {
    next = TAILQ_NEXT(at, link);
    if (TAILQ_EMPTY(&queue->waiting) && is_idle(at)) {
      el_local_queue_free_place(at);
    }
  }
  if (TAILQ_EMPTY(&queue->waiting) && TAILQ_EMPTY(&queue->places)) {
    el_local_queue_free(queue);
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
  queues->place_events =
      (el_entry_events){el_local_queue_decided, el_local_queue_stepped};
  TAILQ_INIT(&queues->changed);
  queues->orphans.queues = queues;
  TAILQ_INIT(&queues->orphans.places);
  TAILQ_INIT(&queues->inquiries);
  return queues;
}

void el_local_queues_free(el_local_queues *queues) {
  el_local_queue *queue, *next;
  el_local_place *at;
  HASH_ITER(hh, queues->by_id, queue, next) {
    TAILQ_FOREACH(at, &queue->places, link) { el_local_queue_give_up(at); }
    el_local_queue_free(queue);
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
