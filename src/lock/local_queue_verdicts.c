/* local_queue_verdicts: what becomes of an owner: granted, failed, lost or
 * released. */
#include <assert.h>

#include "base/of.h"
#include "lock/local_queue_int.h"
#include "rules/write_order.h"

void el_local_queue_set_hard_end(el_owner *owner) {
  int64_t end = owner->events->hard_end(owner);
  if (end != INT64_MAX) {
    el_timers_set(timers_of(owner->queue), &owner->timer, end);
  } else {
    el_timers_stop(timers_of(owner->queue), &owner->timer);
  }
}

/* Where nothing is handed on, readers share their key all the same. */
const el_turn_limits *el_local_queue_limits(const el_local_queue *queue) {
  static const el_turn_limits usual = {.holds = 32, .ms = 50};
  const el_turn_limits *limits = &queue->queues->limits;
  return is_shared(queue) && limits->holds < 2 ? &usual : limits;
}

static void contest(el_local_queue *queue);

static void on_contender(void *arg) { contest(arg); }

/* The claim is the session's, not the lock's: one renewal prolongs all its holds,
 * and the end of the session ends them all without a visit to each. */
static void grant(el_owner *owner, int64_t mod_rev) {
  el_local_queue *queue = owner->queue;
  el_entry_driver *driver = &owner->place->driver;
  el_grant what = {.token = driver->entry.rev,
                   .mod_rev = mod_rev,
                   .keys = &driver->keys,
                   .claim = el_session_driver_claim(queue->world->session)};
  EL_COUNT(counters_of(queue), waiting, -1);
  EL_COUNT(counters_of(queue), held, 1);
  EL_COUNT(counters_of(queue), acquired, 1);
  owner->state = EL_OWNER_HOLDING;
  owner->events->granted(owner, &what);
  el_local_queue_set_hard_end(owner);
  if (owner->linger != NULL) {
    el_linger_watch(owner->linger, driver, on_contender, queue);
  }
}

static void grant_all(el_local_place *at, int64_t rev) {
  el_owner *owner;
  el_handoff_begin(&at->handoff);
  TAILQ_FOREACH(owner, &at->fronts, link) {
    owner->waited = owner->waited || at->driver.waited;
    grant(owner, el_write_order_first((el_mode)owner->mode, rev));
  }
}

void el_local_queue_leave_lost(el_owner *owner, el_loss loss) {
  el_local_place *at = owner->place;
  el_local_queue_end_lost(owner, loss);
  /* Nobody is to be told what becomes of the key. */
  el_local_queue_signal_last(at, loss == EL_LOSS_MAX_HOLD ? EL_ENTRY_MAX_HOLD
                                                          : EL_ENTRY_LAPSED);
}

static void end_handed_over(el_owner *owner) {
  static const el_error ok = {.code = EL_OK};
  el_local_queue_end_released(owner, &ok);
}

/* Others hold on to the key. */
static void leave_to_others(el_owner *owner) {
  el_local_queue_detach(owner);
  end_handed_over(owner);
}

/* |owner|, who waits, holds by the key that |at| has already. */
static void pass(el_local_place *at, el_owner *owner, int64_t mod_rev) {
  el_local_queue_put_in_front(at, owner);
  grant(owner, mod_rev);
  el_handoff_passed(&at->handoff, &at->driver,
                    el_local_queue_limits(owner->queue));
}

void el_local_queue_share(el_local_place *at, el_owner *owner) {
  pass(at, owner, 0);
}

/* Has one who has asked before those who wait here yet to be granted by etcd? */
static bool is_behind_another(const el_local_queue *queue) {
  const el_local_place *at;
  TAILQ_FOREACH(at, &queue->places, link) {
    const el_owner *front = TAILQ_FIRST(&at->fronts);
    if (front != NULL && front->state == EL_OWNER_FRONT) return true;
  }
  return false;
}

/* The next one gets the key that |owner| lets go, as it is: its token, and what has
 * been written under it. */
static bool try_hand_over(el_owner *owner) {
  el_local_place *at = owner->place;
  el_owner *next = TAILQ_FIRST(&owner->queue->waiting);
  int64_t mod_rev = owner->events->mod_rev(owner);
  if (next == NULL || mod_rev < 0 || is_behind_another(owner->queue) ||
      !el_handoff_may_pass(&at->handoff, &at->driver,
                           el_local_queue_limits(owner->queue))) {
    return false;
  }
  el_local_queue_detach(owner);
  pass(at, next, mod_rev);
  end_handed_over(owner);
  return true;
}

/* One whose hold only lingered until now; NULL: none does, or will. */
static el_owner *end_linger(const el_local_queue *queue) {
  el_local_place *at;
  el_owner *owner;
  TAILQ_FOREACH(at, &queue->places, link) {
    TAILQ_FOREACH(owner, &at->fronts, link) {
      if (owner->state == EL_OWNER_HOLDING &&
          owner->events->end_linger(owner, EL_LINGER_CONTESTED)) {
        return owner;
      }
    }
  }
  return NULL;
}

/* Somebody wants the lock: a hold that lingers ends. */
static void contest(el_local_queue *queue) {
  el_owner *owner;
  while ((owner = end_linger(queue)) != NULL) {
    el_local_queue_let_go(owner, true);
  }
}

/* What of |name| only lingers with |world|, and is in the way of |owner|, ends. (A permit
 * never lingers, and one of no permits is nobody's.) */
static void contest_name(const el_owner *owner, const el_entry_world *world,
                         el_bytes name) {
  const el_local_queues *queues = owner->queue->queues;
  for (el_mode mode = EL_MODE_LOCK; mode < EL_MODE_MULTI; mode++) {
    el_place place = {.mode = mode};
    el_local_queue *queue =
        el_kind_is_in_way(mode, owner->mode)
            ? el_local_queue_find(queues, world, name, &place)
            : NULL;
    if (queue != NULL) {
      contest(queue);
    }
  }
}

void el_local_queue_contest_for(const el_owner *owner) {
  el_bytes names = owner->name;
  while (names.len > 0) {
    const el_entry_world *world = owner->queue->queues->world;
    el_bytes name = el_list_cut(&names);
    for (; world != NULL; world = world->next) {
      contest_name(owner, world, name);
    }
  }
}

void el_local_queue_let_go(el_owner *owner, bool by_itself) {
  el_local_place *at = owner->place;
  EL_COUNT(counters_of(owner->queue), held, -1);
  if (!el_local_queue_is_alone(owner)) {
    leave_to_others(owner);
    return;
  }
  if (by_itself && try_hand_over(owner)) return;
  el_local_queue_detach(owner);
  owner->state = EL_OWNER_RELEASING;
  assert(at->releasing == NULL);
  at->releasing = owner;
  at->driver.awaited = true;
  el_entry_driver_signal(&at->driver, EL_ENTRY_STOP);
}

static void on_released(el_local_place *at, bool found) {
  el_error err = {.code = EL_OK};
  if (at->releasing == NULL) return; /* a wait that was given up */
  if (!found && at->queue->queues->closed.code != EL_OK) {
    el_local_queue_give_up(at); /* or the end of our lease took it along */
    return;
  }
  if (!found) {
    el_error_set(&err, EL_LOST, "%s: the key was gone before it was released",
                 el_owner_what(at->releasing).text);
  }
  el_local_queue_finish(at, &err);
}

static void fail_fronts(el_local_place *at, void (*fail)(el_owner *owner)) {
  while (!TAILQ_EMPTY(&at->fronts)) {
    fail(TAILQ_FIRST(&at->fronts));
  }
}

/* A release that is refused (rights were taken away) is told, once, as what it is;
 * the entry goes on trying, and at the latest the lease takes the key along. */
static void on_refused(el_local_place *at) {
  fail_fronts(at, el_local_queue_fail_refused);
  if (at->releasing != NULL) {
    el_local_queue_finish(at, at->driver.cause);
  }
}

/* The session died before they were in etcd's queue: settle starts them on the next
 * one. */
static void restart(el_local_place *at) {
  el_owner *owner;
  while ((owner = TAILQ_LAST(&at->fronts, el_owner_list)) != NULL) {
    TAILQ_REMOVE(&at->fronts, owner, link);
    owner->place = NULL;
    owner->state = EL_OWNER_WAITING;
    TAILQ_INSERT_HEAD(&owner->queue->waiting, owner, link);
  }
}

void el_local_queue_decided(el_entry_driver *driver,
                            const el_entry_action *action) {
  el_local_place *at = EL_OF(driver, el_local_place, driver);
  switch (action->kind) {
    case EL_ENTRY_RELEASED:
      on_released(at, action->found);
      return;
    case EL_ENTRY_REFUSED:
      on_refused(at);
      return;
    case EL_ENTRY_GRANTED:
      grant_all(at, action->place.rev);
      return;
    case EL_ENTRY_LOCKED:
      if (!el_local_queue_inquire(at, action->place.lease,
                                  el_local_queue_fail_kept_out)) {
        fail_fronts(at, el_local_queue_fail_locked);
      }
      return;
    case EL_ENTRY_CONFLICT:
      el_local_queue_fail_conflict(at, action->place.permits);
      return;
    case EL_ENTRY_PLACE_LOST:
      fail_fronts(at, el_local_queue_fail_place_lost);
      return;
    case EL_ENTRY_RESTART:
      restart(at);
      return;
    case EL_ENTRY_LOST:
      while (!TAILQ_EMPTY(&at->fronts)) {
        el_local_queue_end_lost(TAILQ_FIRST(&at->fronts), action->loss);
      }
      return;
    default:
      assert(!"an action that is not the queue's");
  }
}
