/* session: a lease kept alive, as a pure step function. */
#include "rules/session.h"

#include <assert.h>
#include <string.h>

#include "rules/retry.h"

enum {
  /* etcd's clients renew at a third of the TTL. A claim must outlive the death
   * of a leader just before that: 1 s to 2 s until another is elected (3 s if
   * the votes are split), and a moment to find it. */
  RENEW_DIVISOR = 3,
  ELECTION_MS = 4000,
  RENEW_DIVISOR_MAX = 5,
  /* A keepalive's answer may take TTL/8, within these limits; twice as long
   * after each silence, because it may be the way that is long. */
  ANSWER_DIVISOR = 8,
  ANSWER_MIN_MS = 250,
  ANSWER_MAX_MS = 1000,
  ANSWER_DOUBLINGS = 2,
  UNPROVEN_MS = 250, /* between renewals that can't be proven */
  /* Who is let in on the strength of a proof has so much of the TTL left at least. */
  PROVEN_DIVISOR = 2,
  /* A key for nobody keeps others waiting until an audit finds it. Most that come
   * late come soon; for the others one question every few seconds is kept up. */
  AUDIT_FIRST_MS = 500,
  AUDIT_MAX_MS = 8000,
  /* Clocks may differ in rate by nearly as much; for a TTL of 300 s, the longest, by
   * more than a hundredth still. */
  MARGIN_DIVISOR = 10,
  MARGIN_MIN_MS = 200,
  MARGIN_MAX_MS = 4000
};

const char *const el_session_state_str[] = {
    [EL_SESSION_NEW] = "new",     [EL_SESSION_GRANTING] = "granting",
    [EL_SESSION_ALIVE] = "alive", [EL_SESSION_REVOKING] = "revoking",
    [EL_SESSION_DEAD] = "dead",
};

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

void el_session_init(el_session *ses, int64_t ttl_ms, int64_t lock_delay_ms,
                     int64_t grant_at, uint64_t salt) {
  memset(ses, 0, sizeof *ses);
  ses->grant_at = grant_at;
  ses->want_ttl_ms = ttl_ms;
  ses->lock_delay_ms = lock_delay_ms;
  ses->salt = salt;
}

int64_t el_session_lease_ms(const el_session *ses) {
  return ses->want_ttl_ms + ses->lock_delay_ms;
}

bool el_session_can_claim(const el_session *ses, int64_t now_ms) {
  return ses->state == EL_SESSION_ALIVE && now_ms < ses->claim_until;
}

int64_t el_session_proven_rev(const el_session *ses, int64_t now_ms) {
  bool is_fresh = ses->state == EL_SESSION_ALIVE &&
                  now_ms < ses->proven_ms + EL_SESSION_PROVEN_MS &&
                  now_ms < ses->claim_until - ses->ttl_ms / PROVEN_DIVISOR;
  return is_fresh ? ses->proven_rev : 0;
}

static el_session_action *push(el_session_actions *out, int kind) {
  el_session_action *action = &out->list[out->n++];
  assert(out->n <= EL_SESSION_ACTIONS_MAX);
  memset(action, 0, sizeof *action);
  action->kind = kind;
  return action;
}

/* ---- the claim ---- */

/* How long |renewal| lets us claim. The margin is for clocks that run at
 * different speeds and for the way from our answer to the caller's use. */
static int64_t claim_of(const el_renewal *renewal) {
  int64_t margin =
      clamp(renewal->ttl_ms / MARGIN_DIVISOR, MARGIN_MIN_MS, MARGIN_MAX_MS);
  return renewal->sent_ms + renewal->ttl_ms - margin;
}

/* What is held is lost from now on. Its holder may not know yet, and its last writes may
 * be on their way: its keys stay for the lock delay. */
static void lose_holds(el_session *ses, int64_t now_ms) {
  if (ses->holds > 0 && ses->lock_delay_ms > 0) {
    ses->kept_until = now_ms + ses->lock_delay_ms;
  }
}

/* The only way to end a lease before its time. False: it must live on, see above. */
static bool revoke(const el_session *ses, int64_t now_ms,
                   el_session_actions *out) {
  if (now_ms < ses->kept_until) return false;
  push(out, EL_SESSION_REVOKE)->id = ses->id;
  return true;
}

/* A claim that has run out is never prolonged: it is over before any proof
 * that comes later is looked at. */
static void check_lapse(el_session *ses, int64_t now_ms,
                        el_session_actions *out) {
  if (ses->claim_until != 0 && now_ms >= ses->claim_until) {
    ses->claim_until = 0;
    lose_holds(ses, now_ms);
    if (ses->holds > 0) {
      push(out, EL_SESSION_LAPSED);
    }
  }
}

static bool proves(const el_session_event *proof, const el_renewal *renewal) {
  return renewal->answered_ms != 0 &&
         proof->outcome.sent_ms >= renewal->answered_ms &&
         proof->term == renewal->term;
}

static void on_proof(el_session *ses, const el_session_event *event,
                     int64_t now_ms) {
  const el_renewal *proven = proves(event, &ses->last)     ? &ses->last
                             : proves(event, &ses->before) ? &ses->before
                                                           : NULL;
  if (proven != NULL && event->outcome.sent_ms > ses->proven_ms) {
    ses->proven_ms = event->outcome.sent_ms;
    ses->proven_rev = event->rev;
  }
  if (proven == NULL) {
    /* A new leader: have it renew the lease, then prove that. */
    int64_t soonest = ses->last.sent_ms + UNPROVEN_MS;
    if (ses->renewing_since == 0 && ses->renew_at > soonest) {
      ses->renew_at = soonest > now_ms ? soonest : now_ms;
    }
  } else if (claim_of(proven) > ses->claim_until && claim_of(proven) > now_ms) {
    ses->claim_until = claim_of(proven);
  }
}

static void probe(el_session *ses, el_session_actions *out) {
  if (ses->holds > 0 && !ses->probing) {
    ses->probing = true;
    ses->probe_at = 0;
    push(out, EL_SESSION_PROBE);
  }
}

static void on_probed(el_session *ses, const el_session_event *event,
                      int64_t now_ms, el_session_actions *out) {
  ses->probing = false;
  if (!event->outcome.is_done) {
    ses->probe_at =
        el_retry_next(&event->outcome, now_ms, &ses->probe_failures, ses->salt);
    return;
  }
  ses->probe_failures = 0;
  if (event->exists) {
    on_proof(ses, event, now_ms);
  } else {
    probe(ses, out); /* that key is lost; the lease may live: ask another */
  }
}

/* ---- the lease ---- */

static void die(el_session *ses, el_session_end end, el_session_actions *out) {
  ses->state = EL_SESSION_DEAD;
  ses->end = end;
  ses->claim_until = 0;
  push(out, EL_SESSION_GONE);
}

/* etcd has ended the lease, or never had it: another etcd would say so, too. */
static void lose_lease(el_session *ses, int64_t now_ms,
                       el_session_actions *out) {
  bool is_early =
      now_ms < ses->last.sent_ms + ses->last.ttl_ms + ses->lock_delay_ms;
  die(ses, is_early ? EL_SESSION_CUT_SHORT : EL_SESSION_EXPIRED, out);
}

/* The lease may live yet, and is of no use any more. */
static void drop(el_session *ses, int64_t now_ms, el_session_actions *out) {
  lose_holds(ses, now_ms);
  revoke(ses, now_ms, out);
  lose_lease(ses, now_ms, out);
}

/* A renewal for less than was asked for is no answer of etcd: see etcd/lease.c. */
static void note_renewal(el_session *ses, const el_session_event *event,
                         int64_t now_ms) {
  int64_t ttl_ms = event->ttl_ms - ses->lock_delay_ms;
  ses->before = ses->last;
  ses->last = (el_renewal){.sent_ms = event->outcome.sent_ms,
                           .answered_ms = now_ms,
                           .ttl_ms = ttl_ms,
                           .term = event->term};
  ses->failures = 0;
  ses->renewing_since = 0;
  ses->silences = 0;
  ses->renew_at = event->outcome.sent_ms + clamp(ttl_ms - ELECTION_MS,
                                                 ttl_ms / RENEW_DIVISOR_MAX,
                                                 ttl_ms / RENEW_DIVISOR);
  if (ses->last.sent_ms < ses->confirm_ms) ses->renew_at = now_ms;
}

static void on_want(el_session *ses, int64_t now_ms, el_session_actions *out) {
  ses->state = EL_SESSION_GRANTING;
  if (now_ms < ses->grant_at) {
    ses->renew_at = ses->grant_at;
  } else {
    push(out, EL_SESSION_GRANT);
  }
}

static void on_granted(el_session *ses, const el_session_event *event,
                       int64_t now_ms, el_session_actions *out) {
  if (ses->state != EL_SESSION_GRANTING) { /* closed meanwhile */
    push(out, EL_SESSION_REVOKE)->id = event->id;
    return;
  }
  if (event->outcome.is_done) {
    ses->state = EL_SESSION_ALIVE;
    ses->id = event->id;
    note_renewal(ses, event, now_ms);
    ses->ttl_ms = ses->last.ttl_ms;
    push(out, EL_SESSION_READY);
    return;
  }
  if (!event->outcome.is_definite) {
    push(out, EL_SESSION_REVOKE)->id = event->id; /* it may exist */
  }
  if (event->outcome.is_retriable) {
    ses->renew_at =
        el_retry_next(&event->outcome, now_ms, &ses->failures, ses->salt);
  } else {
    ses->state = EL_SESSION_NEW;
    ses->failures = 0;
    push(out, EL_SESSION_REFUSED);
  }
}

static void on_kept(el_session *ses, const el_session_event *event,
                    int64_t now_ms, el_session_actions *out) {
  if (!event->outcome.is_done) {
    ses->renewing_since = 0;
    ses->renew_at =
        el_retry_next(&event->outcome, now_ms, &ses->failures, ses->salt);
  } else if (event->ttl_ms == 0) {
    /* A deposed leader says this of leases granted since; then the lease
     * would live on, and its keys would keep everybody waiting. */
    drop(ses, now_ms, out);
  } else {
    note_renewal(ses, event, now_ms);
    probe(ses, out);
  }
}

/* How long a keepalive's answer may take. */
static int64_t patience_of(const el_session *ses) {
  int64_t once =
      clamp(ses->ttl_ms / ANSWER_DIVISOR, ANSWER_MIN_MS, ANSWER_MAX_MS);
  return once << clamp(ses->silences, 0, ANSWER_DOUBLINGS);
}

static void on_confirm(el_session *ses, int64_t now_ms) {
  ses->confirm_ms = now_ms;
  if (ses->renewing_since == 0 && ses->failures == 0) ses->renew_at = now_ms;
}

/* ---- audits ---- */

/* What an enqueue of unknown fate leaves behind can't be known: its request may
 * lie somewhere for minutes (a proxy) and be carried out when everybody has left.
 * So the lease is looked through for keys that nobody wants, again and again. */
static void on_unsure(el_session *ses, int64_t now_ms) {
  ses->unsure = true;
  ses->audit_every = AUDIT_FIRST_MS;
  if (!ses->auditing &&
      (ses->audit_at == 0 || ses->audit_at > now_ms + AUDIT_FIRST_MS)) {
    ses->audit_at = now_ms + AUDIT_FIRST_MS;
  }
}

static void on_audited(el_session *ses, const el_session_event *event,
                       int64_t now_ms) {
  ses->auditing = false;
  if (event->outcome.is_done) {
    ses->audit_failures = 0;
    ses->audit_at = now_ms + ses->audit_every;
    ses->audit_every = clamp(2 * ses->audit_every, 0, AUDIT_MAX_MS);
  } else {
    ses->audit_at =
        el_retry_next(&event->outcome, now_ms, &ses->audit_failures, ses->salt);
  }
}

/* With the lease end all keys that may come on it. */
static void on_unused(el_session *ses, int64_t now_ms,
                      el_session_actions *out) {
  if (ses->unsure && revoke(ses, now_ms, out)) {
    die(ses, EL_SESSION_CLOSED, out);
  }
}

/* ---- time ---- */

static void on_timer(el_session *ses, int64_t now_ms, el_session_actions *out) {
  int64_t patience = patience_of(ses);
  bool again = ses->renew_at != 0 && now_ms >= ses->renew_at;
  if (again && ses->state == EL_SESSION_GRANTING) {
    ses->renew_at = 0;
    push(out, EL_SESSION_GRANT);
  } else if (again && ses->state == EL_SESSION_REVOKING) {
    ses->renew_at = 0;
    push(out, EL_SESSION_REVOKE)->id = ses->id;
  }
  if (ses->state != EL_SESSION_ALIVE) return;
  if (ses->renewing_since != 0 && now_ms >= ses->renewing_since + patience) {
    push(out, EL_SESSION_RESET);
    ses->silences++;
    ses->renewing_since = 0;
    ses->renew_at = now_ms;
  }
  if (ses->renewing_since == 0 && now_ms >= ses->renew_at) {
    ses->renewing_since = now_ms;
    push(out, EL_SESSION_KEEPALIVE);
  }
  if (ses->probe_at != 0 && now_ms >= ses->probe_at) {
    ses->probe_at = 0;
    probe(ses, out);
  }
  if (ses->audit_at != 0 && now_ms >= ses->audit_at) {
    ses->audit_at = 0;
    ses->auditing = true;
    push(out, EL_SESSION_AUDIT);
  }
}

static void on_close(el_session *ses, int64_t now_ms, el_session_actions *out) {
  if (ses->state == EL_SESSION_ALIVE && revoke(ses, now_ms, out)) {
    ses->state = EL_SESSION_REVOKING;
    ses->failures = 0;
    ses->renew_at = 0;
  } else if (ses->state == EL_SESSION_ALIVE) {
    die(ses, EL_SESSION_LEFT, out);
  } else if (ses->state != EL_SESSION_REVOKING) {
    die(ses, EL_SESSION_CLOSED, out);
  }
  ses->claim_until = 0;
}

static void on_drop(el_session *ses, int64_t now_ms, el_session_actions *out) {
  if (ses->state == EL_SESSION_ALIVE) {
    drop(ses, now_ms, out);
  } else {
    on_close(ses, now_ms, out); /* nothing to revoke yet */
  }
}

static void on_revoked(el_session *ses, const el_session_event *event,
                       int64_t now_ms, el_session_actions *out) {
  if (ses->state != EL_SESSION_REVOKING || event->id != ses->id) return;
  if (event->outcome.is_done) {
    die(ses, EL_SESSION_CLOSED, out);
  } else if (el_outcome_is_final(&event->outcome)) {
    lose_lease(ses, now_ms, out);
  } else {
    ses->renew_at =
        el_retry_next(&event->outcome, now_ms, &ses->failures, ses->salt);
  }
}

/* ---- step ---- */

static void note_earlier(int64_t *wake_at, int64_t at) {
  if (at != 0 && (*wake_at == 0 || at < *wake_at)) *wake_at = at;
}

static int64_t next_wake(const el_session *ses, int64_t now_ms) {
  int64_t wake_at = 0;
  if (ses->state == EL_SESSION_GRANTING || ses->state == EL_SESSION_REVOKING) {
    note_earlier(&wake_at, ses->renew_at);
  } else if (ses->state == EL_SESSION_ALIVE) {
    note_earlier(&wake_at, ses->renewing_since != 0
                               ? ses->renewing_since + patience_of(ses)
                               : ses->renew_at);
    note_earlier(&wake_at, ses->probe_at);
    note_earlier(&wake_at, ses->audit_at);
    note_earlier(&wake_at, ses->claim_until);
  }
  return wake_at != 0 && wake_at <= now_ms ? now_ms + 1 : wake_at;
}

void el_session_step(el_session *ses, const el_session_event *event,
                     int64_t now_ms, el_session_actions *out) {
  out->n = 0;
  check_lapse(ses, now_ms, out);
  switch (event->kind) {
    case EL_SESSION_WANT:
      if (ses->state == EL_SESSION_NEW) {
        on_want(ses, now_ms, out);
      }
      break;
    case EL_SESSION_GRANTED:
      on_granted(ses, event, now_ms, out);
      break;
    case EL_SESSION_KEPT:
      if (ses->state == EL_SESSION_ALIVE) on_kept(ses, event, now_ms, out);
      break;
    case EL_SESSION_PROBED:
      if (ses->state == EL_SESSION_ALIVE) on_probed(ses, event, now_ms, out);
      break;
    case EL_SESSION_PROOF:
      if (ses->state == EL_SESSION_ALIVE) on_proof(ses, event, now_ms);
      break;
    case EL_SESSION_LEASE_GONE:
      if (ses->state == EL_SESSION_ALIVE) lose_lease(ses, now_ms, out);
      break;
    case EL_SESSION_HOLDS:
      ses->holds = event->holds;
      if (ses->holds == 0) ses->probe_at = 0;
      break;
    case EL_SESSION_CLOSE:
      on_close(ses, now_ms, out);
      break;
    case EL_SESSION_DROP:
      on_drop(ses, now_ms, out);
      break;
    case EL_SESSION_REVOKED:
      on_revoked(ses, event, now_ms, out);
      break;
    case EL_SESSION_UNSURE:
      if (ses->state == EL_SESSION_ALIVE) on_unsure(ses, now_ms);
      break;
    case EL_SESSION_AUDITED:
      if (ses->state == EL_SESSION_ALIVE) on_audited(ses, event, now_ms);
      break;
    case EL_SESSION_UNUSED:
      if (ses->state == EL_SESSION_ALIVE) on_unused(ses, now_ms, out);
      break;
    case EL_SESSION_CONFIRM:
      if (ses->state == EL_SESSION_ALIVE) on_confirm(ses, now_ms);
      break;
    case EL_SESSION_TIMER:
      on_timer(ses, now_ms, out);
      break;
  }
  ses->wake_at = next_wake(ses, now_ms);
}
