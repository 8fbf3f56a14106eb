/* session: the lease of a client. */
#include "lock/session.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/random.h"
#include "base/times.h"
#include "protocol/lock_txn.h"
#include "protocol/retry.h"

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

bool el_session_is_alive(const el_session *session) {
  return session->lease.state == EL_SESSION_ALIVE;
}

/* Returns the TTL that the session asks for, with the lock delay. */
static int64_t lease_ms(const el_session *session) {
  return session->ttl_ms + session->lock_delay_ms;
}

static const el_patience *patience_of(const el_session *session) {
  return el_channel_patience(el_auth_channel(session->shared->auth));
}

/* Returns how long an answer may take, by the last answers (el_patience_estimate_ms). */
static int64_t answer_ms(const el_session *session) {
  return el_patience_estimate_ms(patience_of(session));
}

/* Returns the latest renewal of the lease; the grant is the first. */
static const el_renewal *last_renewal(const el_session *session) {
  return &session->lease.proof.renewals[0];
}

/* If the server allows too few streams for the keepalives, that is why etcd gives no answer. */
static void note_result(el_session *session, const el_error *err) {
  el_error refused;
  if (err->code == EL_UNAVAILABLE &&
      el_keepalive_is_refused(session->keepalive)) {
    el_error_set(&refused, EL_UNAVAILABLE,
                 "etcd %s: it allows too few streams on a connection "
                 "(--max-concurrent-streams)",
                 el_request_queue_address(session->shared->requests));
    err = &refused;
  }
  if (err->code != EL_OK) {
    el_shared_set_proof_error(session->shared, err);
  }
  session->last_error = *err;
}

/* ---- the frame of an event ---- */

/* If an event comes much later than the session has asked for, records that the process did not
 * run: this explains why holds expire. */
static void note_stall(const el_session *session) {
  EL_UNINITIALIZED el_error late;
  if (el_shared_stood_still(session->shared, &late)) {
    el_shared_set_proof_error(session->shared, &late);
  }
}

int64_t el_session_stay_ms(const el_session *session) {
  int64_t ttl_ms = session->lease.ttl_ms;
  return session->lock_delay_ms == 0
             ? 0
             : ttl_ms - el_lease_proof_hold_ms(ttl_ms) + session->lock_delay_ms;
}

/* Records that all holds are lost from now on. A holder may not know this yet, and its last writes
 * may be in flight. So the keys stay for the lock delay. */
static void keep_for_lock_delay(el_session *session, int64_t now_ms) {
  if (session->n_held > 0 && session->lock_delay_ms > 0) {
    session->lease.keep_until = now_ms + el_session_stay_ms(session);
  }
}

/* Explains why the holds expire, in case no error does: a keepalive has no answer yet. */
static void explain_silence(const el_session *session, int64_t now_ms,
                            el_error *err) {
  const el_session_lease *lease = &session->lease;
  if (lease->keepalives == 0) return;
  el_error_set(err, EL_UNAVAILABLE,
               "no answer to a keepalive for %.1f s; etcd %s is in use now",
               (double)(now_ms - lease->keepalives_ms[0]) / 1000,
               el_request_queue_address(session->shared->requests));
}

/* Ends the holds if the hold deadline has passed. A hold deadline that has passed is never
 * extended, because each event runs this before it applies a proof. */
static void check_expiry(el_session *session, int64_t now_ms) {
  el_session_lease *lease = &session->lease;
  if (lease->hold_deadline == 0 || now_ms < lease->hold_deadline) return;
  lease->hold_deadline = 0;
  keep_for_lock_delay(session, now_ms);
  if (session->n_keys > 0) {
    el_error silence = {.code = EL_OK};
    explain_silence(session, now_ms, &silence);
    el_shared_keep_proof_error(session->shared, &silence);
    session->news |= EL_SESSION_NEWS_EXPIRED;
  }
}

/* Begins an event. Returns el_now_ms. If the answer to a grant, a keepalive or a lease check leads
 * to the event, the caller has noted its error (note_result), which may be why holds expire. */
static int64_t begin(el_session *session) {
  int64_t now_ms = el_now_ms();
  assert(!session->is_in_event);
  session->is_in_event = true;
  note_stall(session);
  check_expiry(session, now_ms);
  return now_ms;
}

static void take_earlier(int64_t *wake_at, int64_t at) {
  if (at != 0 && (*wake_at == 0 || at < *wake_at)) *wake_at = at;
}

/* Returns when the timer is due; 0: never. */
static int64_t next_wake(const el_session_lease *lease, int64_t now_ms) {
  int64_t wake_at = 0;
  if (lease->state == EL_SESSION_GRANTING ||
      lease->state == EL_SESSION_REVOKING) {
    take_earlier(&wake_at, lease->renew_at);
  } else if (lease->state == EL_SESSION_ALIVE) {
    take_earlier(&wake_at, lease->renew_at);
    take_earlier(&wake_at, lease->read_at);
    take_earlier(&wake_at, lease->audit_at);
    take_earlier(&wake_at, lease->hold_deadline);
  }
  /* in the next ms at the earliest, so that a timer that cannot act yet does not spin */
  return wake_at != 0 && wake_at <= now_ms ? now_ms + 1 : wake_at;
}

/* Shows the state of the session to other threads, except the hold deadline. */
static void publish(const el_session *session, int64_t wake_at) {
  el_shared *shared = session->shared;
  bool is_alive = el_session_is_alive(session);
  const el_renewal *last = last_renewal(session);
  int64_t until = last->sent_ms + last->ttl_ms;
  atomic_store(&shared->lease, is_alive ? session->lease.id : 0);
  atomic_store(&shared->due_ms, wake_at);
  atomic_store(&shared->alive_until_ms, is_alive ? until : 0);
}

static void end(el_session *session) {
  int64_t wake_at = next_wake(&session->lease, el_now_ms());
  if (wake_at != 0) {
    el_timers_set(session->shared->timers, &session->timer, wake_at);
  } else {
    el_timers_stop(session->shared->timers, &session->timer);
  }
  publish(session, wake_at);
  session->is_in_event = false;
}

/* ---- calls ---- */

/* A grant, a revoke or an audit in flight. The call may outlive its lease, whose number is
 * |generation|. */
typedef struct lease_call {
  el_session *session;
  unsigned generation;
} lease_call;

static lease_call *new_call(el_session *session) {
  lease_call *call = el_alloc(sizeof *call);
  *call = (lease_call){session, session->generation};
  session->calls_in_flight++;
  return call;
}

/* Frees |call|, and tells whether it is for the present lease. */
static bool finish_call(lease_call *call) {
  el_session *session = call->session;
  bool is_current =
      !session->is_stopping && call->generation == session->generation;
  session->calls_in_flight--;
  free(call);
  return is_current;
}

static void revoke_in_background(el_session *session, int64_t id) {
  el_lease_revocations_add(&session->revocations, id, lease_ms(session));
}

static void on_granted(void *arg, const el_lease_answer *answer);
static void on_revoked(void *arg, const el_lease_answer *answer);
static void on_audited(void *arg, const el_lease_keys *answer);
static void on_last_audited(void *arg, const el_lease_keys *answer);

static void send_grant(el_session *session) {
  session->lease.renew_at = 0;
  EL_COUNT(&session->shared->counters, grants, 1);
  el_lease_grant(session->shared->auth, el_lease_new_id(), lease_ms(session),
                 on_granted, new_call(session));
}

/* Revokes the lease. The session ends when etcd has confirmed or refused that. */
static void send_revoke(el_session *session) {
  session->lease.renew_at = 0;
  EL_COUNT(&session->shared->counters, revokes, 1);
  el_lease_revoke(session->shared->auth, session->lease.id, on_revoked,
                  new_call(session));
}

static void send_audit(el_session *session,
                       void (*done)(void *, const el_lease_keys *)) {
  EL_COUNT(&session->shared->counters, audits, 1);
  el_lease_time_to_live(session->shared->auth, session->lease.id, done,
                        new_call(session));
}

/* Returns the time between two keepalives. */
static int64_t interval_ms(const el_session *session, int64_t ttl_ms) {
  int64_t spare_ms = el_lease_proof_hold_ms(ttl_ms) - EL_ELECTION_MS;
  return answer_ms(session) >= ttl_ms / EL_SLOW_DIVISOR
             ? ttl_ms / EL_RENEW_SLOW_DIVISOR
             : clamp(spare_ms - answer_ms(session),
                     ttl_ms / EL_RENEW_OFTEN_DIVISOR,
                     ttl_ms / EL_RENEW_DIVISOR);
}

/* Stops counting the keepalives that were sent at |sent_ms| or earlier as unanswered. If an answer
 * to one of them still comes, it is a renewal like any other. */
static void end_keepalives(el_session_lease *lease, int64_t sent_ms) {
  int n = 0;
  while (n < lease->keepalives && lease->keepalives_ms[n] <= sent_ms)
    n++;
  lease->keepalives -= n;
  memmove(lease->keepalives_ms, lease->keepalives_ms + n,
          (size_t)lease->keepalives * sizeof *lease->keepalives_ms);
}

/* Sends a keepalive. If it has to wait or cannot be sent, notes why: this explains a later loss of
 * the holds. */
static void send_keepalive(el_session *session, int64_t now_ms) {
  el_session_lease *lease = &session->lease;
  el_error why = {.code = EL_UNAVAILABLE};
  bool is_refused = el_keepalive_is_refused(session->keepalive);
  if (lease->keepalives == EL_SESSION_IN_FLIGHT_MAX) {
    end_keepalives(lease, lease->keepalives_ms[0]);
  }
  lease->keepalives_ms[lease->keepalives++] = now_ms;
  lease->renew_at = now_ms + interval_ms(session, lease->ttl_ms);
  if (is_refused) note_result(session, &why); /* which sets the text */
  EL_COUNT(&session->shared->counters, keepalives, 1);
  el_keepalive_send(session->keepalive, lease->id, lease_ms(session), now_ms);
  if (!is_refused && el_keepalive_awaits_token(session->keepalive) &&
      el_auth_explain_wait(session->shared->auth, &why)) {
    note_result(session, &why);
  }
}

/* ---- lease checks ---- */

typedef struct lease_check {
  el_request request;
  el_session *session;
  unsigned generation;
  el_keys keys; /* the keys of the entry that is read */
  int64_t rev;  /* their create_revision; 0: their put is not confirmed */
} lease_check;

static const el_entry_request READ_CHECK = {.kind = EL_REQUEST_READ};

static void on_checked(el_request *request, el_txn_answer *answer);

static void send_check(el_session *session, const el_checked_key *key) {
  EL_UNINITIALIZED el_lock_txn built;
  lease_check *check = el_alloc(sizeof *check);
  check->request.done = on_checked;
  check->request.counted_as = offsetof(el_stats, lease_checks);
  check->session = session;
  check->generation = session->generation;
  check->rev = key->rev;
  el_keys_copy(&check->keys, key->keys);
  el_lock_txn_build(&built, &check->keys, &READ_CHECK, 0, (el_bytes){0});
  el_request_queue_send(session->shared->requests, &check->request, &built.txn);
}

/* Returns the listed key to read: a key whose put is not confirmed only if there is no other. */
static el_checked_key *next_checked(const el_session *session) {
  el_checked_key *key;
  TAILQ_FOREACH(key, &session->keys, link) {
    if (key->rev != 0) return key;
  }
  return TAILQ_FIRST(&session->keys);
}

/* Reads a listed key, unless there is none, or too many reads are in flight. */
static void read_key(el_session *session, int64_t now_ms) {
  el_session_lease *lease = &session->lease;
  el_checked_key *key = next_checked(session);
  if (key == NULL || lease->reads == EL_SESSION_IN_FLIGHT_MAX) return;
  lease->reads++;
  lease->read_at = 0;
  lease->read_ms = now_ms;
  TAILQ_REMOVE(&session->keys, key, link);
  TAILQ_INSERT_TAIL(&session->keys, key, link);
  send_check(session, key);
}

/* ---- the hold deadline ---- */

/* Tells whether the latest renewal needs another read: no read sent so far can prove it. */
static bool needs_read(const el_session_lease *lease, int64_t now_ms) {
  return el_lease_proof_needs_sight(&lease->proof, lease->read_ms, now_ms);
}

/* Tells whether no read was sent with the last keepalive, which is in flight. */
static bool is_unread(const el_session_lease *lease) {
  return lease->keepalives > 0 &&
         lease->read_ms < lease->keepalives_ms[lease->keepalives - 1];
}

/* Returns how much time of the holds must be left at a proof that begins them. A hold that begins
 * with too little time for the next proof would be lost at once, on a slow network or disk. */
static int64_t least_ms(const el_session *session) {
  if (session->lease.hold_deadline != 0) return 0;
  return clamp(answer_ms(session), 0, session->lease.ttl_ms / EL_PROOF_DIVISOR);
}

/* Has the next keepalive sent EL_REPROVE_MS after the last one, which was sent at |sent_ms|, or now
 * if that time is over. If a keepalive is to be sent earlier, nothing changes. */
static void renew_soon(el_session_lease *lease, int64_t sent_ms,
                       int64_t now_ms) {
  int64_t soonest = sent_ms + EL_REPROVE_MS;
  if (lease->renew_at <= soonest) return;
  lease->renew_at = soonest > now_ms ? soonest : now_ms;
}

/* Unless a keepalive is in flight, has the next one sent early. The answers for the last one do not
 * prove it, normally because their raft terms differ: the lease can be proven only after the new
 * leader has renewed it. */
static void renew_early(el_session *session, int64_t now_ms) {
  if (session->lease.keepalives > 0) return;
  renew_soon(&session->lease, last_renewal(session)->sent_ms, now_ms);
}

/* Applies |sight|, and begins or extends the holds. Returns the latest renewal that it proves;
 * NULL: none. */
static const el_renewal *prove(el_session *session, const el_sight *sight,
                               int64_t now_ms) {
  el_session_lease *lease = &session->lease;
  const el_renewal *proven =
      el_lease_proof_add_sight(&lease->proof, sight, now_ms);
  int64_t until = lease->proof.alive_until;
  if (proven != NULL && until > lease->hold_deadline &&
      until > now_ms + least_ms(session)) {
    lease->hold_deadline = until;
    session->unproven_leases = 0;
    el_shared_clear_proof_error(session->shared);
  }
  return proven;
}

static void on_sight(el_session *session, const el_sight *sight,
                     int64_t now_ms) {
  const el_renewal *proven = prove(session, sight, now_ms);
  const el_renewal *last = last_renewal(session);
  if (proven == NULL || (proven != last && sight->sent_ms >= last->sent_ms)) {
    renew_early(session, now_ms);
  } else if (proven != last && session->lease.reads == 0 &&
             needs_read(&session->lease, now_ms)) {
    read_key(session, now_ms); /* the sight was sent before the renewal */
  }
}

/* ---- the end of a lease ---- */

static void end_lease(el_session *session, el_session_end how) {
  session->lease.state = EL_SESSION_ENDED;
  session->lease.end = how;
  session->lease.hold_deadline = 0;
  session->news |= EL_SESSION_NEWS_ENDED;
}

/* Tells whether the lease may be revoked: not before the lock delay of a lost hold is over (see
 * keep_for_lock_delay). */
static bool may_revoke(const el_session *session, int64_t now_ms) {
  return now_ms >= session->lease.keep_until;
}

/* Ends the lease, which does not exist in etcd, or counts as gone. (The answer that it does not
 * exist may have come from another cluster.) The end is early if the TTL and the lock delay, from
 * the latest renewal on, are not over. */
static void lose_lease(el_session *session, int64_t now_ms) {
  const el_renewal *last = last_renewal(session);
  bool is_early =
      now_ms < last->sent_ms + last->ttl_ms + session->lock_delay_ms;
  end_lease(session, is_early ? EL_SESSION_END_EARLY : EL_SESSION_END_EXPIRED);
}

/* Ends the lease although it may be alive. */
static void abandon(el_session *session, int64_t now_ms) {
  keep_for_lock_delay(session, now_ms);
  if (may_revoke(session, now_ms)) {
    revoke_in_background(session, session->lease.id);
  }
  lose_lease(session, now_ms);
}

static void close_lease(el_session *session, int64_t now_ms) {
  el_session_lease *lease = &session->lease;
  lease->hold_deadline = 0;
  if (lease->state == EL_SESSION_ALIVE && may_revoke(session, now_ms)) {
    lease->state = EL_SESSION_REVOKING;
    lease->failures = 0;
    send_revoke(session);
  } else if (lease->state == EL_SESSION_ALIVE) {
    end_lease(session, EL_SESSION_END_LEFT_TO_EXPIRE);
  } else if (lease->state != EL_SESSION_REVOKING) {
    end_lease(session, EL_SESSION_END_CLOSED);
  }
}

/* ---- the answers to grants, keepalives and revokes ---- */

static void retry_later(el_session *session, const el_outcome *failed,
                        int64_t now_ms) {
  session->lease.renew_at =
      el_retry_next(failed, now_ms, &session->lease.failures, session->salt);
}

/* Inserts an answered keepalive, or the grant, into the list of the last ones. The TTL in |answer|
 * is never less than requested: etcd/lease.c refuses such an answer. */
static void record_renewal(el_session *session, const el_lease_answer *answer,
                           int64_t now_ms) {
  el_session_lease *lease = &session->lease;
  const el_renewal *latest = last_renewal(session);
  el_renewal renewal = {.sent_ms = answer->sent_ms,
                        .answered_ms = now_ms,
                        .ttl_ms = answer->ttl_ms - session->lock_delay_ms,
                        .member = answer->member_id,
                        .term = answer->term,
                        .rev = answer->rev,
                        .is_grant = lease->id == 0};
  el_lease_proof_add_renewal(&lease->proof, &renewal);
  lease->failures = 0;
  if (lease->keepalives == 0) {
    lease->renew_at =
        latest->sent_ms < lease->confirm_ms
            ? now_ms
            : latest->sent_ms + interval_ms(session, latest->ttl_ms);
  }
}

static void begin_lease(el_session *session, const el_lease_answer *answer,
                        int64_t now_ms) {
  el_session_lease *lease = &session->lease;
  lease->state = EL_SESSION_ALIVE;
  record_renewal(session, answer, now_ms);
  lease->id = answer->id;
  lease->ttl_ms = last_renewal(session)->ttl_ms;
  session->news |= EL_SESSION_NEWS_READY;
  /* The grant was slow: send a keepalive before the first enqueue, which then proves it. */
  if (now_ms >= lease->renew_at) send_keepalive(session, now_ms);
}

static void on_grant_answer(el_session *session, const el_lease_answer *answer,
                            int64_t now_ms) {
  el_outcome outcome = el_outcome_of(&answer->err, answer->sent_ms);
  if (session->lease.state != EL_SESSION_GRANTING) {
    /* the session was closed before the answer */
    revoke_in_background(session, answer->id);
    return;
  }
  if (outcome.is_done) {
    begin_lease(session, answer, now_ms);
    return;
  }
  if (!outcome.is_definite) {
    revoke_in_background(session, answer->id); /* the lease may exist */
  }
  if (outcome.is_retriable) {
    retry_later(session, &outcome, now_ms);
  } else {
    session->lease.state = EL_SESSION_NEW;
    session->lease.failures = 0;
    session->news |= EL_SESSION_NEWS_REFUSED;
  }
}

/* The answer may come too late: the lease has ended, or another cluster has answered. Then the
 * lease is revoked in the background, because it may exist in etcd. */
static void on_granted(void *arg, const el_lease_answer *answer) {
  el_session *session = ((lease_call *)arg)->session;
  bool is_current = finish_call(arg);
  if (session->is_stopping) return;
  if (el_request_queue_check_lease_answer(session->shared->requests, answer) &&
      is_current) {
    int64_t now_ms;
    note_result(session, &answer->err);
    now_ms = begin(session);
    on_grant_answer(session, answer, now_ms);
    end(session);
  } else if (answer->err.code == EL_OK || !answer->err.is_definite) {
    revoke_in_background(session, answer->id); /* the lease may exist */
  }
}

/* If no hold is proven, and answers take so long that this may be the reason, notes that, and
 * reports it if it has lasted for EL_UNPROVEN_TTLS. A keepalive that has failed does not count as
 * slow. (It takes two round trips within one TTL to prove a lease that may have expired, see
 * lease_proof.h.) */
static void note_slowness(el_session *session, bool is_answered,
                          int64_t now_ms) {
  const el_session_lease *lease = &session->lease;
  int64_t took_ms = el_patience_round_trip_ms(patience_of(session));
  bool was_too_slow = session->too_slow.code != EL_OK;
  session->too_slow.code = EL_OK;
  if (!is_answered || lease->state != EL_SESSION_ALIVE ||
      lease->hold_deadline != 0 || session->n_keys == 0 ||
      EL_TTL_ANSWERS * took_ms < lease->ttl_ms) {
    return;
  }
  if (!was_too_slow) session->too_slow_ms = now_ms;
  el_error_set(&session->too_slow, EL_UNAVAILABLE,
               "etcd %s: its answers take %.2g s, too long for a ttl of %.3g s "
               "(give at least %d s)",
               el_request_queue_address(session->shared->requests),
               (double)took_ms / 1000, (double)lease->ttl_ms / 1000,
               (int)((EL_TTL_ANSWERS * took_ms + 999) / 1000));
  if (now_ms > session->too_slow_ms + EL_UNPROVEN_TTLS * lease->ttl_ms) {
    session->news |= EL_SESSION_NEWS_TOO_SLOW;
  }
}

/* Records that etcd has renewed the lease. */
static void on_renewed(el_session *session, const el_lease_answer *answer,
                       int64_t now_ms) {
  el_session_lease *lease = &session->lease;
  record_renewal(session, answer, now_ms);
  if (prove(session, &lease->proof.seen, now_ms) == last_renewal(session)) {
    return;
  }
  if (needs_read(lease, now_ms)) {
    read_key(session, now_ms);
  } else if (session->n_keys > 0 && lease->reads == 0 && lease->read_at == 0) {
    renew_early(session, now_ms); /* no read has proven it */
  }
}

static void on_keepalive_answer(el_session *session,
                                const el_lease_answer *answer, int64_t now_ms) {
  el_outcome outcome = el_outcome_of(&answer->err, answer->sent_ms);
  end_keepalives(&session->lease, answer->sent_ms);
  if (!outcome.is_done) {
    retry_later(session, &outcome, now_ms);
  } else if (answer->ttl_ms == 0) {
    /* A deposed leader gives this answer for a lease that was granted since. Then the lease is
     * alive, and its keys would block other clients. */
    abandon(session, now_ms);
  } else {
    on_renewed(session, answer, now_ms);
  }
}

static void on_kept(void *arg, const el_lease_answer *answer) {
  el_session *session = arg;
  int64_t now_ms;
  if (session->is_stopping ||
      !el_request_queue_check_lease_answer(session->shared->requests, answer)) {
    return;
  }
  note_result(session, &answer->err);
  now_ms = begin(session);
  if (el_session_is_alive(session)) {
    on_keepalive_answer(session, answer, now_ms);
  }
  note_slowness(session, answer->err.code == EL_OK, now_ms);
  end(session);
}

static void on_revoked(void *arg, const el_lease_answer *answer) {
  el_session *session = ((lease_call *)arg)->session;
  el_outcome outcome = el_outcome_of(&answer->err, answer->sent_ms);
  int64_t now_ms;
  if (!finish_call(arg)) return;
  now_ms = begin(session);
  if (session->lease.state == EL_SESSION_REVOKING) {
    if (outcome.is_done) {
      end_lease(session, EL_SESSION_END_CLOSED);
    } else if (el_outcome_is_final(&outcome)) {
      lose_lease(session, now_ms);
    } else {
      retry_later(session, &outcome, now_ms);
    }
  }
  end(session);
}

/* ---- the answers to lease checks ---- */

/* What a lease check has found. */
typedef struct check_result {
  el_outcome outcome;
  el_sight sight; /* by a quorum, if |is_found| */
  bool is_found;  /* the key exists and is attached to our lease */
  /* the key does not exist any more, or is not attached to our lease */
  bool is_gone;
} check_result;

/* Returns the listed key that |check| has read, with create_revision |rev|. NULL: it is not listed
 * any more. */
static el_checked_key *find_checked(const lease_check *check, int64_t rev) {
  el_checked_key *key;
  TAILQ_FOREACH(key, &check->session->keys, link) {
    if (key->rev == rev && el_keys_are_same(key->keys, &check->keys)) {
      return key;
    }
  }
  return NULL;
}

/* Reads |answer|, and tells the entry of the key what was found. */
static check_result read_check(const lease_check *check,
                               el_txn_answer *answer) {
  check_result result = {
      .sight = {answer->sent_ms, answer->member_id, answer->term, answer->rev}};
  el_entry_answer seen;
  el_checked_key *key;
  int64_t rev;
  bool is_there;
  el_lock_txn_read(&check->keys, &READ_CHECK, check->rev, (el_bytes){0}, answer,
                   &seen);
  result.outcome = seen.outcome;
  rev = check->rev != 0 ? check->rev : seen.own.rev;
  is_there = seen.outcome.is_done && !seen.is_partial && rev != 0 &&
             seen.own.rev == rev;
  result.is_found = is_there && seen.own.lease == check->keys.lease;
  result.is_gone = seen.outcome.is_done && !result.is_found && check->rev != 0;
  /* a key whose put is not confirmed need not be there yet */
  key = seen.outcome.is_done && rev != 0 ? find_checked(check, rev) : NULL;
  if (key != NULL) {
    check->session->key_checked(key, result.is_found,
                                is_there && !result.is_found);
  }
  return result;
}

static void on_check_result(el_session *session, const check_result *result,
                            int64_t now_ms) {
  el_session_lease *lease = &session->lease;
  lease->reads--;
  if (!result->outcome.is_done) {
    lease->read_at = el_retry_next(&result->outcome, now_ms,
                                   &lease->read_failures, session->salt);
    return;
  }
  lease->read_failures = 0;
  if (result->is_found) on_sight(session, &result->sight, now_ms);
  /* If this key is gone, the lease may be alive: read another key. */
  if (result->is_gone || needs_read(lease, now_ms) || is_unread(lease)) {
    read_key(session, now_ms);
  }
}

static void on_checked(el_request *request, el_txn_answer *answer) {
  lease_check *check = EL_CONTAINER_OF(request, lease_check, request);
  el_session *session = check->session;
  if (answer != NULL && check->generation == session->generation) {
    check_result result = read_check(check, answer);
    int64_t now_ms;
    note_result(session, &answer->err);
    now_ms = begin(session);
    if (el_session_is_alive(session)) {
      on_check_result(session, &result, now_ms);
    }
    end(session);
  }
  if (answer != NULL) el_txn_answer_free(answer);
  el_keys_destroy(&check->keys);
  free(check);
}

/* ---- audits ---- */

static void on_audit_answer(el_session *session, const el_lease_answer *answer,
                            int64_t now_ms) {
  el_session_lease *lease = &session->lease;
  el_outcome outcome = el_outcome_of(&answer->err, answer->sent_ms);
  lease->is_auditing = false;
  if (outcome.is_done) {
    lease->audit_failures = 0;
    lease->audit_at = now_ms + lease->audit_interval_ms;
    lease->audit_interval_ms =
        clamp(2 * lease->audit_interval_ms, 0, EL_AUDIT_LAST_MS);
  } else {
    lease->audit_at =
        el_retry_next(&outcome, now_ms, &lease->audit_failures, session->salt);
  }
}

static void on_audited(void *arg, const el_lease_keys *answer) {
  el_session *session = ((lease_call *)arg)->session;
  bool is_current = finish_call(arg);
  int64_t now_ms;
  if (session->is_stopping ||
      !el_request_queue_check_lease_answer(session->shared->requests,
                                           &answer->lease) ||
      !is_current || !el_session_is_alive(session)) {
    return;
  }
  for (size_t i = 0; i < answer->n; i++) {
    session->found_key(session, answer->lease.id, answer->keys[i]);
  }
  now_ms = begin(session);
  if (el_session_is_alive(session)) {
    on_audit_answer(session, &answer->lease, now_ms);
  }
  end(session);
}

static void on_last_audited(void *arg, const el_lease_keys *answer) {
  el_session *session = ((lease_call *)arg)->session;
  on_audited(arg, answer);
  if (!session->is_stopping && el_session_is_alive(session)) {
    close_lease(session, begin(session));
    end(session);
  }
}

/* ---- the timer ---- */

static void on_due(el_session *session, int64_t now_ms) {
  el_session_lease *lease = &session->lease;
  if (now_ms >= lease->renew_at) {
    send_keepalive(session, now_ms);
    read_key(session, now_ms);
  } else if (lease->read_at != 0 && now_ms >= lease->read_at) {
    lease->read_at = 0;
    read_key(session, now_ms);
  }
  if (lease->audit_at != 0 && now_ms >= lease->audit_at) {
    lease->audit_at = 0;
    lease->is_auditing = true;
    send_audit(session, on_audited);
  }
}

static void on_timer(el_timer *timer) {
  el_session *session = EL_CONTAINER_OF(timer, el_session, timer);
  int64_t now_ms = begin(session), renew_at = session->lease.renew_at;
  bool is_due = renew_at != 0 && now_ms >= renew_at;
  if (el_session_is_alive(session)) {
    on_due(session, now_ms);
  } else if (is_due && session->lease.state == EL_SESSION_GRANTING) {
    send_grant(session);
  } else if (is_due && session->lease.state == EL_SESSION_REVOKING) {
    send_revoke(session);
  }
  end(session);
}

/* ---- events of the client ---- */

unsigned el_session_take_news(el_session *session) {
  unsigned news = session->news;
  session->news = 0;
  return news;
}

void el_session_need(el_session *session) {
  int64_t now_ms = begin(session);
  if (session->lease.state == EL_SESSION_NEW) {
    session->lease.state = EL_SESSION_GRANTING;
    if (now_ms < session->lease.grant_at) {
      session->lease.renew_at = session->lease.grant_at;
    } else {
      send_grant(session);
    }
  }
  end(session);
}

void el_session_set_unused(el_session *session) {
  int64_t now_ms;
  if (!session->lease.has_put_in_doubt) return;
  now_ms = begin(session);
  if (el_session_is_alive(session) && may_revoke(session, now_ms)) {
    revoke_in_background(session, session->lease.id);
    end_lease(session, EL_SESSION_END_CLOSED);
  }
  end(session);
}

/* A keepalive in flight may never be answered: it went to a member that was left, or to the last
 * leader. */
void el_session_moved(el_session *session) {
  el_session_lease *lease = &session->lease;
  int64_t now_ms = begin(session);
  if (el_session_is_alive(session)) {
    renew_soon(lease,
               lease->keepalives > 0
                   ? lease->keepalives_ms[lease->keepalives - 1]
                   : last_renewal(session)->sent_ms,
               now_ms);
  }
  end(session);
}

/* If a lost hold keeps the lease, a put in doubt may have left a key that would block other clients
 * for as long. So the lease is audited first, and the keys that no caller wants are deleted. */
void el_session_close(el_session *session) {
  int64_t now_ms = begin(session);
  if (el_session_is_alive(session) && session->lease.has_put_in_doubt &&
      !may_revoke(session, now_ms)) {
    send_audit(session, on_last_audited);
  } else {
    close_lease(session, now_ms);
  }
  end(session);
}

/* The lease is revoked although another cluster answers, because that cluster may have granted the
 * lease and may store keys with it. */
void el_session_abandon(el_session *session) {
  int64_t now_ms = begin(session);
  if (el_session_is_alive(session)) {
    abandon(session, now_ms);
  } else {
    close_lease(session, now_ms); /* there is no lease to revoke yet */
  }
  end(session);
}

void el_session_publish_hold_deadline(el_session *session) {
  el_hold_deadline_set(session->published, session->lease.hold_deadline);
}

void el_session_end_holds(el_session *session, el_loss loss) {
  el_hold_deadline_end(session->published, loss);
}

/* ---- events of entries ---- */

static bool is_listed(const el_checked_key *key) {
  return key->link.tqe_prev != NULL;
}

void el_session_add_key(el_session *session, el_checked_key *key,
                        bool is_held) {
  session->n_held += is_held - key->is_held;
  key->is_held = is_held;
  if (is_listed(key)) return;
  TAILQ_INSERT_TAIL(&session->keys, key, link);
  session->n_keys++;
}

void el_session_remove_key(el_session *session, el_checked_key *key) {
  if (!is_listed(key)) return;
  TAILQ_REMOVE(&session->keys, key, link);
  memset(&key->link, 0, sizeof key->link);
  session->n_keys--;
  session->n_held -= key->is_held;
  key->is_held = false;
  if (session->n_keys == 0) session->lease.read_at = 0;
}

void el_session_check_expiry(el_session *session) {
  begin(session); /* which checks it */
  end(session);
}

void el_session_add_sight(el_session *session, const el_sight *sight) {
  int64_t now_ms = begin(session);
  if (el_session_is_alive(session)) on_sight(session, sight, now_ms);
  end(session);
}

void el_session_lease_gone(el_session *session, int64_t lease,
                           const el_error *err) {
  int64_t now_ms;
  if (lease != session->lease.id) return;
  el_shared_set_proof_error(session->shared, err);
  session->lease_end_error = *err;
  session->has_lease_end_error = true;
  now_ms = session->lease_end_ms = begin(session);
  if (el_session_is_alive(session)) lose_lease(session, now_ms);
  end(session);
}

/* A proxy may hold a put back for minutes, so a single audit is not enough. */
void el_session_put_in_doubt(el_session *session, int64_t lease_id) {
  el_session_lease *lease = &session->lease;
  int64_t now_ms;
  if (lease_id != lease->id) return;
  now_ms = begin(session);
  if (el_session_is_alive(session)) {
    lease->has_put_in_doubt = true;
    lease->audit_interval_ms = EL_AUDIT_FIRST_MS;
    if (!lease->is_auditing && (lease->audit_at == 0 ||
                                lease->audit_at > now_ms + EL_AUDIT_FIRST_MS)) {
      lease->audit_at = now_ms + EL_AUDIT_FIRST_MS;
    }
  }
  end(session);
}

void el_session_confirm(el_session *session, int64_t lease_id) {
  el_session_lease *lease = &session->lease;
  int64_t now_ms;
  if (lease_id != lease->id) return;
  now_ms = begin(session);
  if (el_session_is_alive(session)) {
    lease->confirm_ms = now_ms;
    if (lease->keepalives == 0 && lease->failures == 0)
      lease->renew_at = now_ms;
  }
  end(session);
}

/* ---- queries ---- */

bool el_session_is_over(const el_session *session) {
  return session->lease.state == EL_SESSION_ENDED &&
         session->calls_in_flight == 0 && !session->revocations.is_in_flight;
}

bool el_session_is_proven(const el_session *session, int64_t now_ms) {
  return el_session_is_alive(session) && now_ms < session->lease.hold_deadline;
}

int64_t el_session_proven_rev(const el_session *session, int64_t now_ms) {
  const el_session_lease *lease = &session->lease;
  bool is_fresh =
      el_session_is_alive(session) &&
      now_ms < lease->proof.seen.sent_ms + EL_FRESH_PROOF_MS &&
      now_ms < lease->hold_deadline - lease->ttl_ms / EL_FRESH_DIVISOR;
  return is_fresh ? lease->proof.seen.rev : 0;
}

int64_t el_session_renewal_sent_ms(const el_session *session) {
  return last_renewal(session)->sent_ms;
}

const el_error *el_session_last_error(const el_session *session,
                                      int64_t since_ms) {
  if (session->last_error.code != EL_OK) return &session->last_error;
  if (session->too_slow.code != EL_OK) return &session->too_slow;
  return session->unproven_leases > 1 &&
                 session->lease_end_error.code != EL_OK &&
                 session->lease_end_ms >= since_ms
             ? &session->lease_end_error
             : NULL;
}

/* ---- life ---- */

void el_session_init(el_session *session) {
  el_shared *shared = session->shared;
  TAILQ_INIT(&session->proving);
  TAILQ_INIT(&session->keys);
  session->published = el_hold_deadline_new();
  session->timer.on_due = on_timer;
  session->keepalive = el_keepalive_new(shared->auth, on_kept, session);
  el_lease_revocations_init(&session->revocations, shared);
  session->salt = el_random();
}

/* Returns when the next lease may be requested (el_now_ms); 0: at once. There is a backoff only if
 * no hold was proven since an earlier lease was lost. */
static int64_t next_grant_at(const el_session *session) {
  el_outcome failed = {.is_retriable = true, .sent_ms = el_now_ms()};
  return session->unproven_leases == 0
             ? 0
             : el_retry_at(&failed, failed.sent_ms, session->unproven_leases,
                           session->salt);
}

void el_session_reset(el_session *session) {
  bool was_lost = session->lease.end != EL_SESSION_END_CLOSED;
  if (!session->has_lease_end_error) session->lease_end_error.code = EL_OK;
  session->has_lease_end_error = false;
  session->generation++;
  el_timers_stop(session->shared->timers, &session->timer);
  el_keepalive_reset(session->keepalive);
  el_hold_deadline_set(session->published, 0);
  el_hold_deadline_unref(session->published);
  session->published = el_hold_deadline_new();
  session->lease = (el_session_lease){.grant_at = next_grant_at(session)};
  session->unproven_leases += was_lost; /* until a hold is proven */
  publish(session, 0);
}

void el_session_stop(el_session *session) {
  session->is_stopping = true;
  el_lease_revocations_stop(&session->revocations);
  el_timers_stop(session->shared->timers, &session->timer);
  atomic_store(&session->shared->due_ms, 0);
}

void el_session_destroy(el_session *session) {
  el_keepalive_free(session->keepalive);
  el_lease_revocations_destroy(&session->revocations);
  el_hold_deadline_set(session->published, 0);
  el_hold_deadline_unref(session->published);
}
