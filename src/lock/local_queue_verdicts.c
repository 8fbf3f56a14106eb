/* local_queue_verdicts: what becomes of an owner: granted, failed, lost or
 * released, and in which words. */
#include <assert.h>

#include "base/of.h"
#include "lock/local_queue_int.h"
#include "rules/kind.h"

static el_counters *counters_of(const el_local_queue *queue) {
  return queue->queues->world->counters;
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

void el_local_queue_fail(el_owner *owner, const el_error *err) {
  EL_COUNT(counters_of(owner->queue), waiting, -1);
  el_local_queue_detach(owner);
  owner->events->failed(owner, err);
  owner->events->forgotten(owner);
}

/* The place that |owner| drives, or else the one that he waits for; NULL: none. */
static const el_local_place *place_of(const el_owner *owner) {
  return owner->place != NULL ? owner->place
                              : TAILQ_FIRST(&owner->queue->places);
}

/* What stood in the way last, if anything did. */
static const el_error *last_cause(const el_owner *owner) {
  const el_entry_world *world = owner->queue->queues->world;
  const el_local_place *at = place_of(owner);
  const el_error *cause;
  if (at != NULL && at->driver.cause != NULL) return at->driver.cause;
  cause = el_session_driver_cause(world->session);
  return cause != NULL ? cause : el_requests_away(world->requests);
}

/* A name for messages. */
#define NAME_FORMAT    "lock \"%.*s\""
#define NAME_MAX_SHOWN 80
#define NAME_OF(owner) \
  (int)((owner)->name.len < NAME_MAX_SHOWN ? (owner)->name.len \
                                           : NAME_MAX_SHOWN), \
      (owner)->name.data

static bool is_held_here(const el_owner *owner) {
  const el_local_place *at = place_of(owner);
  const el_owner *front = at != NULL ? TAILQ_FIRST(&at->fronts) : NULL;
  return front != NULL && front->state == EL_OWNER_HOLDING;
}

/* Has etcd answered in all the time that |owner| has waited? Nothing is asked while
 * our place in its queue is known. */
static bool has_answered(const el_owner *owner) {
  const el_local_place *at = place_of(owner);
  int64_t since_ms = owner->deadline_ms == INT64_MAX
                         ? 0
                         : owner->deadline_ms - owner->timeout_ms;
  const el_entry *entry = at != NULL ? &at->driver.entry : NULL;
  return (entry != NULL && entry->state == EL_ENTRY_WAITING &&
          entry->ahead.rev != 0) ||
         el_requests_heard_since(owner->queue->queues->world->requests,
                                 since_ms);
}

/* "It was not free" is an answer of etcd's. Where none has come for all that time,
 * or where the last attempt has failed, nobody knows whether it was: then what
 * stands in the way is told, or those who ask would blame a holder for an outage. */
void el_local_queue_fail_in_time(el_owner *owner, int64_t waited_ms) {
  const el_local_queue *queue = owner->queue;
  double waited_s = (double)waited_ms / 1000;
  bool is_held = !is_shared(queue) && is_held_here(owner);
  const el_error *cause = is_held ? NULL : last_cause(owner);
  el_error err;
  if (cause != NULL) {
    el_error_set(&err, EL_UNAVAILABLE, NAME_FORMAT " not taken in %.3g s: %s",
                 NAME_OF(owner), waited_s, cause->text);
  } else if (!is_held && !has_answered(owner)) {
    el_error_set(&err, EL_UNAVAILABLE,
                 NAME_FORMAT " not taken in %.3g s: no answer from etcd %s",
                 NAME_OF(owner), waited_s,
                 el_requests_address(queue->queues->world->requests));
  } else {
    el_error_set(&err, EL_TIMEOUT, NAME_FORMAT " was not free within %.3g s",
                 NAME_OF(owner), waited_s);
  }
  el_local_queue_fail(owner, &err);
}

static void fail_refused(el_owner *owner) {
  const el_error *cause = last_cause(owner);
  el_error err;
  el_error_set(&err, cause != NULL ? cause->code : EL_UNAVAILABLE,
               NAME_FORMAT ": %s", NAME_OF(owner),
               cause != NULL ? cause->text : "etcd refused it");
  el_local_queue_fail(owner, &err);
}

void el_local_queue_fail_away(el_owner *owner, const el_error *away) {
  el_error err;
  el_error_set(&err, EL_UNAVAILABLE, NAME_FORMAT ": %s", NAME_OF(owner),
               away->text);
  el_local_queue_fail(owner, &err);
}

void el_local_queue_fail_cancelled(el_owner *owner) {
  el_error err;
  el_error_set(&err, EL_CANCELLED, "the wait for " NAME_FORMAT " was given up",
               NAME_OF(owner));
  el_local_queue_fail(owner, &err);
}

void el_local_queue_fail_locked(el_owner *owner) {
  el_error err;
  if (owner->must_share && !owner->try_once) {
    el_error_set(&err, EL_DEADLOCK,
                 NAME_FORMAT " is wanted by a writer who waits for a reader of "
                             "this program, which can't release it while this "
                             "one waits",
                 NAME_OF(owner));
  } else {
    el_error_set(&err, EL_LOCKED, NAME_FORMAT " is held by somebody else",
                 NAME_OF(owner));
  }
  el_local_queue_fail(owner, &err);
}

static void fail_place_lost(el_owner *owner) {
  el_error err;
  el_error_set(&err, EL_LOST,
               NAME_FORMAT
               ": our key in the queue was deleted, or our lease ended, while "
               "we waited",
               NAME_OF(owner));
  el_local_queue_fail(owner, &err);
}

void el_local_queue_set_hard_end(el_owner *owner) {
  int64_t end = owner->events->hard_end(owner);
  if (end != INT64_MAX) {
    el_timers_set(timers_of(owner->queue), &owner->timer, end);
  } else {
    el_timers_stop(timers_of(owner->queue), &owner->timer);
  }
}

static void on_contender(void *arg) { el_local_queue_contest(arg); }

/* Not 0, which is no number in a key. */
static uint16_t next_share(el_local_place *at) {
  if (++at->n_granted == 0) at->n_granted = 1;
  return at->n_granted;
}

/* The claim is the session's, not the lock's: one renewal prolongs all its holds,
 * and the end of the session ends them all without a visit to each. */
static void grant(el_owner *owner, int64_t mod_rev, bool waited) {
  el_local_queue *queue = owner->queue;
  el_entry_driver *driver = &owner->place->driver;
  el_grant what = {.token = driver->entry.rev,
                   /* or the order of writes hangs on a note of his own */
                   .mod_rev = el_kind_has_notes(owner->mode) ? 0 : mod_rev,
                   .keys = &driver->keys,
                   .claim =
                       el_session_driver_claim(queue->queues->world->session),
                   .waited = waited};
  EL_COUNT(counters_of(queue), waiting, -1);
  EL_COUNT(counters_of(queue), held, 1);
  EL_COUNT(counters_of(queue), acquired, 1);
  owner->state = EL_OWNER_HOLDING;
  owner->share = next_share(owner->place);
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
    grant(owner, rev, owner->waited || at->driver.waited);
  }
}

/* May a write of the hold come yet, whatever becomes of it? */
static bool may_come_late(const el_owner *owner) {
  return owner->events->mod_rev(owner) < 0;
}

/* Ends a hold that is lost, whoever has found that out: a watch, a probe, a timer,
 * the holder's own clock, or a guarded write. Whichever comes first says why; for
 * the others there is nothing left to end. The loss is told before the end, so that
 * who awaits the end finds it. */
void el_local_queue_end_lost(el_owner *owner, el_loss loss) {
  el_error err;
  EL_COUNT(counters_of(owner->queue), held, -1);
  EL_COUNT(counters_of(owner->queue), lost, 1);
  el_local_queue_detach(owner);
  owner->events->lost(owner, loss);
  el_error_set(&err, EL_LOST, NAME_FORMAT " was lost: %s", NAME_OF(owner),
               el_losses[loss].text);
  owner->events->released(owner, &err);
  owner->events->forgotten(owner);
}

void el_local_queue_leave_lost(el_owner *owner, el_loss loss) {
  el_local_place *at = owner->place;
  if (!el_local_queue_is_alone(owner) && may_come_late(owner)) {
    el_local_queue_seal(owner, true);
  }
  el_local_queue_end_lost(owner, loss);
  /* Nobody is to be told what becomes of the key. */
  el_local_queue_signal_last(at, EL_ENTRY_LAPSED);
}

void el_local_queue_end_released(el_owner *owner, const el_error *err) {
  owner->state = EL_OWNER_OUT;
  owner->events->released(owner, err);
  owner->events->forgotten(owner);
}

static void end_handed_over(el_owner *owner) {
  static const el_error ok = {.code = EL_OK};
  el_local_queue_end_released(owner, &ok);
}

/* Others hold on to the key. */
static void leave_to_others(el_owner *owner) {
  if (may_come_late(owner)) {
    el_local_queue_seal(owner, false);
  } else {
    el_local_queue_detach(owner);
    end_handed_over(owner);
  }
}

/* |owner|, who waits, holds by the key that |at| has already. */
static void pass(el_local_place *at, el_owner *owner, int64_t mod_rev) {
  el_local_queue_put_in_front(at, owner);
  grant(owner, mod_rev, owner->waited);
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
  if (next == NULL || mod_rev < 0 || owner->queue->n_seals > 0 ||
      is_behind_another(owner->queue) ||
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
          owner->events->end_linger(owner, true)) {
        return owner;
      }
    }
  }
  return NULL;
}

void el_local_queue_contest(el_local_queue *queue) {
  el_owner *owner;
  while ((owner = end_linger(queue)) != NULL) {
    el_local_queue_let_go(owner, true);
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

/* The key of the lock that was let go is out, or etcd refuses to take it. */
void el_local_queue_finish(el_local_place *at, const el_error *err) {
  el_owner *owner = at->releasing;
  at->releasing = NULL;
  el_local_queue_end_released(owner, err);
}

void el_local_queue_end_unconfirmed(el_owner *owner) {
  el_error err;
  el_error_set(&err, EL_CLOSED,
               NAME_FORMAT ": the client was closed before etcd confirmed the "
                           "release",
               NAME_OF(owner));
  el_local_queue_end_released(owner, &err);
}

void el_local_queue_give_up(el_local_place *at) {
  el_owner *owner = at->releasing;
  at->releasing = NULL;
  if (owner != NULL) {
    el_local_queue_end_unconfirmed(owner);
  }
}

static void on_released(el_local_place *at, bool found) {
  el_error err = {.code = EL_OK};
  if (at->releasing == NULL) return; /* a wait that was given up */
  if (!found && at->queue->queues->closed.code != EL_OK) {
    el_local_queue_give_up(at); /* or the end of our lease took it along */
    return;
  }
  if (!found) {
    el_error_set(&err, EL_LOST,
                 NAME_FORMAT ": the key was gone before it was released",
                 NAME_OF(at->releasing));
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
  fail_fronts(at, fail_refused);
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

static void fail_conflict(el_local_place *at, unsigned permits) {
  el_owner *owner;
  el_error err;
  while ((owner = TAILQ_FIRST(&at->fronts)) != NULL) {
    el_error_set(&err, EL_CONFLICT,
                 "semaphore \"%.*s\" has %u permits for others, and not %u",
                 NAME_OF(owner), permits, (unsigned)owner->permits);
    el_local_queue_fail(owner, &err);
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
      fail_fronts(at, el_local_queue_fail_locked);
      return;
    case EL_ENTRY_CONFLICT:
      fail_conflict(at, action->place.permits);
      return;
    case EL_ENTRY_PLACE_LOST:
      fail_fronts(at, fail_place_lost);
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
