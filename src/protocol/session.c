/* session: a lease with its keepalive, and the time until which holds on the lease are proven. */
#include "protocol/session.h"

#include <assert.h>
#include <string.h>

#include "base/times.h"
#include "protocol/retry.h"

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

void el_session_init(el_session *session, int64_t ttl_ms, int64_t lock_delay_ms,
                     int64_t grant_at, uint64_t salt) {
  memset(session, 0, sizeof *session);
  session->grant_at = grant_at;
  session->requested_ttl_ms = ttl_ms;
  session->lock_delay_ms = lock_delay_ms;
  session->salt = salt;
}

int64_t el_session_lease_ms(const el_session *session) {
  return session->requested_ttl_ms + session->lock_delay_ms;
}

bool el_session_is_proven(const el_session *session, int64_t now_ms) {
  return session->state == EL_SESSION_ALIVE && now_ms < session->hold_deadline;
}

int64_t el_session_proven_rev(const el_session *session, int64_t now_ms) {
  bool is_fresh =
      session->state == EL_SESSION_ALIVE &&
      now_ms < session->proof.seen.sent_ms + EL_FRESH_PROOF_MS &&
      now_ms < session->hold_deadline - session->ttl_ms / EL_FRESH_DIVISOR;
  return is_fresh ? session->proof.seen.rev : 0;
}

static el_session_action *push(el_session_actions *out, int kind) {
  el_session_action *action = &out->list[out->n++];
  assert(out->n <= EL_SESSION_ACTIONS_MAX);
  memset(action, 0, sizeof *action);
  action->kind = kind;
  return action;
}

/* ---- the hold deadline ---- */

/* Records that all holds are lost from now on. A holder may not know this yet, and its last writes
 * may be in flight. So the keys stay for the lock delay. */
static void lose_holds(el_session *session, int64_t now_ms) {
  if (session->held > 0 && session->lock_delay_ms > 0) {
    session->keep_lease_until = now_ms + session->lock_delay_ms;
  }
}

/* Revokes the lease. Returns false, and does nothing, until the lock delay of a lost hold is over:
 * see lose_holds. */
static bool revoke(const el_session *session, int64_t now_ms,
                   el_session_actions *out) {
  if (now_ms < session->keep_lease_until) return false;
  push(out, EL_SESSION_SEND_REVOKE)->id = session->id;
  return true;
}

/* Ends the holds if the hold deadline has passed. A hold deadline that has passed is never
 * extended, because each step runs this before it applies a proof. */
static void check_expiry(el_session *session, int64_t now_ms,
                         el_session_actions *out) {
  if (session->hold_deadline != 0 && now_ms >= session->hold_deadline) {
    session->hold_deadline = 0;
    lose_holds(session, now_ms);
    if (session->listed > 0) {
      push(out, EL_SESSION_REPORT_EXPIRED);
    }
  }
}

/* Returns the latest renewal of the lease; the grant is the first. */
static const el_renewal *last_renewal(const el_session *session) {
  return &session->proof.renewals[0];
}

/* Tells whether the latest renewal needs another read: no read sent so far can prove it. */
static bool needs_read(const el_session *session, int64_t now_ms) {
  return el_lease_proof_needs_sight(&session->proof, session->read_ms, now_ms);
}

/* Tells whether no read was sent with the last keepalive, which is in flight. */
static bool is_unread(const el_session *session) {
  return session->keepalives > 0 &&
         session->read_ms < session->keepalives_ms[session->keepalives - 1];
}

/* Returns how much time must be left for a proof to begin the holds. A hold that begins with too
 * little time for the next proof would be lost at once, on a slow network or disk. */
static int64_t least_ms(const el_session *session) {
  if (session->hold_deadline != 0) return 0;
  return clamp(session->answer_ms, 0, session->ttl_ms / EL_PROOF_DIVISOR);
}

/* Has the next keepalive sent EL_REPROVE_MS after the last one, which was sent at |sent_ms|, or
 * now, unless it is to be sent earlier. */
static void renew_soon(el_session *session, int64_t sent_ms, int64_t now_ms) {
  int64_t soonest = sent_ms + EL_REPROVE_MS;
  if (session->renew_at <= soonest) return;
  session->renew_at = soonest > now_ms ? soonest : now_ms;
}

/* Has the next keepalive sent early, because the answers for the last one do not prove it, normally
 * because their raft terms differ: the lease can be proven only after the new leader has renewed
 * it. */
static void renew_early(el_session *session, int64_t now_ms) {
  if (session->keepalives > 0) return;
  renew_soon(session, last_renewal(session)->sent_ms, now_ms);
}

/* Applies |sight|, and begins or extends the holds. Returns the latest renewal that it proves;
 * NULL: none. */
static const el_renewal *prove(el_session *session, const el_sight *sight,
                               int64_t now_ms) {
  const el_renewal *proven =
      el_lease_proof_add_sight(&session->proof, sight, now_ms);
  int64_t end = session->proof.alive_until;
  if (proven != NULL && end > session->hold_deadline &&
      end > now_ms + least_ms(session)) {
    session->hold_deadline = end;
  }
  return proven;
}

static void on_sight(el_session *session, const el_sight *sight,
                     int64_t now_ms) {
  const el_renewal *proven = prove(session, sight, now_ms);
  const el_renewal *last = last_renewal(session);
  if (proven == NULL || (proven != last && sight->sent_ms >= last->sent_ms)) {
    renew_early(session, now_ms);
  }
}

static void read_key(el_session *session, int64_t now_ms,
                     el_session_actions *out) {
  if (session->listed == 0 || session->reads == EL_SESSION_IN_FLIGHT_MAX)
    return;
  session->reads++;
  session->read_at = 0;
  session->read_ms = now_ms;
  push(out, EL_SESSION_READ_KEY);
}

static void on_holds_changed(el_session *session,
                             const el_session_event *event) {
  session->listed = event->listed;
  session->held = event->held;
  if (event->listed == 0) session->read_at = 0;
}

static void on_read_answer(el_session *session, const el_session_event *event,
                           int64_t now_ms, el_session_actions *out) {
  session->reads--;
  if (!event->outcome.is_done) {
    session->read_at = el_retry_next(&event->outcome, now_ms,
                                     &session->read_failures, session->salt);
    return;
  }
  session->read_failures = 0;
  if (event->is_found) {
    el_sight sight = {event->outcome.sent_ms, event->member, event->term,
                      event->rev};
    on_sight(session, &sight, now_ms);
  }
  /* If this key is gone, the lease may be alive: read another key. */
  if (event->is_gone || needs_read(session, now_ms) || is_unread(session))
    read_key(session, now_ms, out);
}

/* ---- the lease ---- */

static void end_session(el_session *session, el_session_end end,
                        el_session_actions *out) {
  session->state = EL_SESSION_ENDED;
  session->end = end;
  session->hold_deadline = 0;
  push(out, EL_SESSION_REPORT_ENDED);
}

/* Ends the session because the lease does not exist in etcd, or counts as gone. (Another cluster
 * may have given that answer.) The end is early if the TTL in the latest answer is not over. */
static void lose_lease(el_session *session, int64_t now_ms,
                       el_session_actions *out) {
  const el_renewal *last = last_renewal(session);
  bool is_early =
      now_ms < last->sent_ms + last->ttl_ms + session->lock_delay_ms;
  end_session(session, is_early ? EL_SESSION_END_EARLY : EL_SESSION_END_EXPIRED,
              out);
}

/* Ends the session although its lease may be alive. */
static void abandon(el_session *session, int64_t now_ms,
                    el_session_actions *out) {
  lose_holds(session, now_ms);
  revoke(session, now_ms, out);
  lose_lease(session, now_ms, out);
}

/* Returns the time between two keepalives. */
static int64_t interval_ms(const el_session *session, int64_t ttl_ms) {
  return session->answer_ms >= ttl_ms / EL_SLOW_DIVISOR
             ? ttl_ms / EL_RENEW_SLOW_DIVISOR
             : clamp(ttl_ms - EL_ELECTION_MS - session->answer_ms,
                     ttl_ms / EL_RENEW_OFTEN_DIVISOR,
                     ttl_ms / EL_RENEW_DIVISOR);
}

/* Inserts an answered keepalive, or the grant, into the list of the last ones. The TTL in |event|
 * is never less than requested: etcd/lease.c refuses such an answer. */
static void record_renewal(el_session *session, const el_session_event *event,
                           int64_t now_ms) {
  const el_renewal *latest = last_renewal(session);
  el_renewal renewal = {.sent_ms = event->outcome.sent_ms,
                        .answered_ms = now_ms,
                        .ttl_ms = event->ttl_ms - session->lock_delay_ms,
                        .member = event->member,
                        .term = event->term,
                        .rev = event->rev,
                        .is_grant = session->id == 0};
  el_lease_proof_add_renewal(&session->proof, &renewal);
  session->failures = 0;
  if (session->keepalives == 0) {
    session->renew_at =
        latest->sent_ms < session->confirm_ms
            ? now_ms
            : latest->sent_ms + interval_ms(session, latest->ttl_ms);
  }
}

/* Removes the keepalives that were sent at |sent_ms| or earlier from those in flight: the earlier
 * ones need no answer any more. If one comes, a read in flight may still prove it. */
static void end_keepalives(el_session *session, int64_t sent_ms) {
  int n = 0;
  while (n < session->keepalives && session->keepalives_ms[n] <= sent_ms)
    n++;
  session->keepalives -= n;
  memmove(session->keepalives_ms, session->keepalives_ms + n,
          (size_t)session->keepalives * sizeof *session->keepalives_ms);
}

static void send_keepalive(el_session *session, int64_t now_ms,
                           el_session_actions *out) {
  if (session->keepalives == EL_SESSION_IN_FLIGHT_MAX) {
    end_keepalives(session, session->keepalives_ms[0]);
  }
  session->keepalives_ms[session->keepalives++] = now_ms;
  session->renew_at = now_ms + interval_ms(session, session->ttl_ms);
  push(out, EL_SESSION_SEND_KEEPALIVE)->sent_ms = now_ms;
}

static void on_needed(el_session *session, int64_t now_ms,
                      el_session_actions *out) {
  session->state = EL_SESSION_GRANTING;
  if (now_ms < session->grant_at) {
    session->renew_at = session->grant_at;
  } else {
    push(out, EL_SESSION_SEND_GRANT);
  }
}

static void on_grant_answer(el_session *session, const el_session_event *event,
                            int64_t now_ms, el_session_actions *out) {
  if (session->state !=
      EL_SESSION_GRANTING) { /* the session was closed before the answer */
    push(out, EL_SESSION_SEND_REVOKE)->id = event->id;
    return;
  }
  if (event->outcome.is_done) {
    session->state = EL_SESSION_ALIVE;
    record_renewal(session, event, now_ms);
    session->id = event->id;
    session->granted_ms = now_ms;
    session->ttl_ms = last_renewal(session)->ttl_ms;
    /* before the first enqueue, which then proves this keepalive: the grant was slow */
    if (now_ms >= session->renew_at) send_keepalive(session, now_ms, out);
    push(out, EL_SESSION_REPORT_READY);
    return;
  }
  if (!event->outcome.is_definite) {
    push(out, EL_SESSION_SEND_REVOKE)->id = event->id; /* the lease may exist */
  }
  if (event->outcome.is_retriable) {
    session->renew_at = el_retry_next(&event->outcome, now_ms,
                                      &session->failures, session->salt);
  } else {
    session->state = EL_SESSION_NEW;
    session->failures = 0;
    push(out, EL_SESSION_REPORT_REFUSED);
  }
}

static void on_keepalive_answer(el_session *session,
                                const el_session_event *event, int64_t now_ms,
                                el_session_actions *out) {
  end_keepalives(session, event->outcome.sent_ms);
  if (!event->outcome.is_done) {
    session->renew_at = el_retry_next(&event->outcome, now_ms,
                                      &session->failures, session->salt);
  } else if (event->ttl_ms == 0) {
    /* A deposed leader gives this answer for a lease that was granted since. Then the lease is
     * alive, and its keys would block other clients. */
    abandon(session, now_ms, out);
  } else {
    record_renewal(session, event, now_ms);
    if (prove(session, &session->proof.seen, now_ms) == last_renewal(session)) {
      return;
    }
    if (needs_read(session, now_ms)) {
      read_key(session, now_ms, out);
    } else if (session->listed > 0 && session->reads == 0 &&
               session->read_at == 0) {
      renew_early(session, now_ms); /* its read did not prove it */
    }
  }
}

/* A keepalive in flight may never be answered: it went to a member that was left, or to the leader
 * before. */
static void on_moved(el_session *session, int64_t now_ms) {
  int64_t sent_ms = session->keepalives > 0
                        ? session->keepalives_ms[session->keepalives - 1]
                        : last_renewal(session)->sent_ms;
  renew_soon(session, sent_ms, now_ms);
}

static void on_confirm(el_session *session, int64_t now_ms) {
  session->confirm_ms = now_ms;
  if (session->keepalives == 0 && session->failures == 0)
    session->renew_at = now_ms;
}

/* ---- audits ---- */

/* A put of unknown outcome may be applied minutes later, for example because a proxy held it back.
 * A single audit cannot exclude that, so the session audits its lease again and again. */
static void on_put_in_doubt(el_session *session, int64_t now_ms) {
  session->has_put_in_doubt = true;
  session->audit_interval_ms = EL_AUDIT_FIRST_MS;
  if (!session->is_auditing &&
      (session->audit_at == 0 ||
       session->audit_at > now_ms + EL_AUDIT_FIRST_MS)) {
    session->audit_at = now_ms + EL_AUDIT_FIRST_MS;
  }
}

static void on_audit_answer(el_session *session, const el_session_event *event,
                            int64_t now_ms) {
  session->is_auditing = false;
  if (event->outcome.is_done) {
    session->audit_failures = 0;
    session->audit_at = now_ms + session->audit_interval_ms;
    session->audit_interval_ms =
        clamp(2 * session->audit_interval_ms, 0, EL_AUDIT_LAST_MS);
  } else {
    session->audit_at = el_retry_next(&event->outcome, now_ms,
                                      &session->audit_failures, session->salt);
  }
}

/* If a put is in doubt, revokes the lease: after that no key can be put with this lease. */
static void on_unused(el_session *session, int64_t now_ms,
                      el_session_actions *out) {
  if (session->has_put_in_doubt && revoke(session, now_ms, out)) {
    end_session(session, EL_SESSION_END_CLOSED, out);
  }
}

/* ---- time ---- */

static void on_timer(el_session *session, int64_t now_ms,
                     el_session_actions *out) {
  bool is_due = session->renew_at != 0 && now_ms >= session->renew_at;
  if (is_due && session->state == EL_SESSION_GRANTING) {
    session->renew_at = 0;
    push(out, EL_SESSION_SEND_GRANT);
  } else if (is_due && session->state == EL_SESSION_REVOKING) {
    session->renew_at = 0;
    push(out, EL_SESSION_SEND_REVOKE)->id = session->id;
  }
  if (session->state != EL_SESSION_ALIVE) return;
  if (now_ms >= session->renew_at) {
    send_keepalive(session, now_ms, out);
    read_key(session, now_ms, out);
  } else if (session->read_at != 0 && now_ms >= session->read_at) {
    session->read_at = 0;
    read_key(session, now_ms, out);
  }
  if (session->audit_at != 0 && now_ms >= session->audit_at) {
    session->audit_at = 0;
    session->is_auditing = true;
    push(out, EL_SESSION_AUDIT_LEASE);
  }
}

static void on_close(el_session *session, int64_t now_ms,
                     el_session_actions *out) {
  if (session->state == EL_SESSION_ALIVE && revoke(session, now_ms, out)) {
    session->state = EL_SESSION_REVOKING;
    session->failures = 0;
    session->renew_at = 0;
  } else if (session->state == EL_SESSION_ALIVE) {
    end_session(session, EL_SESSION_END_LEFT_TO_EXPIRE, out);
  } else if (session->state != EL_SESSION_REVOKING) {
    end_session(session, EL_SESSION_END_CLOSED, out);
  }
  session->hold_deadline = 0;
}

static void on_abandon(el_session *session, int64_t now_ms,
                       el_session_actions *out) {
  if (session->state == EL_SESSION_ALIVE) {
    abandon(session, now_ms, out);
  } else {
    on_close(session, now_ms, out); /* there is no lease to revoke yet */
  }
}

static void on_revoke_answer(el_session *session, const el_session_event *event,
                             int64_t now_ms, el_session_actions *out) {
  if (session->state != EL_SESSION_REVOKING || event->id != session->id) return;
  if (event->outcome.is_done) {
    end_session(session, EL_SESSION_END_CLOSED, out);
  } else if (el_outcome_is_final(&event->outcome)) {
    lose_lease(session, now_ms, out);
  } else {
    session->renew_at = el_retry_next(&event->outcome, now_ms,
                                      &session->failures, session->salt);
  }
}

/* ---- step ---- */

static void take_earlier(int64_t *wake_at, int64_t at) {
  if (at != 0 && (*wake_at == 0 || at < *wake_at)) *wake_at = at;
}

static int64_t next_wake(const el_session *session, int64_t now_ms) {
  int64_t wake_at = 0;
  if (session->state == EL_SESSION_GRANTING ||
      session->state == EL_SESSION_REVOKING) {
    take_earlier(&wake_at, session->renew_at);
  } else if (session->state == EL_SESSION_ALIVE) {
    take_earlier(&wake_at, session->renew_at);
    take_earlier(&wake_at, session->read_at);
    take_earlier(&wake_at, session->audit_at);
    take_earlier(&wake_at, session->hold_deadline);
  }
  return wake_at != 0 && wake_at <= now_ms ? now_ms + 1 : wake_at;
}

void el_session_step(el_session *session, const el_session_event *event,
                     int64_t now_ms, el_session_actions *out) {
  out->n = 0;
  check_expiry(session, now_ms, out);
  switch (event->kind) {
    case EL_SESSION_ON_NEEDED:
      if (session->state == EL_SESSION_NEW) {
        on_needed(session, now_ms, out);
      }
      break;
    case EL_SESSION_ON_GRANT_ANSWER:
      on_grant_answer(session, event, now_ms, out);
      break;
    case EL_SESSION_ON_KEEPALIVE_ANSWER:
      if (session->state == EL_SESSION_ALIVE)
        on_keepalive_answer(session, event, now_ms, out);
      break;
    case EL_SESSION_ON_READ_ANSWER:
      if (session->state == EL_SESSION_ALIVE)
        on_read_answer(session, event, now_ms, out);
      break;
    case EL_SESSION_ON_SIGHT:
      if (session->state == EL_SESSION_ALIVE) {
        on_sight(session, &event->sight, now_ms);
      }
      break;
    case EL_SESSION_ON_LEASE_GONE:
      if (session->state == EL_SESSION_ALIVE) lose_lease(session, now_ms, out);
      break;
    case EL_SESSION_ON_HOLDS_CHANGED:
      on_holds_changed(session, event);
      break;
    case EL_SESSION_ON_CLOSE:
      on_close(session, now_ms, out);
      break;
    case EL_SESSION_ON_ABANDON:
      on_abandon(session, now_ms, out);
      break;
    case EL_SESSION_ON_REVOKE_ANSWER:
      on_revoke_answer(session, event, now_ms, out);
      break;
    case EL_SESSION_ON_PUT_IN_DOUBT:
      if (session->state == EL_SESSION_ALIVE) on_put_in_doubt(session, now_ms);
      break;
    case EL_SESSION_ON_AUDIT_ANSWER:
      if (session->state == EL_SESSION_ALIVE)
        on_audit_answer(session, event, now_ms);
      break;
    case EL_SESSION_ON_UNUSED:
      if (session->state == EL_SESSION_ALIVE) on_unused(session, now_ms, out);
      break;
    case EL_SESSION_ON_CONFIRM:
      if (session->state == EL_SESSION_ALIVE) on_confirm(session, now_ms);
      break;
    case EL_SESSION_ON_MOVED:
      if (session->state == EL_SESSION_ALIVE) on_moved(session, now_ms);
      break;
    case EL_SESSION_ON_TIMER:
      on_timer(session, now_ms, out);
      break;
  }
  session->wake_at = next_wake(session, now_ms);
}
