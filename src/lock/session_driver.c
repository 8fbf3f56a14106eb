/* session_driver: the session of a client, with its lease calls and timers. */
#include "lock/session_driver.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/random.h"
#include "base/times.h"
#include "lock/lease_revocations.h"
#include "protocol/lock_txn.h"
#include "protocol/retry.h"

struct el_session_driver {
  el_client_session *owner;
  el_shared *shared; /* of |owner| */
  el_session session;
  /* Number of the present session. Answers to calls of an earlier session do not step this one. */
  unsigned generation;
  unsigned news;
  el_hold_deadline *hold_deadline; /* read by other threads */
  uint64_t salt;                   /* varies the backoff */
  /* number of sessions in a row that were lost before a hold was proven */
  int unproven_sessions;
  /* the error by which etcd told that the last lease does not exist */
  el_error lease_end_error;
  bool has_lease_end_error; /* |lease_end_error| is of the present session */
  int64_t lease_end_ms;     /* when it came, by el_now_ms */
  /* of the last grant, keepalive or lease check; code EL_OK: it succeeded */
  el_error last_error;
  /* answers take too long for the TTL; code EL_OK: they do not */
  el_error too_slow;
  el_timer timer;
  el_keepalive *keepalive;
  /* The listed keys. A lease check reads the first one whose put has been answered, if there is
   * one. The key that was read moves to the end. */
  TAILQ_HEAD(, el_checked_key) keys;
  int n_keys, n_held;
  /* leases that are revoked in the background */
  el_lease_revocations revocations;
  int calls_in_flight; /* number of grants, revokes and audits in flight */
  bool is_stopping;
};

static void step(el_session_driver *driver, const el_session_event *event);
static void step_simple(el_session_driver *driver, int kind);

/* If the server allows too few streams for the keepalives, that is why etcd gives no answer. */
static void note_result(el_session_driver *driver, const el_error *err) {
  el_error refused;
  if (err->code == EL_UNAVAILABLE &&
      el_keepalive_is_refused(driver->keepalive)) {
    el_error_set(&refused, EL_UNAVAILABLE,
                 "etcd %s: it allows too few streams on a connection "
                 "(--max-concurrent-streams)",
                 el_request_queue_address(driver->shared->requests));
    err = &refused;
  }
  if (err->code != EL_OK) {
    el_shared_set_proof_error(driver->shared, err);
  }
  driver->last_error = *err;
}

static el_session_event event_of(int kind, const el_lease_answer *answer) {
  el_session_event event = {.outcome =
                                el_outcome_of(&answer->err, answer->sent_ms),
                            .id = answer->id,
                            .ttl_ms = answer->ttl_ms,
                            .member = answer->member_id,
                            .term = answer->term,
                            .rev = answer->rev};
  event.kind = kind;
  return event;
}

/* ---- grants and revokes ---- */

/* A grant, a revoke or an audit in flight. The call may outlive its session, whose number is
 * |generation|. */
typedef struct lease_call {
  el_session_driver *driver;
  unsigned generation;
} lease_call;

static lease_call *new_call(el_session_driver *driver) {
  lease_call *call = el_alloc(sizeof *call);
  *call = (lease_call){driver, driver->generation};
  driver->calls_in_flight++;
  return call;
}

/* finish_call frees |call| and tells whether |call| belongs to the present session of its
 * driver. */
static bool finish_call(lease_call *call) {
  el_session_driver *driver = call->driver;
  bool current = !driver->is_stopping && call->generation == driver->generation;
  driver->calls_in_flight--;
  free(call);
  return current;
}

static void revoke_in_background(el_session_driver *driver, int64_t id) {
  el_lease_revocations_add(&driver->revocations, id,
                           el_session_lease_ms(&driver->session));
}

/* Steps the session with the answer to a grant. The answer may come too late: the session has
 * ended, or another cluster has answered. Then the lease is revoked in the background, because it
 * may exist in etcd. A grant that has certainly failed needs no revoke. */
static void on_granted(void *arg, const el_lease_answer *answer) {
  lease_call *call = arg;
  el_session_driver *driver = call->driver;
  el_session_event event = event_of(EL_SESSION_ON_GRANT_ANSWER, answer);
  bool current = finish_call(call);
  if (driver->is_stopping) return;
  if (el_request_queue_check_lease_answer(driver->shared->requests, answer) &&
      current) {
    note_result(driver, &answer->err);
    step(driver, &event);
  } else if (answer->err.code == EL_OK || !answer->err.is_definite) {
    revoke_in_background(driver, answer->id); /* the lease may exist */
  }
}

static void grant(el_session_driver *driver) {
  EL_COUNT(&driver->shared->counters, grants, 1);
  el_lease_grant(driver->shared->auth, el_lease_new_id(),
                 el_session_lease_ms(&driver->session), on_granted,
                 new_call(driver));
}

static void on_revoked(void *arg, const el_lease_answer *answer) {
  lease_call *call = arg;
  el_session_driver *driver = call->driver;
  el_session_event event = event_of(EL_SESSION_ON_REVOKE_ANSWER, answer);
  if (finish_call(call)) {
    step(driver, &event);
  }
}

/* Revokes the lease. The session ends when etcd has answered. */
static void revoke(el_session_driver *driver) {
  EL_COUNT(&driver->shared->counters, revokes, 1);
  el_lease_revoke(driver->shared->auth, driver->session.id, on_revoked,
                  new_call(driver));
}

/* ---- keepalive ---- */

static void on_kept(void *arg, const el_lease_answer *answer) {
  el_session_driver *driver = arg;
  el_session_event event = event_of(EL_SESSION_ON_KEEPALIVE_ANSWER, answer);
  if (driver->is_stopping ||
      !el_request_queue_check_lease_answer(driver->shared->requests, answer)) {
    return;
  }
  note_result(driver, &answer->err);
  step(driver, &event);
}

/* Sends a keepalive. If it has to wait, notes why, for a loss of the holds. */
static void send_keepalive(el_session_driver *driver, int64_t now_ms) {
  el_error why = {.code = EL_UNAVAILABLE};
  bool is_refused = el_keepalive_is_refused(driver->keepalive);
  if (is_refused) note_result(driver, &why); /* which sets the text */
  EL_COUNT(&driver->shared->counters, keepalives, 1);
  el_keepalive_send(driver->keepalive, driver->session.id,
                    el_session_lease_ms(&driver->session), now_ms);
  if (!is_refused && el_keepalive_awaits_token(driver->keepalive) &&
      el_auth_explain_wait(driver->shared->auth, &why)) {
    note_result(driver, &why);
  }
}

/* ---- audit ---- */

static void on_audited(void *arg, const el_lease_keys *answer) {
  lease_call *call = arg;
  el_session_driver *driver = call->driver;
  el_session_event event = event_of(EL_SESSION_ON_AUDIT_ANSWER, &answer->lease);
  bool current = finish_call(call);
  if (driver->is_stopping ||
      !el_request_queue_check_lease_answer(driver->shared->requests,
                                           &answer->lease) ||
      !current || !el_session_driver_is_alive(driver)) {
    return;
  }
  for (size_t i = 0; i < answer->n; i++) {
    driver->owner->found_key(driver->owner, answer->lease.id, answer->keys[i]);
  }
  step(driver, &event);
}

static void on_last_audit(void *arg, const el_lease_keys *answer) {
  el_session_driver *driver = ((lease_call *)arg)->driver;
  on_audited(arg, answer);
  if (!driver->is_stopping && el_session_driver_is_alive(driver)) {
    step_simple(driver, EL_SESSION_ON_CLOSE);
  }
}

static void audit(el_session_driver *driver,
                  void (*done)(void *, const el_lease_keys *)) {
  EL_COUNT(&driver->shared->counters, audits, 1);
  el_lease_time_to_live(driver->shared->auth, driver->session.id, done,
                        new_call(driver));
}

/* ---- lease checks ---- */

typedef struct lease_check {
  el_request request;
  el_session_driver *driver;
  unsigned generation;
  el_keys keys; /* the keys of the entry that is read */
  int64_t rev;  /* create_revision of these keys; 0: their put is in flight */
} lease_check;

static const el_entry_request READ_CHECK = {.kind = EL_REQUEST_READ};

/* find_checked returns the listed key that |check| has read, with create_revision |rev|. NULL: it
 * is not listed any more. */
static el_checked_key *find_checked(const lease_check *check, int64_t rev) {
  el_checked_key *key;
  TAILQ_FOREACH(key, &check->driver->keys, link) {
    if (key->rev == rev && el_keys_are_same(key->keys, &check->keys)) {
      return key;
    }
  }
  return NULL;
}

static void end_check(const lease_check *check, el_txn_answer *answer) {
  el_session_event event = {.kind = EL_SESSION_ON_READ_ANSWER,
                            .member = answer->member_id,
                            .term = answer->term,
                            .rev = answer->rev};
  el_entry_answer seen;
  el_checked_key *key;
  int64_t rev;
  bool is_there;
  el_lock_txn_read(&check->keys, &READ_CHECK, check->rev, (el_bytes){0}, answer,
                   &seen);
  event.outcome = seen.outcome;
  rev = check->rev != 0 ? check->rev : seen.own.rev;
  is_there = event.outcome.is_done && !seen.is_partial && rev != 0 &&
             seen.own.rev == rev;
  event.is_found = is_there && seen.own.lease == check->keys.lease;
  event.is_gone = event.outcome.is_done && !event.is_found && check->rev != 0;
  /* a key whose put is in flight need not be there yet */
  key = event.outcome.is_done && rev != 0 ? find_checked(check, rev) : NULL;
  if (key != NULL) {
    check->driver->owner->key_checked(key, event.is_found,
                                      is_there && !event.is_found);
  }
  note_result(check->driver, &answer->err);
  step(check->driver, &event);
}

static void on_checked(el_request *request, el_txn_answer *answer) {
  lease_check *check = EL_CONTAINER_OF(request, lease_check, request);
  if (answer != NULL) {
    if (check->generation == check->driver->generation) {
      end_check(check, answer);
    }
    el_txn_answer_free(answer);
  }
  el_keys_destroy(&check->keys);
  free(check);
}

static void send_check(el_session_driver *driver, const el_checked_key *key) {
  EL_UNINITIALIZED el_lock_txn built;
  lease_check *check = el_alloc(sizeof *check);
  check->request.done = on_checked;
  check->request.counted_as = offsetof(el_stats, probes);
  check->driver = driver;
  check->generation = driver->generation;
  check->rev = key->rev;
  el_keys_copy(&check->keys, key->keys);
  el_lock_txn_build(&built, &check->keys, &READ_CHECK, 0, (el_bytes){0});
  el_request_queue_send(driver->shared->requests, &check->request, &built.txn);
}

/* Returns the listed key to read: a key whose put is in flight only if there is no other. NULL: no
 * key is listed. */
static el_checked_key *next_checked(const el_session_driver *driver) {
  el_checked_key *key;
  TAILQ_FOREACH(key, &driver->keys, link) {
    if (key->rev != 0) return key;
  }
  return TAILQ_FIRST(&driver->keys);
}

static void check_next_key(el_session_driver *driver) {
  el_checked_key *key = next_checked(driver);
  el_session_event none = {.kind = EL_SESSION_ON_READ_ANSWER,
                           .outcome.sent_ms = el_now_ms()};
  /* the last listed key was removed after the session had counted it */
  if (key == NULL) {
    step(driver, &none);
    return;
  }
  TAILQ_REMOVE(&driver->keys, key, link);
  TAILQ_INSERT_TAIL(&driver->keys, key, link);
  send_check(driver, key);
}

/* ---- state that other threads read, except hold deadlines ---- */

/* Shows the state of the session to other threads. */
static void publish(const el_session_driver *driver) {
  const el_session *session = &driver->session;
  el_shared *shared = driver->shared;
  bool is_alive = session->state == EL_SESSION_ALIVE;
  const el_renewal *last = &session->proof.renewals[0];
  int64_t until = last->sent_ms + last->ttl_ms;
  atomic_store(&shared->lease, is_alive ? session->id : 0);
  atomic_store(&shared->due_ms, session->wake_at);
  atomic_store(&shared->alive_until_ms, is_alive ? until : 0);
}

/* ---- step ---- */

static void carry_out(el_session_driver *driver,
                      const el_session_action *action) {
  switch (action->kind) {
    case EL_SESSION_SEND_GRANT:
      grant(driver);
      return;
    case EL_SESSION_SEND_KEEPALIVE:
      send_keepalive(driver, action->sent_ms);
      return;
    case EL_SESSION_READ_KEY:
      check_next_key(driver);
      return;
    case EL_SESSION_AUDIT_LEASE:
      audit(driver, on_audited);
      return;
    case EL_SESSION_SEND_REVOKE:
      if (driver->session.state == EL_SESSION_REVOKING) {
        revoke(driver);
      } else {
        revoke_in_background(driver, action->id);
      }
      return;
    case EL_SESSION_REPORT_READY:
      driver->news |= EL_SESSION_NEWS_READY;
      return;
    case EL_SESSION_REPORT_REFUSED:
      driver->news |= EL_SESSION_NEWS_REFUSED;
      return;
    case EL_SESSION_REPORT_EXPIRED:
      el_shared_keep_proof_error(driver->shared);
      driver->news |= EL_SESSION_NEWS_EXPIRED;
      return;
    case EL_SESSION_REPORT_ENDED:
      driver->news |= EL_SESSION_NEWS_ENDED;
      return;
  }
}

/* If a session is stepped much later than it has asked for, records that the process did not run:
 * this explains why holds expire. */
static void note_stall(el_session_driver *driver) {
  EL_UNINITIALIZED el_error late;
  if (el_shared_stood_still(driver->shared, &late)) {
    el_shared_set_proof_error(driver->shared, &late);
  }
}

/* If answers take so long that no hold can be proven, notes that, and reports it if that has lasted
 * for EL_UNPROVEN_TTLS. A keepalive whose lease may have expired is proven by a read that is sent
 * after its answer (protocol/lease_proof.h): two round trips, which must end before the hold would. */
static void note_slowness(el_session_driver *driver) {
  const el_session *session = &driver->session;
  int64_t took_ms = el_patience_round_trip_ms(
      el_channel_patience(el_auth_channel(driver->shared->auth)));
  int64_t hold_ms = el_lease_proof_hold_ms(session->ttl_ms);
  driver->too_slow.code = EL_OK;
  if (session->state != EL_SESSION_ALIVE || session->hold_deadline != 0 ||
      session->listed == 0 || 2 * took_ms < hold_ms) {
    return;
  }
  el_error_set(&driver->too_slow, EL_UNAVAILABLE,
               "etcd %s: its answers take %.2g s, too long for a ttl of %.3g s "
               "(give at least %d s)",
               el_request_queue_address(driver->shared->requests),
               (double)took_ms / 1000, (double)session->ttl_ms / 1000,
               (int)((EL_TTL_ANSWERS * took_ms + 999) / 1000));
  if (el_now_ms() > session->granted_ms + EL_UNPROVEN_TTLS * session->ttl_ms) {
    driver->news |= EL_SESSION_NEWS_TOO_SLOW;
  }
}

static void step(el_session_driver *driver, const el_session_event *event) {
  EL_UNINITIALIZED el_session_actions actions;
  int64_t before = driver->session.hold_deadline;
  note_stall(driver);
  driver->session.answer_ms = el_patience_estimate_ms(
      el_channel_patience(el_auth_channel(driver->shared->auth)));
  el_session_step(&driver->session, event, el_now_ms(), &actions);
  if (driver->session.hold_deadline > before) {
    el_shared_clear_proof_error(driver->shared);
    driver->unproven_sessions = 0;
  }
  if (driver->session.wake_at != 0) {
    el_timers_set(driver->shared->timers, &driver->timer,
                  driver->session.wake_at);
  } else {
    el_timers_stop(driver->shared->timers, &driver->timer);
  }
  if (event->kind == EL_SESSION_ON_KEEPALIVE_ANSWER) note_slowness(driver);
  publish(driver);
  for (int i = 0; i < actions.n; i++) {
    carry_out(driver, &actions.list[i]);
  }
}

static void step_simple(el_session_driver *driver, int kind) {
  el_session_event event = {.kind = kind};
  step(driver, &event);
}

static void on_timer(el_timer *timer) {
  step_simple(EL_CONTAINER_OF(timer, el_session_driver, timer),
              EL_SESSION_ON_TIMER);
}

/* ---- events from outside ---- */

void el_session_driver_need(el_session_driver *driver) {
  step_simple(driver, EL_SESSION_ON_NEEDED);
}

void el_session_driver_moved(el_session_driver *driver) {
  step_simple(driver, EL_SESSION_ON_MOVED);
}

/* If a lost hold keeps the lease, a put in doubt may have left a key that would block other clients
 * for as long. So the lease is audited first, and the keys that no caller wants are deleted. */
void el_session_driver_close(el_session_driver *driver) {
  const el_session *session = &driver->session;
  if (el_session_driver_is_alive(driver) && session->has_put_in_doubt &&
      el_now_ms() < session->keep_lease_until) {
    audit(driver, on_last_audit);
  } else {
    step_simple(driver, EL_SESSION_ON_CLOSE);
  }
}

/* The lease is revoked even if another cluster answers, because that cluster may have granted the
 * lease and may store keys with it. */
void el_session_driver_abandon(el_session_driver *driver) {
  step_simple(driver, EL_SESSION_ON_ABANDON);
}

void el_session_driver_add_sight(el_session_driver *driver,
                                 const el_sight *sight) {
  el_session_event event = {.kind = EL_SESSION_ON_SIGHT, .sight = *sight};
  step(driver, &event);
}

void el_session_driver_lease_gone(el_session_driver *driver, int64_t lease,
                                  const el_error *err) {
  /* |lease| is of an earlier session */
  if (lease != driver->session.id) return;
  el_shared_set_proof_error(driver->shared, err);
  driver->lease_end_error = *err;
  driver->has_lease_end_error = true;
  driver->lease_end_ms = el_now_ms();
  step_simple(driver, EL_SESSION_ON_LEASE_GONE);
}

void el_session_driver_signal(el_session_driver *driver, int64_t lease,
                              int kind) {
  if (lease == driver->session.id) step_simple(driver, kind);
}

int64_t el_session_driver_renewal_sent_ms(const el_session_driver *driver) {
  return driver->session.proof.renewals[0].sent_ms;
}

void el_session_driver_set_unused(el_session_driver *driver) {
  if (driver->session.has_put_in_doubt) {
    step_simple(driver, EL_SESSION_ON_UNUSED);
  }
}

static bool is_listed(const el_checked_key *key) {
  return key->link.tqe_prev != NULL;
}

void el_session_driver_add_key(el_session_driver *driver, el_checked_key *key,
                               bool is_held) {
  driver->n_held += is_held - key->is_held;
  key->is_held = is_held;
  if (is_listed(key)) return;
  TAILQ_INSERT_TAIL(&driver->keys, key, link);
  driver->n_keys++;
}

void el_session_driver_remove_key(el_session_driver *driver,
                                  el_checked_key *key) {
  if (!is_listed(key)) return;
  TAILQ_REMOVE(&driver->keys, key, link);
  memset(&key->link, 0, sizeof key->link);
  driver->n_keys--;
  driver->n_held -= key->is_held;
  key->is_held = false;
}

void el_session_driver_update_holds(el_session_driver *driver) {
  el_session_event holds = {.kind = EL_SESSION_ON_HOLDS_CHANGED,
                            .listed = driver->n_keys,
                            .held = driver->n_held};
  if (driver->n_keys != driver->session.listed ||
      driver->n_held != driver->session.held) {
    step(driver, &holds);
  }
}

/* ---- state ---- */

bool el_session_driver_has_news(const el_session_driver *driver) {
  return driver->news != 0;
}

unsigned el_session_driver_take_news(el_session_driver *driver) {
  unsigned news = driver->news;
  driver->news = 0;
  return news;
}

bool el_session_driver_is_over(const el_session_driver *driver) {
  return driver->session.state == EL_SESSION_ENDED &&
         driver->calls_in_flight == 0 && !driver->revocations.is_in_flight;
}

bool el_session_driver_is_alive(const el_session_driver *driver) {
  return driver->session.state == EL_SESSION_ALIVE;
}

el_session_end el_session_driver_end(const el_session_driver *driver) {
  return driver->session.end;
}

bool el_session_driver_is_proven(const el_session_driver *driver,
                                 int64_t now_ms) {
  return el_session_is_proven(&driver->session, now_ms);
}

int64_t el_session_driver_proven_rev(const el_session_driver *driver,
                                     int64_t now_ms) {
  return el_session_proven_rev(&driver->session, now_ms);
}

const el_session *el_session_driver_session(const el_session_driver *driver) {
  return &driver->session;
}

int64_t el_session_driver_lease(const el_session_driver *driver) {
  return driver->session.id;
}

el_hold_deadline *
el_session_driver_hold_deadline(const el_session_driver *driver) {
  return driver->hold_deadline;
}

void el_session_driver_publish_hold_deadline(el_session_driver *driver) {
  el_hold_deadline_set(driver->hold_deadline, driver->session.hold_deadline);
}

void el_session_driver_end_holds(el_session_driver *driver, el_loss loss) {
  el_hold_deadline_end(driver->hold_deadline, loss);
}

const el_error *el_session_driver_last_error(const el_session_driver *driver,
                                             int64_t since_ms) {
  if (driver->last_error.code != EL_OK) return &driver->last_error;
  if (driver->too_slow.code != EL_OK) return &driver->too_slow;
  return driver->unproven_sessions > 1 &&
                 driver->lease_end_error.code != EL_OK &&
                 driver->lease_end_ms >= since_ms
             ? &driver->lease_end_error
             : NULL;
}

/* ---- life ---- */

void el_session_driver_init(el_client_session *owner) {
  el_session_driver *driver = el_alloc(sizeof *driver);
  owner->driver = driver;
  TAILQ_INIT(&owner->proving);
  driver->owner = owner;
  driver->shared = owner->shared;
  driver->hold_deadline = el_hold_deadline_new();
  driver->timer.on_due = on_timer;
  driver->keepalive = el_keepalive_new(owner->shared->auth, on_kept, driver);
  el_lease_revocations_init(&driver->revocations, owner->shared);
  TAILQ_INIT(&driver->keys);
  driver->salt = el_random();
  el_session_init(&driver->session, owner->ttl_ms, owner->lock_delay_ms, 0,
                  driver->salt);
}

/* Returns when the new session may send its first grant (el_now_ms); 0: at once. There is a backoff
 * only if the last sessions were lost before a hold was proven. */
static int64_t next_grant_at(const el_session_driver *driver) {
  el_outcome failed = {.is_retriable = true, .sent_ms = el_now_ms()};
  return driver->unproven_sessions == 0
             ? 0
             : el_retry_at(&failed, failed.sent_ms, driver->unproven_sessions,
                           driver->salt);
}

void el_session_driver_renew(el_session_driver *driver) {
  bool was_lost = driver->session.end != EL_SESSION_END_CLOSED;
  if (!driver->has_lease_end_error) driver->lease_end_error.code = EL_OK;
  driver->has_lease_end_error = false;
  driver->generation++;
  el_timers_stop(driver->shared->timers, &driver->timer);
  el_keepalive_reset(driver->keepalive);
  el_hold_deadline_set(driver->hold_deadline, 0);
  el_hold_deadline_unref(driver->hold_deadline);
  driver->hold_deadline = el_hold_deadline_new();
  el_session_init(&driver->session, driver->owner->ttl_ms,
                  driver->owner->lock_delay_ms, next_grant_at(driver),
                  driver->salt);
  /* `step` sets it to 0 when a hold is proven */
  driver->unproven_sessions += was_lost;
  publish(driver);
}

void el_session_driver_stop(el_session_driver *driver) {
  driver->is_stopping = true;
  el_lease_revocations_stop(&driver->revocations);
  el_timers_stop(driver->shared->timers, &driver->timer);
  atomic_store(&driver->shared->due_ms, 0);
}

void el_session_driver_free(el_session_driver *driver) {
  el_keepalive_free(driver->keepalive);
  el_lease_revocations_destroy(&driver->revocations);
  el_hold_deadline_set(driver->hold_deadline, 0);
  el_hold_deadline_unref(driver->hold_deadline);
  free(driver);
}
