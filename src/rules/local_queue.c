/* local_queue: which owners of one client wait for a lock, hold it and are next. */
#include "rules/local_queue.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "rules/write_order.h"

void el_local_queue_init(el_local_queue *queue, el_mode mode,
                         uint16_t permits) {
  *queue = (el_local_queue){.mode = (uint8_t)mode, .permits = permits};
  TAILQ_INIT(&queue->waiting);
  TAILQ_INIT(&queue->places);
}

void el_local_queue_add(el_local_queue *queue, el_local_place *place,
                        const el_entry *entry) {
  place->entry = entry;
  TAILQ_INIT(&place->owners);
  TAILQ_INSERT_TAIL(&queue->places, place, link);
}

void el_local_queue_remove(el_local_queue *queue, el_local_place *place) {
  assert(TAILQ_EMPTY(&place->owners) && !place->is_lingering);
  TAILQ_REMOVE(&queue->places, place, link);
}

/* ---- what it is like ---- */

static bool has_owners(const el_local_place *place) {
  return !TAILQ_EMPTY(&place->owners);
}

static bool is_shared(const el_local_queue *queue) {
  return queue->mode == EL_MODE_READ;
}

/* An entry starts anew only when nothing of its last owner can be in etcd: it is the same
 * key, and of two requests about it that are out at once etcd may carry out the later one
 * first. */
static bool is_free(const el_local_place *place) {
  return !has_owners(place) && !place->is_lingering &&
         el_entry_is_free(place->entry);
}

/* Is it in use, or kept from use by a lock delay? */
static bool is_taken(const el_local_place *place) {
  return has_owners(place) || place->entry->state == EL_ENTRY_LOCK_DELAY;
}

/* How many entries there may be. A writer that was downgraded does not conflict with the
 * entry of the next one. */
static uint32_t capacity(const el_local_queue *queue) {
  const el_local_place *place;
  uint32_t n = 1;
  if (is_shared(queue)) return UINT32_MAX;
  if (queue->mode == EL_MODE_PERMIT) return queue->permits;
  TAILQ_FOREACH(place, &queue->places, link) {
    n += place->is_downgraded && has_owners(place);
  }
  return n;
}

/* Are as many owners before |owner| as there may be entries? */
static bool has_to_wait(const el_local_queue *queue,
                        const el_local_owner *owner) {
  const el_local_owner *other = TAILQ_FIRST(&queue->waiting);
  const el_local_place *place;
  uint32_t n = 0, most = capacity(queue);
  if (is_shared(queue)) return false;
  TAILQ_FOREACH(place, &queue->places, link) { n += is_taken(place); }
  for (; other != owner && n < most; other = TAILQ_NEXT(other, link)) {
    n++;
  }
  return n >= most;
}

/* It fails instead of waiting for another client. */
static bool is_try(const el_local_owner *owner) {
  return owner->try_once || owner->must_share;
}

/* Where nothing is handed off, readers share their key all the same. */
static const el_turn_limits *limits_of(const el_local_queue *queue,
                                       const el_local_now *now) {
  static const el_turn_limits usual = {.holds = 32, .ms = 50};
  return is_shared(queue) && now->limits->holds < 2 ? &usual : now->limits;
}

static bool may_hand_off(const el_local_queue *queue,
                         const el_local_place *place, const el_local_now *now) {
  return place->entry->state == EL_ENTRY_HELD && now->can_claim &&
         el_turn_has_room(&place->turn, limits_of(queue, now), now->ms);
}

/* ---- actions ---- */

static el_local_action *push(el_local_actions *out, int kind) {
  if (out->n == out->room) {
    out->room = out->room > 0 ? 2 * out->room : 16;
    out->list = el_realloc(out->list, out->room * sizeof *out->list);
  }
  memset(&out->list[out->n], 0, sizeof *out->list);
  out->list[out->n].kind = kind;
  return &out->list[out->n++];
}

static el_local_action *push_place(el_local_actions *out, int kind,
                                   el_local_place *place) {
  el_local_action *action = push(out, kind);
  action->place = place;
  return action;
}

static void signal_entry(el_local_place *place, int signal,
                         el_local_actions *out) {
  push_place(out, EL_LOCAL_SIGNAL, place)->signal = signal;
}

static void stop_watching(el_local_place *place, el_local_actions *out) {
  if (!place->is_watched) return;
  place->is_watched = false;
  push_place(out, EL_LOCAL_UNWATCH, place);
}

static void stop_lingering(el_local_place *place, el_local_actions *out) {
  if (!place->is_lingering) return;
  place->is_lingering = false;
  push_place(out, EL_LOCAL_SET_TIMER, place);
}

/* ---- owners come and go ---- */

static void enter(el_local_queue *queue, el_local_place *place,
                  el_local_owner *owner) {
  TAILQ_REMOVE(&queue->waiting, owner, link);
  TAILQ_INSERT_TAIL(&place->owners, owner, link);
  owner->place = place;
  owner->state = EL_OWNER_ENQUEUED;
}

static void detach(el_local_queue *queue, el_local_owner *owner) {
  if (owner->state == EL_OWNER_WAITING) {
    TAILQ_REMOVE(&queue->waiting, owner, link);
  } else {
    TAILQ_REMOVE(&owner->place->owners, owner, link);
  }
  owner->place = NULL;
  owner->state = EL_OWNER_OUT;
}

static el_local_action *fail(el_local_queue *queue, el_local_owner *owner,
                             const el_error *err, el_local_actions *out) {
  el_local_action *action = push(out, EL_LOCAL_FAILED);
  action->owner = owner;
  action->place = owner->place;
  action->err = err;
  detach(queue, owner);
  return action;
}

static void lose(el_local_queue *queue, el_local_owner *owner, el_loss loss,
                 el_local_actions *out) {
  el_local_action *action = push(out, EL_LOCAL_LOST);
  action->owner = owner;
  action->loss = loss;
  detach(queue, owner);
}

static void end_release(el_local_place *place, el_local_owner *owner, int how,
                        el_local_actions *out) {
  el_local_action *action = push_place(out, EL_LOCAL_RELEASED, place);
  action->owner = owner;
  action->release = how;
  owner->state = EL_OWNER_OUT;
  owner->place = NULL;
}

static void grant(el_local_owner *owner, int64_t mod_rev,
                  el_local_actions *out) {
  el_local_place *place = owner->place;
  el_local_action *action = push_place(out, EL_LOCAL_GRANTED, place);
  owner->state = EL_OWNER_HOLDING;
  action->owner = owner;
  action->mod_rev = mod_rev;
  if (owner->linger_ms > 0 && !place->is_watched) {
    place->is_watched = true;
    push_place(out, EL_LOCAL_WATCH, place);
  }
}

static void look_behind(el_local_place *place, el_local_actions *out) {
  place->looking = true;
  push_place(out, EL_LOCAL_LOOK, place);
}

/* |owner|, which waits, holds by the key that |place| has. */
static void hand_off(el_local_queue *queue, el_local_place *place,
                     el_local_owner *owner, int64_t mod_rev,
                     const el_local_now *now, el_local_actions *out) {
  bool is_asked = el_turn_pass(&place->turn, limits_of(queue, now), now->ms);
  enter(queue, place, owner);
  grant(owner, mod_rev, out);
  signal_entry(place, EL_ENTRY_HANDED_OFF, out);
  if (is_asked) look_behind(place, out);
}

/* The first owner that waits gets the key of |place|, which lingers: since nobody else was
 * seen to want it, the handoff budget begins anew. */
static void take_lingering(el_local_queue *queue, el_local_place *place,
                           const el_local_now *now, el_local_actions *out) {
  el_local_owner *next = TAILQ_FIRST(&queue->waiting);
  int64_t mod_rev = place->mod_rev;
  stop_lingering(place, out);
  el_turn_begin(&place->turn, now->ms);
  enter(queue, place, next);
  grant(next, mod_rev, out);
}

/* ---- the last owner of an entry has left ---- */

/* Is an owner that joined before those that wait here still to be granted by etcd? */
static bool is_behind_another(const el_local_queue *queue) {
  const el_local_place *place;
  TAILQ_FOREACH(place, &queue->places, link) {
    const el_local_owner *first = TAILQ_FIRST(&place->owners);
    if (first != NULL && first->state == EL_OWNER_ENQUEUED) return true;
  }
  return false;
}

static bool try_hand_off(el_local_queue *queue, el_local_place *place,
                         int64_t mod_rev, const el_local_now *now,
                         el_local_actions *out) {
  el_local_owner *next = TAILQ_FIRST(&queue->waiting);
  if (next == NULL || is_behind_another(queue) ||
      !may_hand_off(queue, place, now)) {
    return false;
  }
  hand_off(queue, place, next, mod_rev, now, out);
  return true;
}

static bool try_linger(const el_local_queue *queue, el_local_place *place,
                       int32_t linger_ms, int64_t mod_rev,
                       const el_local_now *now, el_local_actions *out) {
  if (linger_ms == 0 || !TAILQ_EMPTY(&queue->waiting) ||
      is_behind_another(queue) || place->is_contended ||
      now->is_wanted_elsewhere || !now->can_claim ||
      place->entry->state != EL_ENTRY_HELD) {
    return false;
  }
  place->is_lingering = true;
  place->looking = false; /* an answer that comes is about an earlier turn */
  place->mod_rev = mod_rev;
  signal_entry(place, EL_ENTRY_HANDED_OFF, out);
  push_place(out, EL_LOCAL_SET_TIMER, place)->at_ms = now->ms + linger_ms;
  return true;
}

/* Everything that was started for the owners of |place|, of which the last has left, ends:
 * the entry is stopped with |signal|. */
static void stop(el_local_place *place, int signal, el_local_actions *out) {
  stop_lingering(place, out);
  stop_watching(place, out);
  signal_entry(place, signal, out);
}

/* |owner| unlocks, and was the last: its key goes to the next owner, lingers, or is
 * deleted. */
static void unlock_last(el_local_queue *queue, el_local_place *place,
                        el_local_owner *owner, const el_local_event *event,
                        const el_local_now *now, el_local_actions *out) {
  bool is_given_on =
      event->how == EL_LEAVE_BY_ITSELF && event->mod_rev >= 0 &&
      !place->is_downgraded &&
      (try_hand_off(queue, place, event->mod_rev, now, out) ||
       try_linger(queue, place, owner->linger_ms, event->mod_rev, now, out));
  if (is_given_on) {
    end_release(place, owner, EL_RELEASE_DONE, out);
    return;
  }
  assert(place->releasing == NULL);
  place->releasing = owner;
  owner->place = place;
  owner->state = EL_OWNER_RELEASING;
  stop(place, EL_ENTRY_STOP, out);
}

static void leave_hold(el_local_queue *queue, el_local_owner *owner,
                       const el_local_event *event, const el_local_now *now,
                       el_local_actions *out) {
  el_local_place *place = owner->place;
  if (event->how == EL_LEAVE_LOST) {
    int signal =
        event->loss == EL_LOSS_MAX_HOLD ? EL_ENTRY_MAX_HOLD : EL_ENTRY_LAPSED;
    lose(queue, owner, event->loss, out);
    if (!has_owners(place)) {
      stop(place, signal, out);
    } else if (event->loss == EL_LOSS_EXPIRED) {
      signal_entry(place, signal, out); /* which ends the holds of all */
    }
    return;
  }
  detach(queue, owner);
  if (has_owners(place)) {
    end_release(place, owner, EL_RELEASE_DONE, out);
  } else {
    unlock_last(queue, place, owner, event, now, out);
  }
}

static void leave_wait(el_local_queue *queue, el_local_owner *owner,
                       const el_error *err, el_local_actions *out) {
  el_local_place *place = owner->place;
  fail(queue, owner, err, out);
  if (place != NULL && !has_owners(place)) stop(place, EL_ENTRY_STOP, out);
}

static void on_leave(el_local_queue *queue, const el_local_event *event,
                     const el_local_now *now, el_local_actions *out) {
  switch (event->owner->state) {
    case EL_OWNER_OUT:
    case EL_OWNER_RELEASING:
      return;
    case EL_OWNER_HOLDING:
      leave_hold(queue, event->owner, event, now, out);
      return;
    case EL_OWNER_WAITING:
    case EL_OWNER_ENQUEUED:
      leave_wait(queue, event->owner, event->err, out);
      return;
  }
}

/* Of those that share a key each has its own end. */
static void on_max_hold(el_local_queue *queue, el_local_owner *owner,
                        const el_local_now *now, el_local_actions *out) {
  static const el_local_event lost = {.how = EL_LEAVE_LOST,
                                      .loss = EL_LOSS_MAX_HOLD};
  if (owner->state == EL_OWNER_HOLDING) {
    leave_hold(queue, owner, &lost, now, out);
  }
}

/* ---- the next owner gets its turn ---- */

typedef enum sharing {
  SHARE_NOT,  /* others wait behind the key, and the budget is used up */
  SHARE_SOON, /* that is being found out */
  SHARE_NOW
} sharing;

/* May |next|, a reader, share the key of |place|? All that wait when |answer| tells that
 * nobody is behind it may, however long the answer took. */
static sharing may_share(const el_local_queue *queue, el_local_place *place,
                         const el_local_owner *next,
                         const el_local_event *answer, const el_local_now *now,
                         el_local_actions *out) {
  if (!now->can_claim) return SHARE_NOT;
  if (next->must_share || may_hand_off(queue, place, now)) return SHARE_NOW;
  if (answer != NULL && place == answer->place) {
    return answer->behind == EL_BEHIND_NOBODY ? SHARE_NOW : SHARE_NOT;
  }
  if (!place->looking && el_turn_look(&place->turn, now->ms)) {
    look_behind(place, out);
  }
  return place->looking ? SHARE_SOON : SHARE_NOT;
}

/* Has |next| hold with other readers? */
static sharing share_hold(el_local_queue *queue, el_local_owner *next,
                          const el_local_event *answer, const el_local_now *now,
                          el_local_actions *out) {
  el_local_place *place;
  sharing best = SHARE_NOT;
  TAILQ_FOREACH(place, &queue->places, link) {
    sharing how;
    if (!has_owners(place) || place->entry->state != EL_ENTRY_HELD) continue;
    how = may_share(queue, place, next, answer, now, out);
    if (how == SHARE_NOW) {
      hand_off(queue, place, next, 0, now, out);
      return how;
    }
    if (how == SHARE_SOON) best = how;
  }
  return best;
}

/* Has |next| wait with other readers? One that tries asks for itself. */
static bool share_wait(el_local_queue *queue, el_local_owner *next) {
  el_local_place *place;
  if (is_try(next)) return false;
  TAILQ_FOREACH(place, &queue->places, link) {
    const el_local_owner *first = TAILQ_FIRST(&place->owners);
    if (first != NULL && first->state == EL_OWNER_ENQUEUED && !is_try(first)) {
      enter(queue, place, next);
      return true;
    }
  }
  return false;
}

static void start(el_local_queue *queue, el_local_place *place,
                  el_local_owner *next, el_local_actions *out) {
  el_local_action *action = push_place(out, EL_LOCAL_START, place);
  TAILQ_REMOVE(&queue->places, place, link);
  TAILQ_INSERT_TAIL(&queue->places, place, link);
  place->is_downgraded = place->is_contended = false;
  place->looking = false; /* an answer that comes is about its last key */
  enter(queue, place, next);
  action->owner = next;
  action->try_once = is_try(next);
}

/* Starts an entry for |next|; false: there is none. */
static bool start_one(el_local_queue *queue, el_local_owner *next,
                      el_local_actions *out) {
  el_local_place *place, *found = NULL;
  uint32_t n = 0;
  TAILQ_FOREACH(place, &queue->places, link) {
    if (!is_free(place)) {
      n++;
    } else if (found == NULL) {
      found = place;
    }
  }
  if (n >= capacity(queue)) return false;
  if (found == NULL) {
    push(out, EL_LOCAL_ADD);
    return false;
  }
  start(queue, found, next, out);
  return true;
}

static el_local_place *find_lingering(const el_local_queue *queue) {
  el_local_place *place;
  TAILQ_FOREACH(place, &queue->places, link) {
    if (place->is_lingering) return place;
  }
  return NULL;
}

/* A try is not to meet a key that its own client is about to delete. (Readers do not keep
 * each other out.) */
static bool waits_for_leaving(const el_local_queue *queue,
                              const el_local_owner *next,
                              const el_local_now *now) {
  return is_try(next) &&
         (now->is_leaving_elsewhere ||
          (!is_shared(queue) && el_local_queue_is_leaving(queue)));
}

/* Gives the first owner that waits what it waits for; false: not yet. */
static bool serve(el_local_queue *queue, const el_local_event *answer,
                  const el_local_now *now, el_local_actions *out) {
  el_local_owner *next = TAILQ_FIRST(&queue->waiting);
  el_local_place *lingering = find_lingering(queue);
  sharing how = SHARE_NOT;
  if (lingering != NULL && now->can_claim) {
    take_lingering(queue, lingering, now, out);
    return true;
  }
  if (lingering != NULL) stop(lingering, EL_ENTRY_STOP, out);
  if (is_shared(queue)) how = share_hold(queue, next, answer, now, out);
  if (how != SHARE_NOT) return how == SHARE_NOW;
  if (is_shared(queue) && share_wait(queue, next)) return true;
  return !waits_for_leaving(queue, next, now) && start_one(queue, next, out);
}

static void settle(el_local_queue *queue, const el_local_event *answer,
                   const el_local_now *now, el_local_actions *out) {
  if (!now->is_alive) return;
  while (!TAILQ_EMPTY(&queue->waiting) && serve(queue, answer, now, out)) {
  }
}

static void on_join(el_local_queue *queue, el_local_owner *owner,
                    el_local_actions *out) {
  assert(owner->state == EL_OWNER_OUT);
  owner->state = EL_OWNER_WAITING;
  owner->place = NULL;
  TAILQ_INSERT_TAIL(&queue->waiting, owner, link);
  owner->waited = has_to_wait(queue, owner);
  if (owner->try_once && owner->waited) {
    fail(queue, owner, NULL, out)->why = EL_FAILED_LOCKED_HERE;
  }
}

/* ---- what an entry has decided ---- */

static void fail_owners(el_local_queue *queue, el_local_place *place, int why,
                        el_local_actions *out) {
  while (has_owners(place)) {
    fail(queue, TAILQ_FIRST(&place->owners), NULL, out)->why = why;
  }
}

static void on_granted(const el_local_queue *queue, el_local_place *place,
                       int64_t rev, const el_local_now *now,
                       el_local_actions *out) {
  int64_t mod_rev = el_write_order_first((el_mode)queue->mode, rev);
  el_local_owner *owner;
  assert(has_owners(place));
  el_turn_begin(&place->turn, now->ms);
  place->looking = false; /* an answer that comes is about an earlier grant */
  TAILQ_FOREACH(owner, &place->owners, link) { grant(owner, mod_rev, out); }
}

/* The session ended before the entry was in etcd's queue: they start again with the next
 * one, before those that joined later. */
static void restart(el_local_queue *queue, el_local_place *place) {
  el_local_owner *owner;
  while ((owner = TAILQ_LAST(&place->owners, el_local_owner_list)) != NULL) {
    detach(queue, owner);
    owner->state = EL_OWNER_WAITING;
    TAILQ_INSERT_HEAD(&queue->waiting, owner, link);
  }
}

static void on_released(el_local_place *place, int how, el_local_actions *out) {
  el_local_owner *owner = place->releasing;
  if (owner == NULL) return; /* a wait that was given up, or its end was told */
  place->releasing = NULL;
  end_release(place, owner, how, out);
}

static void on_verdict(el_local_queue *queue, el_local_place *place,
                       const el_entry_action *verdict, const el_local_now *now,
                       el_local_actions *out) {
  switch (verdict->kind) {
    case EL_ENTRY_GRANTED:
      on_granted(queue, place, verdict->place.rev, now, out);
      return;
    case EL_ENTRY_REFUSED:
      fail_owners(queue, place, EL_FAILED_REFUSED, out);
      on_released(place, EL_RELEASE_REFUSED, out);
      return;
    case EL_ENTRY_LOCKED:
      fail_owners(queue, place, EL_FAILED_LOCKED, out);
      return;
    case EL_ENTRY_PLACE_LOST:
      fail_owners(queue, place, EL_FAILED_PLACE_LOST, out);
      return;
    case EL_ENTRY_RESTART:
      restart(queue, place);
      return;
    case EL_ENTRY_LOST:
      while (has_owners(place)) {
        lose(queue, TAILQ_FIRST(&place->owners), verdict->loss, out);
      }
      stop_lingering(place, out);
      stop_watching(place, out);
      return;
    case EL_ENTRY_RELEASED:
      on_released(place, verdict->found ? EL_RELEASE_DONE : EL_RELEASE_GONE,
                  out);
      return;
    default:
      assert(!"an action that the entry's driver carries out");
  }
}

/* ---- others want the name ---- */

static void on_contender(el_local_place *place, el_local_actions *out) {
  place->is_contended = true;
  if (place->is_lingering) stop(place, EL_ENTRY_STOP, out);
}

/* What does not linger yet is watched, and its watch tells. */
static void end_lingering(el_local_queue *queue, el_local_actions *out) {
  el_local_place *place;
  while ((place = find_lingering(queue)) != NULL) {
    stop(place, EL_ENTRY_STOP, out);
  }
}

static void on_behind(el_local_queue *queue, const el_local_event *event,
                      const el_local_now *now, el_local_actions *out) {
  el_local_place *place = event->place;
  if (!place->looking) return; /* it is about an earlier grant */
  place->looking = false;
  el_turn_note(&place->turn, event->behind);
  if (event->behind == EL_BEHIND_SOMEBODY) on_contender(place, out);
  settle(queue, event, now, out);
}

static void on_timer(el_local_place *place, el_local_actions *out) {
  if (place->is_lingering) stop(place, EL_ENTRY_STOP, out);
}

/* ---- everybody's wait or hold ends ---- */

static void fail_waiting(el_local_queue *queue, const el_error *err,
                         el_local_actions *out) {
  while (!TAILQ_EMPTY(&queue->waiting)) {
    fail(queue, TAILQ_FIRST(&queue->waiting), err, out);
  }
}

static void fail_enqueued(el_local_queue *queue, const el_error *err,
                          el_local_actions *out) {
  el_local_place *place;
  TAILQ_FOREACH(place, &queue->places, link) {
    el_local_owner *owner;
    while ((owner = TAILQ_FIRST(&place->owners)) != NULL &&
           owner->state == EL_OWNER_ENQUEUED) {
      leave_wait(queue, owner, err, out);
    }
  }
}

static void end_all(el_local_queue *queue, const el_local_event *event,
                    el_local_actions *out) {
  el_local_place *place;
  TAILQ_FOREACH(place, &queue->places, link) {
    el_local_owner *owner;
    while ((owner = TAILQ_FIRST(&place->owners)) != NULL) {
      if (owner->state == EL_OWNER_HOLDING) {
        lose(queue, owner, event->loss, out);
      } else {
        fail(queue, owner, event->err, out);
      }
    }
    stop_lingering(place, out);
    stop_watching(place, out);
  }
  fail_waiting(queue, event->err, out);
}

/* ---- step ---- */

static void apply(el_local_queue *queue, const el_local_event *event,
                  const el_local_now *now, el_local_actions *out) {
  switch (event->kind) {
    case EL_LOCAL_JOIN:
      on_join(queue, event->owner, out);
      break;
    case EL_LOCAL_LEAVE:
      on_leave(queue, event, now, out);
      break;
    case EL_LOCAL_MAX_HOLD:
      on_max_hold(queue, event->owner, now, out);
      break;
    case EL_LOCAL_DOWNGRADE:
      if (event->owner->state == EL_OWNER_HOLDING) {
        event->owner->place->is_downgraded = true;
      }
      break;
    case EL_LOCAL_VERDICT:
      on_verdict(queue, event->place, event->verdict, now, out);
      return; /* the entry is in the middle of a step */
    case EL_LOCAL_BEHIND:
      on_behind(queue, event, now, out);
      return;
    case EL_LOCAL_CONTENDER:
      if (event->place != NULL) {
        on_contender(event->place, out);
      } else {
        end_lingering(queue, out);
      }
      break;
    case EL_LOCAL_TIMER:
      on_timer(event->place, out);
      break;
    case EL_LOCAL_FAIL_WAITING:
      fail_enqueued(queue, event->err, out);
      fail_waiting(queue, event->err, out);
      return;
    case EL_LOCAL_REFUSE:
      if (!el_local_queue_has_owners(queue)) {
        fail_waiting(queue, event->err, out);
      }
      return;
    case EL_LOCAL_END:
      end_all(queue, event, out);
      return;
    case EL_LOCAL_SETTLE:
      break;
  }
  settle(queue, NULL, now, out);
}

void el_local_queue_step(el_local_queue *queue, const el_local_event *event,
                         const el_local_now *now, el_local_actions *out) {
  size_t first = out->n;
  apply(queue, event, now, out);
  for (; first < out->n; first++) {
    out->list[first].queue = queue;
  }
}

/* ---- for the caller ---- */

bool el_local_place_is_idle(const el_local_place *place) {
  return !has_owners(place) && place->releasing == NULL &&
         !place->is_lingering && el_entry_is_over(place->entry);
}

bool el_local_queue_is_wanting(const el_local_queue *queue) {
  return !TAILQ_EMPTY(&queue->waiting) || is_behind_another(queue);
}

bool el_local_queue_is_leaving(const el_local_queue *queue) {
  const el_local_place *place;
  TAILQ_FOREACH(place, &queue->places, link) {
    const el_entry *entry = place->entry;
    if (!has_owners(place) && !place->is_lingering &&
        !el_entry_is_free(entry) && entry->state != EL_ENTRY_LOCK_DELAY &&
        entry->state != EL_ENTRY_DEAD) {
      return true;
    }
  }
  return false;
}

bool el_local_queue_has_owners(const el_local_queue *queue) {
  const el_local_place *place;
  TAILQ_FOREACH(place, &queue->places, link) {
    if (has_owners(place)) return true;
  }
  return false;
}

static const char *check_place(const el_local_queue *queue,
                               const el_local_place *place) {
  bool is_wanted = has_owners(place) || place->is_lingering;
  if (place->entry->wanted != is_wanted) {
    return is_wanted ? "an entry that is not wanted has owners"
                     : "an entry without owners is wanted";
  }
  if (place->is_lingering && has_owners(place)) {
    return "an entry that lingers has owners";
  }
  if (place->is_lingering && place->is_contended) {
    return "an entry lingers although it is contended";
  }
  if (place->is_lingering && !TAILQ_EMPTY(&queue->waiting)) {
    return "an entry lingers although an owner waits here";
  }
  return NULL;
}

const char *el_local_queue_check(const el_local_queue *queue,
                                 const el_local_now *now) {
  const el_local_owner *next = TAILQ_FIRST(&queue->waiting);
  const el_local_place *place;
  uint32_t n = 0;
  bool is_looking = false;
  TAILQ_FOREACH(place, &queue->places, link) {
    const char *broken = check_place(queue, place);
    if (broken != NULL) return broken;
    n += !is_free(place);
    is_looking = is_looking || (place->looking && has_owners(place));
  }
  if (next == NULL || !now->is_alive || n >= capacity(queue) ||
      (is_shared(queue) && is_looking) || waits_for_leaving(queue, next, now)) {
    return NULL;
  }
  return "an owner waits although an entry is free";
}
