/* entry_driver: drives one entry, our place in one lock's queue. */
#include "lock/entry_driver.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "rules/recipe.h"

static void step(el_entry_driver *driver, const el_entry_event *event);

/* ---- requests ---- */

/* A request that is on its way. */
typedef struct el_sent {
  el_request request;
  el_entry_driver *driver;
  el_entry_action action;
} el_sent;

/* Which of el_stats counts them. */
static const size_t counted_as[] = {
    [EL_REQUEST_TRY] = offsetof(el_stats, tries),
    [EL_REQUEST_ENQUEUE] = offsetof(el_stats, enqueues),
    [EL_REQUEST_LOOK] = offsetof(el_stats, looks),
    [EL_REQUEST_DELETE] = offsetof(el_stats, deletes),
};

static void note_cause(el_entry_driver *driver, const el_error *err) {
  if (err->code == EL_OK) {
    free(driver->cause);
    driver->cause = NULL;
    return;
  }
  if (driver->cause == NULL) driver->cause = el_alloc(sizeof *driver->cause);
  *driver->cause = *err;
}

/* An entry that was told that its lease is gone waits for the session to die
 * of the same news: it was never in the queue, so it starts again. */
static void tell_lease_gone(el_entry_driver *driver, const el_error *err,
                            el_entry_event *event) {
  event->outcome.is_definite = event->outcome.is_retriable = true;
  el_session_driver_lease_gone(driver->world->session, driver->keys.lease, err);
}

static void on_answer(el_request *request, el_txn_answer *answer) {
  el_sent *out = EL_CONTAINER_OF(request, el_sent, request);
  el_entry_driver *driver = out->driver;
  el_entry_event event;
  driver->sent = NULL;
  if (answer == NULL) { /* the client stops */
    driver->entry.busy = EL_REQUEST_NONE;
    free(out);
    return;
  }
  note_cause(driver, &answer->err);
  el_recipe_read(&driver->keys, &out->action, answer, &event);
  if (answer->err.is_lease_gone) {
    tell_lease_gone(driver, &answer->err, &event);
  }
  el_txn_answer_free(answer);
  free(out);
  step(driver, &event);
}

/* What looks for keys of unknown fate can wait, and so can what was repeated, unless
 * somebody here waits for it. The first delete can't: others may wait for the key. */
static bool is_background(const el_entry_driver *driver) {
  const el_entry *entry = &driver->entry;
  if (entry->wanted || driver->hindrant) return false;
  return entry->state == EL_ENTRY_SWEEPING ||
         entry->failures > (driver->awaited ? 1 : 0);
}

static void send(el_entry_driver *driver, const el_entry_action *action) {
  el_sent *out = el_alloc(sizeof *out);
  EL_UNCLEARED el_recipe recipe;
  out->request.done = on_answer;
  out->request.background = is_background(driver);
  out->request.counted_as = counted_as[action->request];
  if (action->request == EL_REQUEST_ENQUEUE ||
      action->request == EL_REQUEST_TRY) {
    out->request.queue = el_keys_queue(&driver->keys);
  }
  out->request.by_itself =
      driver->keys.next != NULL && action->request != EL_REQUEST_LOOK;
  out->driver = driver;
  out->action = *action;
  driver->sent = out;
  el_recipe_build(&recipe, &driver->keys, action, driver->entry.rev,
                  driver->value);
  el_requests_send(driver->world->requests, &out->request, &recipe.txn);
}

/* ---- watch ---- */

typedef struct el_key_watch {
  el_watch watch;
  el_entry_driver *driver;
  struct el_key_watch *next;
  /* The store's when it was created, or told something last. 0: it isn't created yet; 1:
   * it was refused. */
  int64_t told_rev;
  char key[]; /* that is watched */
} el_key_watch;

/* When the last of them was created; 0: some aren't yet. One look when all of them are
 * spares one after each. (A refusal that comes last spares it, too; then what was missed
 * is found by a probe.) */
static int64_t all_created_rev(const el_entry_driver *driver) {
  const el_key_watch *watching = driver->watching;
  int64_t last = 0;
  for (; watching != NULL; watching = watching->next) {
    if (watching->told_rev == 0) return 0;
    if (watching->told_rev > last) last = watching->told_rev;
  }
  return last;
}

static void on_watch_event(el_watch *watch, const el_watch_event *from) {
  static const int kinds[] = {
      [EL_WATCH_CREATED] = EL_ENTRY_WATCH_CREATED,
      [EL_WATCH_DELETED] = EL_ENTRY_WATCH_DELETED,
      [EL_WATCH_PUT] = EL_ENTRY_WATCH_PUT,
      [EL_WATCH_REFUSED] = EL_ENTRY_WATCH_REFUSED,
  };
  el_key_watch *watching = EL_CONTAINER_OF(watch, el_key_watch, watch);
  el_entry_driver *driver = watching->driver;
  el_entry_event event = {.rev = from->rev, .lease = from->lease};
  bool is_behind;
  event.kind = kinds[from->kind];
  event.detached =
      from->kind == EL_WATCH_PUT && el_key_is_detached(from->key, from->lease);
  if (from->kind == EL_WATCH_REFUSED) {
    note_cause(driver, &from->err);
    watching->told_rev = 1;
  } else if (from->kind == EL_WATCH_CREATED) {
    EL_COUNT(driver->world->counters, watches, 1);
    is_behind = from->rev < watching->told_rev; /* as it was before */
    watching->told_rev = from->rev;
    event.rev = is_behind ? from->rev : all_created_rev(driver);
    if (event.rev == 0) return;
  } else if (from->rev < watching->told_rev) {
    return; /* the entry knows: the watch was in the cache before */
  } else {
    watching->told_rev = from->rev;
  }
  step(driver, &event);
}

static bool is_own_key(const el_entry_driver *driver, el_bytes key) {
  const el_keys *own = &driver->keys;
  while (own != NULL && !el_bytes_are_equal(el_keys_own(own), key)) {
    own = own->next;
  }
  return own != NULL;
}

static void stop_watch(el_entry_driver *driver) {
  el_key_watch *watching;
  while ((watching = driver->watching) != NULL) {
    driver->watching = watching->next;
    if (is_own_key(driver, watching->watch.key)) {
      el_watch_stop(driver->world->watches, &watching->watch);
    } else {
      el_watch_cache_put(driver->world->watch_cache, &watching->watch,
                         watching->told_rev);
    }
    free(watching);
  }
}

static el_key_watch *add_watch(el_entry_driver *driver, el_bytes *key) {
  el_key_watch *watching = el_alloc(sizeof *watching + key->len);
  memcpy(watching->key, key->data, key->len);
  watching->watch.on_event = on_watch_event;
  watching->driver = driver;
  watching->next = driver->watching;
  driver->watching = watching;
  key->data = watching->key;
  return watching;
}

static void watch_own(el_entry_driver *driver, el_bytes key) {
  el_key_watch *watching = add_watch(driver, &key);
  el_watch_start(driver->world->watches, &watching->watch, key);
}

static void watch_stem(el_entry_driver *driver, el_bytes stem) {
  el_key_watch *watching = add_watch(driver, &stem);
  el_watch_start_prefix(driver->world->watches, &watching->watch, stem);
}

/* Somebody else's key, of which the entry knows what it was at |watch_rev|. */
static void watch_another(el_entry_driver *driver, el_bytes key) {
  el_key_watch *watching = add_watch(driver, &key);
  watching->told_rev =
      el_watch_cache_take(driver->world->watch_cache, &watching->watch, key,
                          driver->entry.watch_rev);
  if (watching->told_rev == 0) {
    el_watch_start(driver->world->watches, &watching->watch, key);
  }
}

static void watch_other(el_entry_driver *driver, const el_place *place) {
  char key[EL_KEY_SIZE];
  el_bytes name = el_keys_name(el_keys_at(&driver->keys, place->name));
  el_place note;
  if (place->lease == 0) {
    watch_stem(driver,
               (el_bytes){key, el_key_write_stem(key, name, place->mode)});
    return;
  }
  watch_another(driver, (el_bytes){key, el_key_write(key, name, place)});
  if (el_kind_may_change(&driver->keys, place, &note)) {
    watch_another(driver, (el_bytes){key, el_key_write(key, name, &note)});
  }
}

static void start_watch(el_entry_driver *driver, const el_place *place) {
  stop_watch(driver);
  driver->waited = driver->waited || driver->entry.state == EL_ENTRY_WAITING;
  if (place->rev != 0) {
    watch_other(driver, place);
    return;
  }
  for (const el_keys *own = &driver->keys; own != NULL; own = own->next) {
    watch_own(driver, el_keys_own(own));
  }
}

/* ---- step ---- */

static void carry_out(el_entry_driver *driver, const el_entry_action *action) {
  switch (action->kind) {
    case EL_ENTRY_SEND:
      send(driver, action);
      return;
    case EL_ENTRY_WATCH:
      start_watch(driver, &action->place);
      return;
    case EL_ENTRY_UNWATCH:
      stop_watch(driver);
      return;
    case EL_ENTRY_UNSURE:
      el_session_driver_signal(driver->world->session, driver->keys.lease,
                               EL_SESSION_UNSURE);
      return;
    case EL_ENTRY_CONFIRM:
      el_session_driver_signal(driver->world->session, driver->keys.lease,
                               EL_SESSION_CONFIRM);
      return;
    case EL_ENTRY_PROOF:
      el_session_driver_prove(driver->world->session, action->sent_ms,
                              action->term, action->rev);
      return;
    default:
      driver->events->decided(driver, action);
  }
}

static void note_proving(el_entry_driver *driver, bool proving) {
  if (proving && !driver->in_proving) {
    TAILQ_INSERT_TAIL(&driver->world->proving, driver, proving_link);
  } else if (!proving && driver->in_proving) {
    TAILQ_REMOVE(&driver->world->proving, driver, proving_link);
  }
  driver->in_proving = proving;
}

/* Keeps the lists and the timer in step with the entry, before its actions are
 * carried out: a proof that it asks for may read its own key. */
static void note_state(el_entry_driver *driver) {
  const el_entry *entry = &driver->entry;
  bool proving = entry->state == EL_ENTRY_PROVING;
  note_proving(driver, proving || entry->state == EL_ENTRY_CONFIRMING);
  if (proving || entry->state == EL_ENTRY_HELD) {
    driver->proof_key.rev = entry->rev;
    el_prober_add(el_session_driver_prober(driver->world->session),
                  &driver->proof_key);
  } else {
    el_prober_remove(el_session_driver_prober(driver->world->session),
                     &driver->proof_key);
  }
  if (entry->wake_at != 0) {
    el_timers_set(driver->world->timers, &driver->timer, entry->wake_at);
  } else {
    el_timers_stop(driver->world->timers, &driver->timer);
  }
}

/* Has the key changed after the entry knew it and before it took its watch from the
 * cache? */
static bool has_missed(const el_entry_driver *driver) {
  const el_entry *entry = &driver->entry;
  return entry->state == EL_ENTRY_WAITING && entry->watching &&
         all_created_rev(driver) > entry->watch_rev;
}

static void take(el_entry_driver *driver, const el_entry_event *event) {
  el_entry_actions actions;
  el_entry_event known = *event;
  int64_t now_ms = el_now_ms();
  known.proven_rev =
      el_session_driver_proven_rev(driver->world->session, now_ms);
  el_entry_step(&driver->entry, &known, now_ms, &actions);
  note_state(driver);
  for (int i = 0; i < actions.n; i++) {
    carry_out(driver, &actions.list[i]);
  }
}

/* Takes back what nobody wants any more and what hasn't left: it would put a key
 * for nobody, or ask with a lease that is dead. True if there was something. */
static bool withdraw(el_entry_driver *driver) {
  el_sent *sent = driver->sent;
  el_entry_state state = driver->entry.state;
  bool is_vain =
      state == EL_ENTRY_DEAD || (state == EL_ENTRY_RELEASING && sent != NULL &&
                                 sent->action.request != EL_REQUEST_DELETE);
  if (!is_vain || sent == NULL ||
      !el_requests_withdraw(driver->world->requests, &sent->request)) {
    return false;
  }
  driver->sent = NULL;
  free(sent);
  return true;
}

static void step(el_entry_driver *driver, const el_entry_event *event) {
  static const el_entry_event withdrawn = {
      .kind = EL_ENTRY_ANSWER,
      .outcome = {.is_definite = true, .is_retriable = true}};
  take(driver, event);
  while (withdraw(driver)) {
    take(driver, &withdrawn);
  }
  if (has_missed(driver)) {
    take(driver, &(el_entry_event){.kind = EL_ENTRY_WATCH_CREATED,
                                   .rev = all_created_rev(driver)});
  }
  driver->events->stepped(driver); /* which may be its end */
}

void el_entry_driver_signal(el_entry_driver *driver, int kind) {
  el_entry_event event = {0};
  event.kind = kind;
  step(driver, &event);
}

void el_entry_driver_start(el_entry_driver *driver, bool try_once,
                           el_bytes value) {
  driver->value = value;
  driver->waited = driver->awaited = driver->hindrant = false;
  if (driver->sent != NULL) { /* a look that nobody was waiting for */
    el_requests_hurry(driver->world->requests, &driver->sent->request);
  }
  el_entry_driver_signal(driver, try_once ? EL_ENTRY_TRY : EL_ENTRY_START);
}

void el_entry_driver_hurry(el_entry_driver *driver) {
  driver->hindrant = true;
  if (driver->sent != NULL) {
    el_requests_hurry(driver->world->requests, &driver->sent->request);
  }
}

void el_entry_driver_orphan(el_entry_driver *driver, el_session_end end) {
  el_entry_event dead = {.kind = EL_ENTRY_SESSION_DEAD, .end = end};
  step(driver, &dead);
}

static void on_timer(el_timer *timer) {
  el_entry_driver_signal(EL_CONTAINER_OF(timer, el_entry_driver, timer),
                         EL_ENTRY_TIMER);
}

void el_entry_driver_key_gone(el_entry_driver *driver, int64_t rev,
                              bool detached) {
  el_entry_event event = {
      .kind = EL_ENTRY_KEY_GONE, .rev = rev, .detached = detached};
  step(driver, &event);
}

static void on_key_gone(el_proof_key *key, bool detached) {
  el_entry_driver_key_gone(EL_CONTAINER_OF(key, el_entry_driver, proof_key),
                           key->rev, detached);
}

void el_entry_world_settle_proving(el_entry_world *world) {
  int kind = el_session_driver_can_claim(world->session) ? EL_ENTRY_CLAIMED
                                                         : EL_ENTRY_UNPROVEN;
  int64_t renewed_ms = el_session_driver_renewed_ms(world->session);
  el_entry_driver *driver, *next;
  for (driver = TAILQ_FIRST(&world->proving); driver != NULL; driver = next) {
    next = TAILQ_NEXT(driver, proving_link);
    if (driver->entry.state == EL_ENTRY_PROVING) {
      el_entry_driver_signal(driver, kind);
    } else if (renewed_ms >= driver->entry.confirm_ms) {
      el_entry_driver_signal(driver, EL_ENTRY_RENEWED);
    }
  }
}

/* ---- life ---- */

void el_entry_driver_init(el_entry_driver *driver, el_entry_world *world,
                          el_bytes name, const el_place *place) {
  el_place own = *place;
  own.lease = el_session_driver_lease(world->session);
  driver->world = world;
  driver->slot = own.slot;
  el_entry_init(&driver->entry, own.mode,
                el_session_driver_session(world->session));
  el_keys_init(&driver->keys, name, &own);
  driver->timer.on_due = on_timer;
  driver->proof_key.gone = on_key_gone;
  driver->proof_key.keys = &driver->keys;
}

void el_entry_driver_destroy(el_entry_driver *driver) {
  el_timers_stop(driver->world->timers, &driver->timer);
  stop_watch(driver);
  note_proving(driver, false);
  el_prober_remove(el_session_driver_prober(driver->world->session),
                   &driver->proof_key);
  el_keys_destroy(&driver->keys);
  free(driver->cause);
}

size_t el_entry_driver_watch_size(void) { return sizeof(el_key_watch); }
