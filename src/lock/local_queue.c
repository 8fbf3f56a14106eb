/* local_queue: the owners of one client who want one name. */
#include "lock/local_queue.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/of.h"
#include "lock/local_queue_int.h"

/* ---- places ---- */

static void on_stepped(el_entry_driver *driver);

static el_local_place *new_place(el_local_queue *queue) {
  el_local_place *at = el_alloc(sizeof *at);
  at->driver.decided = el_local_queue_decided;
  at->driver.stepped = on_stepped;
  at->queues = queue->queues;
  at->queue = queue;
  el_entry_driver_init(&at->driver, queue->queues->world,
                       (el_bytes){queue->name, queue->name_len});
  return at;
}

static void free_place(el_local_place *at) {
  if (at->queue == NULL) {
    TAILQ_REMOVE(&at->queues->orphans, at, link);
  }
  el_handoff_destroy(&at->handoff);
  el_entry_driver_destroy(&at->driver);
  free(at);
}

/* ---- queues ---- */

void el_local_queue_touch(el_local_queue *queue) {
  if (!queue->changed) {
    queue->changed = true;
    TAILQ_INSERT_TAIL(&queue->queues->changed, queue, changed_link);
  }
}

static el_local_queue *find_or_add(el_local_queues *queues, el_bytes name) {
  el_local_queue *queue = NULL;
  HASH_FIND(hh, queues->by_name, name.data, name.len, queue);
  if (queue == NULL) {
    queue = el_alloc(sizeof *queue);
    queue->queues = queues;
    queue->name = el_strndup(name.data, name.len);
    queue->name_len = name.len;
    TAILQ_INIT(&queue->waiting);
    HASH_ADD_KEYPTR(hh, queues->by_name, queue->name, queue->name_len, queue);
  }
  return queue;
}

static void free_queue(el_local_queue *queue) {
  if (queue->place != NULL) {
    free_place(queue->place);
  }
  if (queue->changed) {
    TAILQ_REMOVE(&queue->queues->changed, queue, changed_link);
  }
  HASH_DEL(queue->queues->by_name, queue);
  free(queue->name);
  free(queue);
}

/* Its entry may be free for the next one now, or over. */
static void on_stepped(el_entry_driver *driver) {
  el_local_place *at = EL_OF(driver, el_local_place, driver);
  if (at->queue != NULL) {
    el_local_queue_touch(at->queue);
  } else if (el_entry_is_over(&driver->entry)) {
    free_place(at);
  }
}

/* ---- time ---- */

static bool waits_for_contact(const el_owner *owner) {
  const el_local_queues *queues = owner->queue->queues;
  return owner->deadline_ms == INT64_MAX &&
         !el_requests_have_contact(queues->world->requests);
}

/* Tells the place, if there is one, what has become of whoever drives it. */
static void signal_place(el_local_queue *queue, int kind) {
  if (queue->place != NULL) {
    el_entry_driver_signal(&queue->place->driver, kind);
  }
}

/* One who waits without a time limit waits out an outage like another holder;
 * but where etcd has never been, he would wait for a typing mistake. */
static void on_deadline(el_owner *owner) {
  el_local_queue *queue = owner->queue;
  bool is_front = owner->state == EL_OWNER_FRONT;
  bool endless = owner->deadline_ms == INT64_MAX;
  if (endless && !waits_for_contact(owner)) return; /* it has come meanwhile */
  el_local_queue_fail_in_time(owner, endless ? EL_FIRST_CONTACT_MS
                                             : owner->timeout_ms);
  if (is_front) {
    signal_place(queue, EL_ENTRY_STOP);
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
    signal_place(owner->queue, EL_ENTRY_MAX_HOLD);
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

/* What only lingers is his at once. */
static void begin_wait(el_owner *owner) {
  el_local_queue *queue = owner->queue;
  el_local_queue_contest(queue);
  if (owner->state != EL_OWNER_WAITING) return;
  owner->waited = queue->front != NULL || TAILQ_FIRST(&queue->waiting) != owner;
  if (owner->try_once && owner->waited) {
    el_local_queue_fail_locked(owner);
  } else {
    set_deadline(owner);
  }
}

void el_local_queue_join(el_local_queues *queues, el_owner *owner) {
  el_local_queue *queue = find_or_add(queues, owner->name);
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
  el_local_queue *queue = owner->queue;
  bool is_front = owner->state == EL_OWNER_FRONT;
  switch (owner->state) {
    case EL_OWNER_OUT:
    case EL_OWNER_RELEASING:
      return;
    case EL_OWNER_HOLDING:
      if (how == EL_LEAVE_LOST) {
        el_local_queue_end_lost(owner, loss);
        /* Nobody is to be told what becomes of the key. */
        signal_place(queue, EL_ENTRY_LAPSED);
      } else {
        el_local_queue_let_go(owner, how == EL_LEAVE_BY_ITSELF);
      }
      return;
    case EL_OWNER_WAITING:
    case EL_OWNER_FRONT:
      el_local_queue_fail_cancelled(owner);
      if (is_front) {
        signal_place(queue, EL_ENTRY_STOP);
      }
  }
}

void el_local_queue_key_gone(el_owner *owner) {
  if (owner->state == EL_OWNER_HOLDING) {
    signal_place(owner->queue, EL_ENTRY_KEY_GONE);
  }
}

/* ---- whose turn ---- */

/* Not before the one in front has left etcd's queue for good: it is the same key,
 * and of two requests about it that are out at once etcd may carry out the later
 * one first. */
static void give_turn(el_local_queue *queue) {
  el_owner *next = TAILQ_FIRST(&queue->waiting);
  if (queue->place == NULL) {
    queue->place = new_place(queue);
  }
  if (el_entry_is_free(&queue->place->driver.entry)) {
    TAILQ_REMOVE(&queue->waiting, next, link);
    queue->front = next;
    next->state = EL_OWNER_FRONT;
    el_entry_driver_start(&queue->place->driver, next->try_once, next->value);
  } else {
    el_entry_driver_hurry(&queue->place->driver);
  }
}

/* The next one's turn, or the end of the queue. That comes only when nothing of
 * ours can be left in etcd: the entry has to outlive the last who wanted it, to
 * take its key out. */
static void settle(el_local_queue *queue) {
  el_local_queues *queues = queue->queues;
  bool is_empty = TAILQ_EMPTY(&queue->waiting);
  if (is_empty && queue->front == NULL &&
      (queue->place == NULL ||
       (queue->place->releasing == NULL &&
        el_entry_is_over(&queue->place->driver.entry)))) {
    free_queue(queue);
  } else if (!is_empty && queue->front == NULL) {
    if (el_session_driver_is_alive(queues->world->session)) {
      give_turn(queue);
    } else {
      queues->session_wanted = true;
    }
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

/* ---- the session's news ---- */

void el_local_queues_begin(el_local_queues *queues) {
  el_local_queue *queue, *next;
  HASH_ITER(hh, queues->by_name, queue, next) { el_local_queue_touch(queue); }
}

void el_local_queues_refuse(el_local_queues *queues, const el_error *err) {
  el_local_queue *queue, *next;
  HASH_ITER(hh, queues->by_name, queue, next) {
    if (queue->front != NULL) continue; /* its own requests tell it */
    while (!TAILQ_EMPTY(&queue->waiting)) {
      el_local_queue_fail(TAILQ_FIRST(&queue->waiting), err);
    }
  }
}

void el_local_queues_fail_waiting(el_local_queues *queues,
                                  const el_error *away) {
  el_local_queue *queue, *next;
  HASH_ITER(hh, queues->by_name, queue, next) {
    if (queue->front != NULL && queue->front->state == EL_OWNER_FRONT) {
      el_local_queue_fail_away(queue->front, away);
      signal_place(queue, EL_ENTRY_STOP);
    }
    while (!TAILQ_EMPTY(&queue->waiting)) {
      el_local_queue_fail_away(TAILQ_FIRST(&queue->waiting), away);
    }
  }
}

void el_local_queues_lapse(el_local_queues *queues) {
  el_local_queue *queue, *next;
  HASH_ITER(hh, queues->by_name, queue, next) {
    signal_place(queue, EL_ENTRY_LAPSED);
  }
}

void el_local_queues_find_key(el_local_queues *queues, el_bytes key) {
  int64_t lease = el_session_driver_lease(queues->world->session);
  el_bytes name = el_key_name(key, lease);
  el_local_queue *queue;
  if (name.len == 0) return; /* none of ours */
  queue = find_or_add(queues, name);
  if (queue->place == NULL) {
    queue->place = new_place(queue);
  }
  el_entry_driver_signal(&queue->place->driver, EL_ENTRY_KEY_FOUND);
}

bool el_local_queues_are_empty(const el_local_queues *queues) {
  return queues->by_name == NULL && TAILQ_EMPTY(&queues->orphans);
}

/* Its place stays until the last request is answered, because the answer comes to
 * it; but it is not the queue's any more, whose next one begins anew, with another
 * lease and so with another key. */
static void bury(el_local_queue *queue, el_session_end end) {
  el_local_place *at = queue->place;
  if (at == NULL) return;
  el_entry_driver_orphan(&at->driver, end);
  queue->place = NULL;
  at->queue = NULL;
  TAILQ_INSERT_TAIL(&queue->queues->orphans, at, link);
  if (el_entry_is_over(&at->driver.entry)) {
    free_place(at);
  }
  el_local_queue_touch(queue);
}

void el_local_queues_bury(el_local_queues *queues, el_session_end end) {
  el_local_queue *queue, *next;
  HASH_ITER(hh, queues->by_name, queue, next) { bury(queue, end); }
}

static void fail_all(el_local_queues *queues, const el_error *err,
                     el_loss loss) {
  el_local_queue *queue, *next;
  HASH_ITER(hh, queues->by_name, queue, next) {
    if (queue->front != NULL && queue->front->state == EL_OWNER_HOLDING) {
      el_local_queue_end_lost(queue->front, loss);
    } else if (queue->front != NULL) {
      el_local_queue_fail(queue->front, err);
    }
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
  HASH_ITER(hh, queues->by_name, queue, next) {
    bury(queue, EL_SESSION_CUT_SHORT);
  }
  for (at = TAILQ_FIRST(&queues->orphans); at != NULL; at = after) {
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
  HASH_ITER(hh, queues->by_name, queue, next) {
    if (queue->place != NULL) {
      el_local_queue_give_up(queue->place);
    }
    free_queue(queue);
  }
  while ((at = TAILQ_FIRST(&queues->orphans)) != NULL) {
    el_local_queue_give_up(at);
    free_place(at);
  }
  free(queues);
}

size_t el_local_queue_size(void) {
  return sizeof(el_local_queue) + sizeof(el_local_place) +
         el_entry_driver_watch_size();
}
