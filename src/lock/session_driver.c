/* session_driver: keeps the client's lease alive. */
#include "lock/session_driver.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/of.h"
#include "rules/recipe.h"
#include "rules/retry.h"
#include "rules/session.h"

struct el_session_driver {
  el_session_world world;
  el_session session;
  unsigned generation; /* tells answers to an earlier session apart */
  unsigned news;
  el_claim *claim; /* of this session */
  uint64_t salt;   /* for retries */
  int fruitless;   /* sessions in a row that claimed nothing */
  el_error cause;  /* of the last failed attempt since a success */
  el_timer timer;
  el_keepalive *keepalive;
  TAILQ_HEAD(, el_proof_key) keys;
  int n_keys;
  int lease_calls; /* grants and revokes that are out */
  bool stopping;
};

static void step(el_session_driver *driver, const el_session_event *event);

static void note_outcome(el_session_driver *driver, const el_error *err) {
  if (err->code != EL_OK) {
    el_last_cause_note(&driver->world.handle->last_cause, err);
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

/* ---- grant and revoke ---- */

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

static int64_t random_lease_id(void) {
  uint64_t id = 0;
  while (id == 0) {
    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id) id = 0;
    id &= INT64_MAX; /* etcd's ids are positive; 0 asks it to choose */
  }
  return (int64_t)id;
}

static void revoke(el_session_driver *driver, int64_t id);

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
  } else if (!answer->err.definite) {
    revoke(driver, answer->id);
  }
}

static void grant(el_session_driver *driver) {
  EL_COUNT(&driver->world.handle->counters, grants, 1);
  el_lease_grant(driver->world.auth, random_lease_id(),
                 driver->session.want_ttl_ms, EL_ATTEMPT_MS, on_granted,
                 ask(driver));
}

static void on_revoked(void *arg, const el_lease_answer *answer) {
  lease_question *question = arg;
  el_session_driver *driver = question->driver;
  el_session_event event = event_of(EL_SESSION_REVOKED, answer);
  if (take_back(question)) {
    step(driver, &event);
  }
}

static void revoke(el_session_driver *driver, int64_t id) {
  EL_COUNT(&driver->world.handle->counters, revokes, 1);
  el_lease_revoke(driver->world.auth, id, EL_ATTEMPT_MS, on_revoked,
                  ask(driver));
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
  el_keepalive_leave(driver->keepalive);
}

/* ---- probe ---- */

typedef struct probe {
  el_request request; /* first */
  el_session_driver *driver;
  unsigned generation;
  el_keys keys; /* whose key */
  int64_t rev;  /* its create_revision */
} probe;

static const el_entry_action LOOK = {.kind = EL_ENTRY_SEND,
                                     .request = EL_REQUEST_LOOK};

/* The key that was probed, if it is still ours. */
static el_proof_key *find_probed(const probe *asked) {
  el_proof_key *key;
  TAILQ_FOREACH(key, &asked->driver->keys, link) {
    if (key->rev == asked->rev && el_keys_are_same(key->keys, &asked->keys)) {
      return key;
    }
  }
  return NULL;
}

static void conclude_probe(const probe *asked, const el_txn_answer *answer) {
  el_session_driver *driver = asked->driver;
  el_session_event event = {.kind = EL_SESSION_PROBED,
                            .outcome =
                                el_outcome_of(&answer->err, answer->sent_ms),
                            .term = answer->term};
  el_entry_event seen;
  el_proof_key *key;
  el_recipe_read(&asked->keys, &LOOK, answer, &seen);
  event.exists = event.outcome.done && seen.mine.rev == asked->rev;
  note_outcome(driver, &answer->err);
  key = event.outcome.done && !event.exists ? find_probed(asked) : NULL;
  if (key != NULL) {
    key->gone(key);
  }
  step(driver, &event);
}

static void on_probed(el_request *request, el_txn_answer *answer) {
  probe *asked = EL_OF(request, probe, request);
  if (answer != NULL) {
    if (asked->generation == asked->driver->generation) {
      conclude_probe(asked, answer);
    }
    el_txn_answer_free(answer);
  }
  el_keys_destroy(&asked->keys);
  free(asked);
}

/* Reads one of our keys; the next probe reads the next one. */
static void send_probe(el_session_driver *driver) {
  el_proof_key *key = TAILQ_FIRST(&driver->keys);
  el_session_event none = {.kind = EL_SESSION_PROBED,
                           .outcome.sent_ms = el_now_ms()};
  el_recipe recipe;
  probe *asked;
  if (key == NULL) { /* let go a moment ago */
    step(driver, &none);
    return;
  }
  TAILQ_REMOVE(&driver->keys, key, link);
  TAILQ_INSERT_TAIL(&driver->keys, key, link);
  asked = el_alloc(sizeof *asked);
  asked->request.done = on_probed;
  asked->request.counted_as = offsetof(el_stats, probes);
  asked->driver = driver;
  asked->generation = driver->generation;
  asked->rev = key->rev;
  el_keys_init(&asked->keys, el_keys_name(key->keys), key->keys->lease);
  el_recipe_build(&recipe, &asked->keys, &LOOK, 0, (el_bytes){0});
  el_requests_send(driver->world.requests, &asked->request, &recipe.txn);
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
      el_keepalive_send(driver->keepalive, driver->session.id);
      return;
    case EL_SESSION_RESET:
      reset_keepalive(driver);
      return;
    case EL_SESSION_PROBE:
      send_probe(driver);
      return;
    case EL_SESSION_REVOKE:
      revoke(driver, action->id);
      return;
    case EL_SESSION_READY:
      driver->news |= EL_SESSION_NEWS_READY;
      return;
    case EL_SESSION_REFUSED:
      driver->news |= EL_SESSION_NEWS_REFUSED;
      return;
    case EL_SESSION_LAPSED:
      el_last_cause_lapse(&driver->world.handle->last_cause);
      driver->news |= EL_SESSION_NEWS_LAPSED;
      return;
    case EL_SESSION_GONE:
      driver->news |= EL_SESSION_NEWS_GONE;
      return;
  }
}

/* What other threads may read of the session, but for the claim. */
static void publish(el_session_driver *driver) {
  const el_session *session = &driver->session;
  bool alive = session->state == EL_SESSION_ALIVE;
  atomic_store(&driver->world.handle->lease, alive ? session->id : 0);
  atomic_store(&driver->world.handle->alive_until,
               alive ? session->last.sent_ms + session->last.ttl_ms : 0);
}

static void step(el_session_driver *driver, const el_session_event *event) {
  el_session_actions actions;
  int64_t claimed = driver->session.claim_until;
  el_session_step(&driver->session, event, el_now_ms(), &actions);
  if (driver->session.claim_until > claimed) {
    el_last_cause_end(&driver->world.handle->last_cause);
    driver->fruitless = 0;
  }
  if (driver->session.wake_at != 0) {
    el_timers_set(driver->world.timers, &driver->timer,
                  driver->session.wake_at);
  } else {
    el_timers_stop(driver->world.timers, &driver->timer);
  }
  publish(driver);
  for (int i = 0; i < actions.n; i++) {
    carry_out(driver, &actions.list[i]);
  }
}

static void step_simple(el_session_driver *driver, int kind) {
  el_session_event event = {0};
  event.kind = kind;
  step(driver, &event);
}

static void on_timer(el_timer *timer) {
  step_simple(EL_OF(timer, el_session_driver, timer), EL_SESSION_TIMER);
}

/* ---- what others say ---- */

void el_session_driver_want(el_session_driver *driver) {
  step_simple(driver, EL_SESSION_WANT);
}

void el_session_driver_close(el_session_driver *driver) {
  step_simple(driver, EL_SESSION_CLOSE);
}

void el_session_driver_drop(el_session_driver *driver) {
  bool alive = driver->session.state == EL_SESSION_ALIVE;
  step_simple(driver, alive ? EL_SESSION_LEASE_GONE
                            : EL_SESSION_CLOSE); /* nothing to revoke yet */
}

void el_session_driver_prove(el_session_driver *driver, int64_t sent_ms,
                             uint64_t term) {
  el_session_event proof = {
      .kind = EL_SESSION_PROOF, .outcome.sent_ms = sent_ms, .term = term};
  step(driver, &proof);
}

void el_session_driver_lease_gone(el_session_driver *driver, int64_t lease,
                                  const el_error *err) {
  if (lease != driver->session.id) return; /* an earlier one's */
  el_last_cause_note(&driver->world.handle->last_cause, err);
  step_simple(driver, EL_SESSION_LEASE_GONE);
}

void el_session_driver_add_key(el_session_driver *driver, el_proof_key *key) {
  if (key->listed) return;
  key->listed = true;
  TAILQ_INSERT_TAIL(&driver->keys, key, link);
  driver->n_keys++;
}

void el_session_driver_remove_key(el_session_driver *driver,
                                  el_proof_key *key) {
  if (!key->listed) return;
  key->listed = false;
  TAILQ_REMOVE(&driver->keys, key, link);
  driver->n_keys--;
}

void el_session_driver_tell_holds(el_session_driver *driver) {
  el_session_event holds = {.kind = EL_SESSION_HOLDS, .holds = driver->n_keys};
  if (driver->n_keys != driver->session.holds) {
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
  return driver->session.state == EL_SESSION_DEAD && driver->lease_calls == 0;
}

bool el_session_driver_is_alive(const el_session_driver *driver) {
  return driver->session.state == EL_SESSION_ALIVE;
}

bool el_session_driver_can_claim(const el_session_driver *driver) {
  return el_session_can_claim(&driver->session, el_now_ms());
}

int64_t el_session_driver_lease(const el_session_driver *driver) {
  return driver->session.id;
}

int64_t el_session_driver_ttl_ms(const el_session_driver *driver) {
  return driver->session.ttl_ms;
}

el_claim *el_session_driver_claim(const el_session_driver *driver) {
  return driver->claim;
}

void el_session_driver_publish_claim(el_session_driver *driver) {
  el_claim_set(driver->claim, driver->session.claim_until);
}

const el_error *el_session_driver_cause(const el_session_driver *driver) {
  if (driver->cause.code != EL_OK) return &driver->cause;
  return el_last_cause_now(&driver->world.handle->last_cause);
}

/* ---- life ---- */

el_session_driver *el_session_driver_new(const el_session_world *world) {
  el_session_driver *driver = el_alloc(sizeof *driver);
  driver->world = *world;
  driver->claim = el_claim_new();
  driver->timer.due = on_timer;
  driver->keepalive = el_keepalive_new(world->auth, on_kept, driver);
  TAILQ_INIT(&driver->keys);
  driver->salt = (uint64_t)random_lease_id();
  el_session_init(&driver->session, world->ttl_ms, 0, driver->salt);
  return driver;
}

/* When a new session may begin: at once, unless leases keep dying before
 * anything could be claimed on their strength. */
static int64_t next_grant_at(const el_session_driver *driver) {
  el_outcome failed = {.retriable = true, .sent_ms = el_now_ms()};
  return driver->fruitless == 0 ? 0
                                : el_retry_at(&failed, failed.sent_ms,
                                              driver->fruitless, driver->salt);
}

void el_session_driver_renew(el_session_driver *driver) {
  driver->generation++;
  el_timers_stop(driver->world.timers, &driver->timer);
  el_keepalive_reset(driver->keepalive);
  el_claim_set(driver->claim, 0);
  el_claim_unref(driver->claim);
  driver->claim = el_claim_new();
  el_session_init(&driver->session, driver->world.ttl_ms, next_grant_at(driver),
                  driver->salt);
  driver->fruitless++; /* until it proves otherwise */
  publish(driver);
}

void el_session_driver_stop(el_session_driver *driver) {
  driver->stopping = true;
  el_timers_stop(driver->world.timers, &driver->timer);
}

void el_session_driver_free(el_session_driver *driver) {
  el_keepalive_free(driver->keepalive);
  el_claim_set(driver->claim, 0);
  el_claim_unref(driver->claim);
  free(driver);
}
