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

el_local_place *el_local_queue_new_place(el_local_queue *queue, uint32_t slot) {
  el_place place = {
      .slot = slot, .mode = queue->mode, .permits = queue->permits};
  el_local_place *at = el_alloc(sizeof *at);
  at->driver.decided = el_local_queue_decided;
  at->driver.stepped = on_stepped;
  at->queues = queue->queues;
  at->queue = queue;
  TAILQ_INIT(&at->fronts);
  TAILQ_INSERT_TAIL(&queue->places, at, link);
  el_entry_driver_init(&at->driver, queue->queues->world,
                       (el_bytes){queue->id, queue->name_len}, &place);
  return at;
}

void el_local_queue_free_place(el_local_place *at) {
  if (at->queue == NULL) {
    TAILQ_REMOVE(&at->queues->orphans, at, link);
  } else {
    TAILQ_REMOVE(&at->queue->places, at, link);
  }
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

enum { ID_MAX = EL_NAME_MAX + 3 };

/* Writes what tells the queue of |name| and |place| from others; returns its length. */
static size_t write_id(char *id, el_bytes name, const el_place *place) {
  memcpy(id, name.data, name.len);
  id[name.len] = (char)place->mode;
  id[name.len + 1] = (char)(place->permits & 0xff);
  id[name.len + 2] = (char)(place->permits >> 8);
  return name.len + 3;
}

el_local_queue *el_local_queue_find_or_add(el_local_queues *queues,
                                           el_bytes name,
                                           const el_place *place) {
  char id[ID_MAX];
  size_t len = write_id(id, name, place);
  el_local_queue *queue = NULL;
  HASH_FIND(hh, queues->by_id, id, len, queue);
  if (queue == NULL) {
    queue = el_alloc(sizeof *queue);
    queue->queues = queues;
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
  if (queue->changed) {
    TAILQ_REMOVE(&queue->queues->changed, queue, changed_link);
  }
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
  if (at->queue != NULL) {
    el_local_queue_touch(at->queue);
  } else if (el_entry_is_over(&driver->entry)) {
    el_local_queue_free_place(at);
  }
}

/* ---- time ---- */

static bool waits_for_contact(const el_owner *owner) {
  const el_local_queues *queues = owner->queue->queues;
  return owner->deadline_ms == INT64_MAX &&
         !el_requests_have_contact(queues->world->requests);
}

void el_local_queue_signal_last(el_local_place *at, int kind) {
  if (at != NULL && TAILQ_EMPTY(&at->fronts)) {
    el_entry_driver_signal(&at->driver, kind);
  }
}

/* One who waits without a time limit waits out an outage like another holder;
 * but where etcd has never been, he would wait for a typing mistake. */
static void on_deadline(el_owner *owner) {
  el_local_place *at = owner->place;
  bool endless = owner->deadline_ms == INT64_MAX;
  if (endless && !waits_for_contact(owner)) return; /* it has come meanwhile */
  el_local_queue_fail_in_time(owner, endless ? EL_FIRST_CONTACT_MS
                                             : owner->timeout_ms);
  el_local_queue_signal_last(at, EL_ENTRY_STOP);
}

/* Of those who share a key each has its own end. */
static void on_hard_end(el_owner *owner) {
  if (el_local_queue_is_alone(owner)) {
    el_entry_driver_signal(&owner->place->driver, EL_ENTRY_MAX_HOLD);
  } else {
    el_local_queue_end_lost(owner, EL_LOSS_MAX_HOLD);
  }
}

static void on_timer(el_timer *timer) {
  el_owner *owner = EL_OF(timer, el_owner, timer);
  if (owner->state != EL_OWNER_HOLDING) {
    on_deadline(owner);
  } else if (owner->events->end_linger(owner, false)) {
    el_local_queue_let_go(owner, true);
  } else if (el_now_ms() < owner->events->hard_end(owner)) {
    el_local_queue_set_hard_end(owner); /* it was moved this very moment */
  } else {
    on_hard_end(owner);
  }
}

void el_local_queue_expire(el_owner *owner) {
  if (owner->state == EL_OWNER_HOLDING) {
    el_local_queue_set_hard_end(owner);
  }
}

static void set_deadline(el_owner *owner) {
  int64_t at_ms = waits_for_contact(owner) ? el_now_ms() + EL_FIRST_CONTACT_MS
                                           : owner->deadline_ms;
  if (at_ms != INT64_MAX) {
    el_timers_set(timers_of(owner->queue), &owner->timer, at_ms);
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

/* How many places there may be. */
static uint32_t capacity(const el_local_queue *queue) {
  switch (queue->mode) {
    case EL_MODE_READ:
      return UINT32_MAX;
    case EL_MODE_PERMIT:
      return queue->permits;
    default:
      return 1;
  }
}

/* Has each of them somebody in front? */
static bool is_taken(const el_local_queue *queue) {
  const el_local_place *at;
  uint32_t n = 0;
  TAILQ_FOREACH(at, &queue->places, link) { n += !TAILQ_EMPTY(&at->fronts); }
  return n >= capacity(queue);
}

/* What only lingers is his at once. */
static void begin_wait(el_owner *owner) {
  el_local_queue *queue = owner->queue;
  if (!is_shared(queue)) {
    el_local_queue_contest(queue);
    if (owner->state != EL_OWNER_WAITING) return;
  }
  owner->waited = TAILQ_FIRST(&queue->waiting) != owner || is_taken(queue);
  if (owner->try_once && owner->waited) {
    el_local_queue_fail_locked(owner);
  } else {
    set_deadline(owner);
  }
}

void el_local_queue_join(el_local_queues *queues, el_owner *owner) {
  el_place wanted = {.mode = owner->mode, .permits = owner->permits};
  el_local_queue *queue =
      el_local_queue_find_or_add(queues, owner->name, &wanted);
  const el_error *wrong = el_requests_wrong_cluster(queues->world->requests);
  EL_COUNT(queues->world->counters, waiting, 1);
  owner->queue = queue;
  owner->state = EL_OWNER_WAITING;
  owner->timer.due = on_timer;
  TAILQ_INSERT_TAIL(&queue->waiting, owner, link);
  el_local_queue_touch(queue);
  if (queues->closed.code != EL_OK) {
    el_local_queue_fail(owner, &queues->closed);
  } else if (wrong != NULL) {
    el_local_queue_fail(owner, wrong);
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
        el_local_queue_end_lost(owner, loss);
        /* Nobody is to be told what becomes of the key. */
        el_local_queue_signal_last(at, EL_ENTRY_LAPSED);
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

/* One who tries asks for himself, unless others hold already. */
static bool join_others(el_local_place *at, el_owner *owner) {
  const el_entry *entry = &at->driver.entry;
  if (TAILQ_EMPTY(&at->fronts)) return false;
  if (el_handoff_may_pass(&at->handoff, &at->driver,
                          el_local_queue_limits(owner->queue))) {
    el_local_queue_share(at, owner);
    return true;
  }
  if (owner->try_once || entry->trying || entry->state == EL_ENTRY_HELD) {
    return false;
  }
  el_local_queue_put_in_front(at, owner);
  return true;
}

/* Not before the one in front has left etcd's queue for good: it is the same key,
 * and of two requests about it that are out at once etcd may carry out the later
 * one first. */
static bool begin_at(el_local_place *at, el_owner *owner) {
  if (!TAILQ_EMPTY(&at->fronts)) return false;
  if (!el_entry_is_free(&at->driver.entry)) {
    el_entry_driver_hurry(&at->driver);
    return false;
  }
  el_local_queue_put_in_front(at, owner);
  el_entry_driver_start(&at->driver, owner->try_once, owner->value);
  return true;
}

/* A slot that no place has; capacity: there is none. */
static uint32_t free_slot(const el_local_queue *queue) {
  uint32_t slot = 0;
  while (slot < capacity(queue) &&
         el_local_queue_find_place(queue, slot) != NULL) {
    slot++;
  }
  return slot;
}

/* Gives the first who waits his turn; false: not yet. */
static bool give_turn(el_local_queue *queue) {
  el_owner *next = TAILQ_FIRST(&queue->waiting);
  el_local_place *at;
  uint32_t slot;
  TAILQ_FOREACH(at, &queue->places, link) {
    if (is_shared(queue) && join_others(at, next)) return true;
  }
  TAILQ_FOREACH(at, &queue->places, link) {
    if (begin_at(at, next)) return true;
  }
  slot = free_slot(queue);
  return slot < capacity(queue) &&
         begin_at(el_local_queue_new_place(queue, slot), next);
}

/* The next one's turn, or the end of the queue. That comes only when nothing of
 * ours can be left in etcd: a place has to outlive the last who wanted it, to take its
 * key out. */
static void settle(el_local_queue *queue) {
  el_local_queues *queues = queue->queues;
  el_local_place *at, *next;
  if (!el_session_driver_is_alive(queues->world->session)) {
    queues->session_wanted =
        queues->session_wanted ||
        (!TAILQ_EMPTY(&queue->waiting) && !el_local_queue_has_fronts(queue));
  } else {
    while (!TAILQ_EMPTY(&queue->waiting) && give_turn(queue)) {
    }
  }
  for (at = TAILQ_FIRST(&queue->places); at != NULL; at = next) {
    next = TAILQ_NEXT(at, link);
    if (TAILQ_EMPTY(&queue->waiting) && is_idle(at)) {
      el_local_queue_free_place(at);
    }
  }
  if (TAILQ_EMPTY(&queue->waiting) && TAILQ_EMPTY(&queue->places)) {
    free_queue(queue);
  }
}

bool el_local_queues_settle(el_local_queues *queues) {
  el_local_queue *queue;
  bool wanted;
  while ((queue = TAILQ_FIRST(&queues->changed)) != NULL) {
    TAILQ_REMOVE(&queues->changed, queue, changed_link);
    queue->changed = false;
    settle(queue);
  }
  wanted = queues->session_wanted;
  queues->session_wanted = false;
  return wanted;
}

bool el_local_queues_are_settled(const el_local_queues *queues) {
  return TAILQ_EMPTY(&queues->changed);
}

/* ---- life ---- */

el_local_queues *el_local_queues_new(el_entry_world *world,
                                     const el_turn_limits *limits) {
  el_local_queues *queues = el_alloc(sizeof *queues);
  queues->world = world;
  queues->limits = *limits;
  TAILQ_INIT(&queues->changed);
  TAILQ_INIT(&queues->orphans);
  return queues;
}

void el_local_queues_free(el_local_queues *queues) {
  el_local_queue *queue, *next;
  el_local_place *at;
  HASH_ITER(hh, queues->by_id, queue, next) {
    TAILQ_FOREACH(at, &queue->places, link) { el_local_queue_give_up(at); }
    free_queue(queue);
  }
  while ((at = TAILQ_FIRST(&queues->orphans)) != NULL) {
    el_local_queue_give_up(at);
    el_local_queue_free_place(at);
  }
  free(queues);
}

size_t el_local_queue_size(void) {
  return sizeof(el_local_queue) + sizeof(el_local_place) +
         el_entry_driver_watch_size();
}
