/* local_queue_ends: how a wait or a hold ends for its owner, and in which words he hears
 * of it. */
#include <stdio.h>
#include <string.h>

#include "lock/local_queue_int.h"

/* So many bytes of names are shown. */
enum { SHOWN_MAX = 80 };

el_what el_owner_what(const el_owner *owner) {
  el_bytes name = owner->name;
  el_what what;
  int len = snprintf(what.text, sizeof what.text, "lock \"");
  if (name.len > SHOWN_MAX) name.len = SHOWN_MAX;
  for (size_t i = 0; i < name.len; i++) {
    char c = name.data[i];
    if (c == '"' || c == '\\') what.text[len++] = '\\';
    what.text[len++] = (char)(c != '\0' ? c : ' '); /* between several names */
  }
  strcpy(what.text + len, "\"");
  return what;
}

/* ---- waits ---- */

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
  cause = el_session_driver_cause(owner->queue->world->session);
  return cause != NULL ? cause : el_requests_away(world->requests);
}

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

/* How many places of |queue| are taken, as far as this client knows: by an owner that
 * holds, by one that waits for another client, or by a lost hold with a delay. */
static unsigned count_known_taken(const el_local_queue *queue) {
  const el_local_place *at;
  unsigned n = 0;
  TAILQ_FOREACH(at, &queue->places, link) {
    el_entry_state state = at->driver.entry.state;
    n += state == EL_ENTRY_DELAYING ||
         (!TAILQ_EMPTY(&at->fronts) &&
          (state == EL_ENTRY_HELD || state == EL_ENTRY_WAITING));
  }
  return n;
}

/* Why nobody knows whether |owner|, who tries and has asked etcd nothing, could have the
 * lock: the owners before it have no answer either. NULL: the lock is taken. */
static const el_error *cause_of_doubt(const el_owner *owner) {
  const el_local_queue *queue = owner->queue;
  unsigned capacity = queue->mode == EL_MODE_PERMIT ? queue->permits : 1;
  if (owner->place != NULL || count_known_taken(queue) >= capacity) return NULL;
  return last_cause(owner);
}

/* "It was not free" is an answer of etcd's. Where none has come for all that time,
 * or where the last attempt has failed, nobody knows whether it was: then what
 * stands in the way is told, or those who ask would blame a holder for an outage. A try
 * whose time is over has no answer of its own, whatever others were told. */
void el_local_queue_fail_in_time(el_owner *owner, int64_t waited_ms) {
  const el_local_queue *queue = owner->queue;
  double waited_s = (double)waited_ms / 1000;
  bool is_held = !owner->try_once && !is_shared(queue) && is_held_here(owner);
  const el_error *cause = is_held ? NULL : last_cause(owner);
  el_error err;
  if (owner->place != NULL && el_local_queue_is_inquired(owner->place)) {
    el_local_queue_fail_locked(owner);
    return;
  }
  if (cause != NULL) {
    el_error_set(&err, EL_UNAVAILABLE, "%s not taken in %.3g s: %s",
                 el_owner_what(owner).text, waited_s, cause->text);
  } else if (owner->try_once || (!is_held && !has_answered(owner))) {
    el_error_set(&err, EL_UNAVAILABLE,
                 "%s not taken in %.3g s: no answer from etcd %s",
                 el_owner_what(owner).text, waited_s,
                 el_requests_address(queue->queues->world->requests));
  } else {
    el_error_set(&err, EL_TIMEOUT, "%s was not free within %.3g s",
                 el_owner_what(owner).text, waited_s);
  }
  el_local_queue_fail(owner, &err);
}

void el_local_queue_fail_refused(el_owner *owner) {
  const el_error *cause = last_cause(owner);
  el_error err;
  el_error_set(&err, cause != NULL ? cause->code : EL_UNAVAILABLE, "%s: %s",
               el_owner_what(owner).text,
               cause != NULL ? cause->text : "etcd refused it");
  el_local_queue_fail(owner, &err);
}

void el_local_queue_fail_away(el_owner *owner, const el_error *away) {
  el_error err;
  el_error_set(&err, EL_UNAVAILABLE, "%s: %s", el_owner_what(owner).text,
               away->text);
  el_local_queue_fail(owner, &err);
}

void el_local_queue_fail_delays(el_owner *owner, int64_t delay_ms) {
  el_error err;
  el_error_set(&err, EL_INVALID,
               "%s: this client has locks with %d other delays than %g s, and "
               "can't have more at a time",
               el_owner_what(owner).text, EL_DELAYS_MAX,
               (double)delay_ms / 1000);
  el_local_queue_fail(owner, &err);
}

void el_local_queue_fail_cancelled(el_owner *owner) {
  el_error err;
  el_error_set(&err, EL_CANCELLED, "the wait for %s was given up",
               el_owner_what(owner).text);
  el_local_queue_fail(owner, &err);
}

void el_local_queue_fail_locked(el_owner *owner) {
  const el_error *doubt = cause_of_doubt(owner);
  el_error err;
  if (doubt != NULL) {
    el_error_set(&err, EL_UNAVAILABLE, "%s: %s", el_owner_what(owner).text,
                 doubt->text);
  } else if (owner->must_share && !owner->try_once) {
    el_error_set(&err, EL_DEADLOCK,
                 "%s is wanted by a writer who waits for a reader of "
                 "this program, which can't release it while this "
                 "one waits",
                 el_owner_what(owner).text);
  } else {
    el_error_set(&err, EL_LOCKED, "%s is held by somebody else",
                 el_owner_what(owner).text);
  }
  el_local_queue_fail(owner, &err);
}

void el_local_queue_fail_kept_out(el_local_place *at, int64_t left_ms) {
  el_owner *owner;
  el_error err;
  while ((owner = TAILQ_FIRST(&at->fronts)) != NULL) {
    if (left_ms == 0 || owner->must_share) {
      el_local_queue_fail_locked(owner);
      continue;
    }
    el_error_set(&err, EL_LOCKED,
                 "%s is held by nobody, but who had it has crashed, and its "
                 "delay keeps others out for %.3g s yet",
                 el_owner_what(owner).text, (double)left_ms / 1000);
    el_local_queue_fail(owner, &err);
  }
}

void el_local_queue_fail_place_lost(el_owner *owner) {
  el_error err;
  el_error_set(
      &err, EL_LOST,
      "%s: our key in the queue was deleted, or our lease ended, while "
      "we waited",
      el_owner_what(owner).text);
  el_local_queue_fail(owner, &err);
}

void el_local_queue_fail_conflict(el_local_place *at, unsigned permits) {
  el_owner *owner;
  el_error err;
  while ((owner = TAILQ_FIRST(&at->fronts)) != NULL) {
    size_t shown = owner->name.len < SHOWN_MAX ? owner->name.len : SHOWN_MAX;
    el_error_set(&err, EL_CONFLICT,
                 "semaphore \"%.*s\" has %u permit%s for others, and not %u",
                 (int)shown, owner->name.data, permits, permits == 1 ? "" : "s",
                 (unsigned)owner->permits);
    el_local_queue_fail(owner, &err);
  }
}

/* ---- holds ---- */

/* Ends a hold that is lost, whoever has found that out: a watch, a probe, a timer,
 * the holder's own clock, or a guarded write. Whichever comes first says why; for
 * the others there is nothing left to end. Who hears of it from here finds that it
 * isn't counted as held any more. */
void el_local_queue_end_lost(el_owner *owner, el_loss loss) {
  el_counters *counters = counters_of(owner->queue);
  el_error err;
  el_local_queue_detach(owner);
  EL_COUNT(counters, held, -1);
  owner->events->lost(owner, loss);
  el_error_set(&err, EL_LOST, "%s was lost: %s", el_owner_what(owner).text,
               el_losses[loss].text);
  owner->events->released(owner, &err);
  owner->events->forgotten(owner);
}

void el_local_queue_end_released(el_owner *owner, const el_error *err) {
  owner->state = EL_OWNER_OUT;
  owner->events->released(owner, err);
  owner->events->forgotten(owner);
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
               "%s: the client was closed before etcd confirmed the "
               "release",
               el_owner_what(owner).text);
  el_local_queue_end_released(owner, &err);
}

void el_local_queue_give_up(el_local_place *at) {
  el_owner *owner = at->releasing;
  at->releasing = NULL;
  if (owner != NULL) {
    el_local_queue_end_unconfirmed(owner);
  }
}
