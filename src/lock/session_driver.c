/* session_driver: keeps the client's lease alive. */
#include "lock/session_driver.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/random.h"
#include "lock/farewells.h"
#include "rules/retry.h"

struct el_session_driver {
  el_session_world world;
  el_session session;
  unsigned generation; /* tells answers to an earlier session apart */
  unsigned news;
  el_hold_deadline *claim; /* of this session */
  uint64_t salt;           /* for retries */
  int fruitless;           /* sessions in a row that claimed nothing, ... */
  el_error ended; /* ... and how the last lease ended, if etcd has said, ... */
  bool has_ended; /* ... that is, this session's */
  el_error cause; /* of the last failed attempt since a success */
  el_timer timer;
  el_keepalive *keepalive;
  el_prober prober;
  el_farewells farewells; /* to leases of before */
  int lease_calls;        /* grants and revokes that are out */
  bool stopping;
};

static void step(el_session_driver *driver, const el_session_event *event);

static void note_outcome(el_session_driver *driver, const el_error *err) {
  if (err->code != EL_OK) {
    el_shared_set_proof_error(driver->world.handle, err);
  }
  driver->cause = *err;
}

static el_session_event event_of(int kind, const el_lease_answer *answer) {
  el_session_event event = {.outcome =
                                el_outcome_of(&answer->err, answer->sent_ms),
                            .id = answer->id,
                            .ttl_ms = answer->ttl_ms,
                            .term = answer->term};
  event.kind = kind;
  return event;
}

/* ---- grants, revokes and audits ---- */

/* A question that outlives the session that asked it is told apart by the
 * session's generation. */
typedef struct lease_question {
  el_session_driver *driver;
  unsigned generation;
} lease_question;

static lease_question *ask(el_session_driver *driver) {
  lease_question *question = el_alloc(sizeof *question);
  *question = (lease_question){driver, driver->generation};
  driver->lease_calls++;
  return question;
}

/* Is the answer to |question|, which ends here, of use to its driver? */
static bool take_back(lease_question *question) {
  el_session_driver *driver = question->driver;
  bool current =
      !driver->stopping && question->generation == driver->generation;
  driver->lease_calls--;
  free(question);
  return current;
}

static void say_farewell(el_session_driver *driver, int64_t id) {
  el_farewells_add(&driver->farewells, id,
                   el_session_lease_ms(&driver->session));
}

/* An answer that comes too late for its session (it was given up meanwhile, or it is
 * another cluster's) may tell of a lease that lives in etcd and that nobody would
 * ever end. */
static void on_granted(void *arg, const el_lease_answer *answer) {
  lease_question *question = arg;
  el_session_driver *driver = question->driver;
  el_session_event event = event_of(EL_SESSION_GRANTED, answer);
  bool current = take_back(question);
  if (driver->stopping) return;
  if (el_requests_judge_lease(driver->world.requests, answer) && current) {
    note_outcome(driver, &answer->err);
    step(driver, &event);
  } else if (!answer->err.is_definite) {
    say_farewell(driver, answer->id);
  }
}

static void grant(el_session_driver *driver) {
  EL_COUNT(&driver->world.handle->counters, grants, 1);
  el_lease_grant(driver->world.auth, el_lease_new_id(),
                 el_session_lease_ms(&driver->session), EL_ATTEMPT_MS,
                 on_granted, ask(driver));
}

static void on_revoked(void *arg, const el_lease_answer *answer) {
  lease_question *question = arg;
  el_session_driver *driver = question->driver;
  el_session_event event = event_of(EL_SESSION_REVOKED, answer);
  if (take_back(question)) {
    step(driver, &event);
  }
}

/* The end of the session waits for the answer. */
static void revoke(el_session_driver *driver) {
  EL_COUNT(&driver->world.handle->counters, revokes, 1);
  el_lease_revoke(driver->world.auth, driver->session.id, EL_ATTEMPT_MS,
                  on_revoked, ask(driver));
}

/* ---- keepalive ---- */

static void on_kept(void *arg, const el_lease_answer *answer) {
  el_session_driver *driver = arg;
  el_session_event event = event_of(EL_SESSION_KEPT, answer);
  if (driver->stopping ||
      !el_requests_judge_lease(driver->world.requests, answer)) {
    return;
  }
  note_outcome(driver, &answer->err);
  step(driver, &event);
}

/* The stream is silent: the member is left. */
static void reset_keepalive(el_session_driver *driver) {
  el_error silent;
  el_error_set(&silent, EL_UNAVAILABLE,
               "etcd %s: a keepalive was not answered in time",
               el_requests_address(driver->world.requests));
  note_outcome(driver, &silent);
  el_keepalive_fail_over(driver->keepalive, &silent);
}

static void on_probed(el_prober *prober, const el_session_event *event,
                      const el_error *err) {
  el_session_driver *driver =
      EL_CONTAINER_OF(prober, el_session_driver, prober);
  if (err != NULL) {
    note_outcome(driver, err);
  }
  step(driver, event);
}

/* ---- audit ---- */

static void on_audited(void *arg, const el_lease_keys *answer) {
  lease_question *question = arg;
  el_session_driver *driver = question->driver;
  el_session_event event = event_of(EL_SESSION_AUDITED, &answer->lease);
  bool current = take_back(question);
  if (driver->stopping ||
      !el_requests_judge_lease(driver->world.requests, &answer->lease) ||
      !current) {
    return;
  }
  for (size_t i = 0; i < answer->n; i++) {
    driver->world.found_key(driver->world.arg, answer->lease.id,
                            answer->keys[i]);
  }
  step(driver, &event);
}

static void audit(el_session_driver *driver) {
  EL_COUNT(&driver->world.handle->counters, audits, 1);
  el_lease_time_to_live(driver->world.auth, driver->session.id, EL_ATTEMPT_MS,
                        on_audited, ask(driver));
}

/* ---- step ---- */

static void carry_out(el_session_driver *driver,
                      const el_session_action *action) {
  switch (action->kind) {
    case EL_SESSION_GRANT:
      grant(driver);
      return;
    case EL_SESSION_KEEPALIVE:
      EL_COUNT(&driver->world.handle->counters, keepalives, 1);
      el_keepalive_send(driver->keepalive, driver->session.id,
                        el_session_lease_ms(&driver->session));
      return;
    case EL_SESSION_RESET:
      reset_keepalive(driver);
      return;
    case EL_SESSION_PROBE:
      el_prober_send(&driver->prober);
      return;
    case EL_SESSION_AUDIT:
      audit(driver);
      return;
    case EL_SESSION_REVOKE:
      if (driver->session.state == EL_SESSION_REVOKING) {
        revoke(driver);
      } else {
        say_farewell(driver, action->id);
      }
      return;
    case EL_SESSION_READY:
      driver->news |= EL_SESSION_NEWS_READY;
      return;
    case EL_SESSION_REFUSED:
      driver->news |= EL_SESSION_NEWS_REFUSED;
      return;
    case EL_SESSION_LAPSED:
      el_shared_keep_proof_error(driver->world.handle);
      driver->news |= EL_SESSION_NEWS_LAPSED;
      return;
    case EL_SESSION_GONE:
      driver->news |= EL_SESSION_NEWS_GONE;
      return;
  }
}

/* If whatever comes first comes much later than was asked for, that is why claims
 * lapse. */
static void note_standstill(el_session_driver *driver) {
  el_error late;
  if (el_shared_stood_still(driver->world.handle, &late)) {
    el_shared_set_proof_error(driver->world.handle, &late);
  }
}

static void step(el_session_driver *driver, const el_session_event *event) {
  el_session_actions actions;
  int64_t claimed = driver->session.claim_until;
  note_standstill(driver);
  el_session_step(&driver->session, event, el_now_ms(), &actions);
  if (driver->session.claim_until > claimed) {
    el_shared_clear_proof_error(driver->world.handle);
    driver->fruitless = 0;
  }
  if (driver->session.wake_at != 0) {
    el_timers_set(driver->world.timers, &driver->timer,
                  driver->session.wake_at);
  } else {
    el_timers_stop(driver->world.timers, &driver->timer);
  }
  driver->world.changed(driver->world.changed_arg);
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
              EL_SESSION_TIMER);
}

/* ---- what others say ---- */

void el_session_driver_want(el_session_driver *driver) {
  step_simple(driver, EL_SESSION_WANT);
}

void el_session_driver_close(el_session_driver *driver) {
  step_simple(driver, EL_SESSION_CLOSE);
}

/* A store that isn't ours may have given us the lease, and keys on it. */
void el_session_driver_drop(el_session_driver *driver) {
  step_simple(driver, EL_SESSION_DROP);
}

void el_session_driver_change_lock_delay(el_session_driver *driver,
                                         int64_t lock_delay_ms) {
  el_session_driver_drop(driver);
  driver->world.lock_delay_ms = lock_delay_ms;
}

void el_session_driver_prove(el_session_driver *driver, int64_t sent_ms,
                             uint64_t term, int64_t rev) {
  el_session_event proof = {.kind = EL_SESSION_PROOF,
                            .outcome.sent_ms = sent_ms,
                            .term = term,
                            .rev = rev};
  step(driver, &proof);
}

void el_session_driver_lease_gone(el_session_driver *driver, int64_t lease,
                                  const el_error *err) {
  if (lease != driver->session.id) return; /* an earlier one's */
  el_shared_set_proof_error(driver->world.handle, err);
  driver->ended = *err;
  driver->has_ended = true;
  step_simple(driver, EL_SESSION_LEASE_GONE);
}

void el_session_driver_signal(el_session_driver *driver, int64_t lease,
                              int kind) {
  if (lease == driver->session.id) step_simple(driver, kind);
}

int64_t el_session_driver_renewed_ms(const el_session_driver *driver) {
  return driver->session.last.sent_ms;
}

void el_session_driver_note_unused(el_session_driver *driver) {
  if (driver->session.unsure) {
    step_simple(driver, EL_SESSION_UNUSED);
  }
}

el_prober *el_session_driver_prober(el_session_driver *driver) {
  return &driver->prober;
}

void el_session_driver_tell_holds(el_session_driver *driver) {
  el_session_event holds = {.kind = EL_SESSION_HOLDS,
                            .holds = driver->prober.n_keys};
  if (driver->prober.n_keys != driver->session.holds) {
    step(driver, &holds);
  }
}

/* ---- what it tells ---- */

bool el_session_driver_has_news(const el_session_driver *driver) {
  return driver->news != 0;
}

unsigned el_session_driver_take_news(el_session_driver *driver) {
  unsigned news = driver->news;
  driver->news = 0;
  return news;
}

bool el_session_driver_is_over(const el_session_driver *driver) {
  return driver->session.state == EL_SESSION_DEAD && driver->lease_calls == 0 &&
         !driver->farewells.is_out;
}

bool el_session_driver_is_alive(const el_session_driver *driver) {
  return driver->session.state == EL_SESSION_ALIVE;
}

el_session_end el_session_driver_end(const el_session_driver *driver) {
  return driver->session.end;
}

bool el_session_driver_can_claim(const el_session_driver *driver) {
  return el_session_can_claim(&driver->session, el_now_ms());
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

el_hold_deadline *el_session_driver_claim(const el_session_driver *driver) {
  return driver->claim;
}

void el_session_driver_publish_claim(el_session_driver *driver) {
  el_hold_deadline_set(driver->claim, driver->session.claim_until);
}

void el_session_driver_end_claim(el_session_driver *driver, el_loss loss) {
  el_hold_deadline_end(driver->claim, loss);
}

const el_error *el_session_driver_cause(const el_session_driver *driver) {
  if (driver->cause.code != EL_OK) return &driver->cause;
  return driver->fruitless > 1 && driver->ended.code != EL_OK ? &driver->ended
                                                              : NULL;
}

/* ---- life ---- */

el_session_driver *el_session_driver_new(const el_session_world *world) {
  el_session_driver *driver = el_alloc(sizeof *driver);
  driver->world = *world;
  driver->claim = el_hold_deadline_new();
  driver->timer.on_due = on_timer;
  driver->keepalive = el_keepalive_new(world->auth, on_kept, driver);
  driver->farewells.auth = world->auth;
  driver->farewells.timers = world->timers;
  driver->farewells.counters = &world->handle->counters;
  el_farewells_init(&driver->farewells);
  driver->prober.requests = world->requests;
  driver->prober.probed = on_probed;
  el_prober_init(&driver->prober);
  driver->salt = el_random();
  el_session_init(&driver->session, world->ttl_ms, world->lock_delay_ms, 0,
                  driver->salt);
  return driver;
}

/* When a new session may begin: at once, unless leases keep dying before
 * anything could be claimed on their strength. */
static int64_t next_grant_at(const el_session_driver *driver) {
  el_outcome failed = {.is_retriable = true, .sent_ms = el_now_ms()};
  return driver->fruitless == 0 ? 0
                                : el_retry_at(&failed, failed.sent_ms,
                                              driver->fruitless, driver->salt);
}

void el_session_driver_renew(el_session_driver *driver) {
  bool was_lost = driver->session.end != EL_SESSION_CLOSED;
  if (!driver->has_ended) driver->ended.code = EL_OK;
  driver->has_ended = false;
  driver->generation++;
  el_prober_forget(&driver->prober);
  el_timers_stop(driver->world.timers, &driver->timer);
  el_keepalive_reset(driver->keepalive);
  el_hold_deadline_set(driver->claim, 0);
  el_hold_deadline_unref(driver->claim);
  driver->claim = el_hold_deadline_new();
  el_session_init(&driver->session, driver->world.ttl_ms,
                  driver->world.lock_delay_ms, next_grant_at(driver),
                  driver->salt);
  driver->fruitless += was_lost; /* until it proves otherwise */
  driver->world.changed(driver->world.changed_arg);
}

void el_session_driver_stop(el_session_driver *driver) {
  driver->stopping = true;
  el_farewells_stop(&driver->farewells);
  el_timers_stop(driver->world.timers, &driver->timer);
}

void el_session_driver_free(el_session_driver *driver) {
  el_keepalive_free(driver->keepalive);
  el_farewells_destroy(&driver->farewells);
  el_hold_deadline_set(driver->claim, 0);
  el_hold_deadline_unref(driver->claim);
  free(driver);
}
