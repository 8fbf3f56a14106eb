/* local_queues: the local queues of one client, with their entries, sessions and timers. */
#include "lock/local_queues.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/hash.h"
#include "lock/contenders.h"
#include "lock/lock_messages.h"
#include "lock/slots.h"

typedef struct el_queue_driver queue_driver;

/* What a key that may linger needs. */
typedef struct linger {
  el_contenders *contenders;
  el_timer timer;
  struct place *place;
} linger;

/* One of our entries in etcd's queue, in one session. */
typedef struct place {
  el_entry_driver driver; /* first */
  el_local_place local;
  queue_driver *queue;
  el_census *census; /* who is behind it; NULL: that is not asked */
  linger *linger;    /* from WATCH to UNWATCH, else NULL */
} place;

struct el_queue_driver {
  el_local_queue local;
  el_local_queues *queues;
  el_entry_world *world;
  uint16_t name_len; /* EL_MODE_MULTI: 0, or that of what an audit has found */
  bool changed : 1;  /* in queues->changed */
  bool
      is_held_back : 1; /* its first owner, a try, waits for the end of a key of another queue */
  bool uncertain : 1; /* an entry had a request that may be carried out yet */
  TAILQ_ENTRY(el_queue_driver) changed_link;
  UT_hash_handle hh;
  char id[]; /* hash key: the name, and what write_id adds to it */
};

struct el_local_queues {
  el_sessions *sessions;
  el_entry_world *world; /* of the usual session, first of all */
  el_turn_limits limits;
  el_entry_events place_events;
  queue_driver *by_id; /* hash */
  TAILQ_HEAD(, el_queue_driver) changed;
  /* The queues of multi-locks and semaphores, in no order: those that conflict with
   * another queue can't be found by an id. */
  queue_driver **listed;
  size_t n_listed, listed_room;
  int n_held_back;          /* queues that are held back */
  el_local_actions actions; /* still to be carried out */
  bool is_acting;
  el_error closed;       /* code EL_OK: they are open */
  el_slots slots;        /* of multi-locks */
  queue_driver *orphans; /* has the places of sessions that are over */
};

static el_waiter *owner_of(el_local_owner *local) {
  return EL_CONTAINER_OF(local, el_waiter, local);
}

static place *place_of(el_local_place *local) {
  return local != NULL ? EL_CONTAINER_OF(local, place, local) : NULL;
}

static place *first_place(const queue_driver *queue) {
  return place_of(TAILQ_FIRST(&queue->local.places));
}

static place *next_place(const place *at) {
  return place_of(TAILQ_NEXT(&at->local, link));
}

static el_mode mode_of(const queue_driver *queue) {
  return (el_mode)queue->local.mode;
}

static el_timers *timers_of(const queue_driver *queue) {
  return queue->queues->world->timers;
}

static el_counters *counters_of(const queue_driver *queue) {
  return queue->queues->world->counters;
}

/* Is its session over? */
static bool is_orphan(const place *at) {
  return at->queue == at->queue->queues->orphans;
}

static void touch(queue_driver *queue) {
  if (!queue->changed) {
    queue->changed = true;
    TAILQ_INSERT_TAIL(&queue->queues->changed, queue, changed_link);
  }
}

/* ---- which queue ---- */

enum { ID_MAX = EL_NAME_MAX + 1 + 2 * sizeof(uint32_t) };

/* Writes what tells the queue of |name| and |where| from others; returns its length. A
 * multi-lock has a queue, and a slot, of its own. */
static size_t write_id(char *id, const el_entry_world *world, el_bytes name,
                       const el_place *where) {
  uint32_t which = where->mode == EL_MODE_MULTI ? where->slot : where->permits;
  uint32_t delay = (uint32_t)world->lock_delay_ms;
  if (name.len > 0) memcpy(id, name.data, name.len);
  id[name.len] = (char)where->mode;
  memcpy(id + name.len + 1, &which, sizeof which);
  memcpy(id + name.len + 1 + sizeof which, &delay, sizeof delay);
  return name.len + 1 + sizeof which + sizeof delay;
}

static queue_driver *find_id(const el_local_queues *queues, const char *id,
                             size_t len) {
  queue_driver *queue = NULL;
  HASH_FIND(hh, queues->by_id, id, len, queue);
  return queue;
}

/* NULL: there is none. EL_MODE_MULTI: that of the slot, |name| is empty. */
static queue_driver *find(const el_local_queues *queues,
                          const el_entry_world *world, el_bytes name,
                          const el_place *where) {
  char id[ID_MAX];
  return find_id(queues, id, write_id(id, world, name, where));
}

static bool is_listed(const queue_driver *queue) {
  return mode_of(queue) == EL_MODE_MULTI || mode_of(queue) == EL_MODE_PERMIT;
}

static void list_queue(queue_driver *queue) {
  el_local_queues *queues = queue->queues;
  if (queues->n_listed == queues->listed_room) {
    queues->listed_room = queues->listed_room > 0 ? 2 * queues->listed_room : 8;
    queues->listed = el_realloc(queues->listed,
                                queues->listed_room * sizeof *queues->listed);
  }
  queues->listed[queues->n_listed++] = queue;
}

static void unlist_queue(queue_driver *queue) {
  el_local_queues *queues = queue->queues;
  for (size_t i = 0; i < queues->n_listed; i++) {
    if (queues->listed[i] == queue) {
      queues->listed[i] = queues->listed[--queues->n_listed];
      return;
    }
  }
}

static queue_driver *find_or_add(el_local_queues *queues, el_entry_world *world,
                                 el_bytes name, const el_place *where) {
  char id[ID_MAX];
  size_t len = write_id(id, world, name, where);
  queue_driver *queue = find_id(queues, id, len);
  if (queue == NULL) {
    queue = el_alloc(sizeof *queue + len);
    el_local_queue_init(&queue->local, where->mode, where->permits);
    queue->queues = queues;
    queue->world = world;
    world->users++;
    memcpy(queue->id, id, len);
    queue->name_len = (uint16_t)name.len;
    HASH_ADD_KEYPTR(hh, queues->by_id, queue->id, len, queue);
    if (is_listed(queue)) list_queue(queue);
  }
  return queue;
}

/* The slot of its first place: that of a multi-lock is nobody else's. */
static uint32_t first_slot(const queue_driver *queue) {
  uint32_t slot = 0;
  if (mode_of(queue) == EL_MODE_MULTI) {
    memcpy(&slot, queue->id + queue->name_len + 1, sizeof slot);
  }
  return slot;
}

/* Was it made for a multi-lock, and not for a key that an audit has found? */
static bool has_slot(const queue_driver *queue) {
  return mode_of(queue) == EL_MODE_MULTI && queue->name_len == 0;
}

static void free_place(place *at);

static void hold_back(queue_driver *queue, bool is_held_back) {
  queue->queues->n_held_back += is_held_back - queue->is_held_back;
  queue->is_held_back = is_held_back;
}

/* With its places; no owner may be in it. */
static void free_queue(queue_driver *queue) {
  place *at;
  while ((at = first_place(queue)) != NULL) {
    free_place(at);
  }
  if (has_slot(queue) && !queue->uncertain) {
    el_slots_give_back(&queue->queues->slots, first_slot(queue));
  }
  if (is_listed(queue)) unlist_queue(queue);
  hold_back(queue, false);
  if (queue->changed) {
    TAILQ_REMOVE(&queue->queues->changed, queue, changed_link);
  }
  queue->world->users--;
  HASH_DEL(queue->queues->by_id, queue);
  free(queue);
}

/* ---- the other queues of a name ---- */

typedef bool visitor(queue_driver *queue);

static bool visit_name(const el_local_queues *queues, const el_waiter *owner,
                       el_bytes name, visitor *visit) {
  const el_entry_world *world = queues->world;
  for (; world != NULL; world = world->next) {
    for (el_mode other = EL_MODE_LOCK; other < EL_MODE_PERMIT; other++) {
      el_place where = {.mode = other};
      queue_driver *queue = el_kind_is_in_way(other, (el_mode)owner->mode)
                                ? find(queues, world, name, &where)
                                : NULL;
      if (queue != NULL && queue != owner->queue && visit(queue)) return true;
    }
  }
  return false;
}

static bool list_has(el_bytes names, el_bytes name) {
  while (names.len > 0) {
    if (el_bytes_are_equal(el_list_cut(&names), name)) return true;
  }
  return false;
}

/* Does |multi|, the queue of a multi-lock, have a name of |names|? */
static bool shares_name(const queue_driver *multi, el_bytes names) {
  const place *at = first_place(multi);
  const el_local_owner *first = TAILQ_FIRST(&multi->local.waiting);
  const el_keys *keys = at != NULL ? &at->driver.keys : NULL;
  el_bytes wanted = keys == NULL && first != NULL
                        ? EL_CONTAINER_OF(first, const el_waiter, local)->name
                        : (el_bytes){0};
  for (; keys != NULL; keys = keys->next) {
    if (list_has(names, el_keys_name(keys))) return true;
  }
  while (wanted.len > 0) {
    if (list_has(names, el_list_cut(&wanted))) return true;
  }
  return false;
}

static bool visit_multis(const el_local_queues *queues, const el_waiter *owner,
                         visitor *visit) {
  for (size_t i = 0; i < queues->n_listed; i++) {
    queue_driver *queue = queues->listed[i];
    if (mode_of(queue) == EL_MODE_MULTI && queue != owner->queue &&
        shares_name(queue, owner->name) && visit(queue)) {
      return true;
    }
  }
  return false;
}

/* A semaphore has one local queue for each number of permits that callers name. */
static bool visit_permits(const el_local_queues *queues, const el_waiter *owner,
                          visitor *visit) {
  for (size_t i = 0; i < queues->n_listed; i++) {
    queue_driver *queue = queues->listed[i];
    if (mode_of(queue) == EL_MODE_PERMIT && queue != owner->queue &&
        el_bytes_are_equal((el_bytes){queue->id, queue->name_len},
                           owner->name) &&
        visit(queue)) {
      return true;
    }
  }
  return false;
}

/* Calls |visit| for each other queue that conflicts with what |owner| wants, until it returns
 * true; then that is returned. */
static bool visit_conflicting(const el_local_queues *queues,
                              const el_waiter *owner, visitor *visit) {
  el_bytes names = owner->name;
  if (owner->mode == EL_MODE_PERMIT) {
    return visit_permits(queues, owner, visit);
  }
  while (names.len > 0) {
    if (visit_name(queues, owner, el_list_cut(&names), visit)) return true;
  }
  return visit_multis(queues, owner, visit);
}

static bool is_wanting(queue_driver *queue) {
  return el_local_queue_is_wanting(&queue->local);
}

static bool is_leaving(queue_driver *queue) {
  return el_local_queue_is_leaving(&queue->local);
}

/* Must the first owner that waits, if it is a try, wait for the end of a key of ours? */
static bool is_held_back(queue_driver *queue, const el_waiter *first) {
  bool is_so = first != NULL &&
               (first->local.try_once || first->local.must_share) &&
               visit_conflicting(queue->queues, first, is_leaving);
  hold_back(queue, is_so);
  return is_so;
}

/* ---- steps ---- */

static void carry_out(const el_local_action *action);

/* The first owner that waits in |queue|, or is about to. */
static const el_waiter *first_waiting(const queue_driver *queue,
                                      const el_local_event *event) {
  el_local_owner *first = TAILQ_FIRST(&queue->local.waiting);
  if (first == NULL && event->kind == EL_LOCAL_JOIN) first = event->owner;
  return first != NULL ? owner_of(first) : NULL;
}

/* Does an owner that leaves, and whose key may linger, conflict with one that waits? */
static bool is_wanted_elsewhere(const el_local_queues *queues,
                                const el_local_event *event) {
  return event->kind == EL_LOCAL_LEAVE && event->owner->linger_ms > 0 &&
         visit_conflicting(queues, owner_of(event->owner), is_wanting);
}

/* What the actions bring about may be events of queues again: their actions follow. */
static void step(queue_driver *queue, const el_local_event *event) {
  el_local_queues *queues = queue->queues;
  el_local_actions *actions = &queues->actions;
  el_local_now now = {.ms = el_now_ms(), .limits = &queues->limits};
  if (queue->world != NULL) {
    now.is_alive = queues->closed.code == EL_OK &&
                   el_session_driver_is_alive(queue->world->session);
    now.can_claim = el_session_driver_can_claim(queue->world->session);
    now.is_wanted_elsewhere = is_wanted_elsewhere(queues, event);
    now.is_leaving_elsewhere = is_held_back(queue, first_waiting(queue, event));
  }
  el_local_queue_step(&queue->local, event, &now, actions);
  if (queues->is_acting) return;
  queues->is_acting = true;
  for (size_t i = 0; i < actions->n; i++) {
    el_local_action action = actions->list[i];
    carry_out(&action);
  }
  actions->n = 0;
  queues->is_acting = false;
}

static void step_kind(queue_driver *queue, int kind) {
  el_local_event event = {0};
  event.kind = kind;
  step(queue, &event);
}

static void step_place(place *at, int kind) {
  el_local_event event = {.place = &at->local};
  event.kind = kind;
  step(at->queue, &event);
}

/* ---- places ---- */

/* Tries that were held back look again. */
static void let_try(el_local_queues *queues) {
  queue_driver *queue, *next;
  if (queues->n_held_back == 0) return;
  HASH_ITER(hh, queues->by_id, queue, next) {
    if (queue->is_held_back) touch(queue);
  }
}

static void stepped(el_entry_driver *driver) {
  place *at = EL_CONTAINER_OF(driver, place, driver);
  let_try(at->queue->queues);
  if (!is_orphan(at)) {
    touch(at->queue);
  } else if (el_entry_is_over(&driver->entry)) {
    free_place(at);
  }
}

/* Owners whose entry waited for another client have waited, too. */
static void note_waited(place *at) {
  el_local_owner *owner;
  TAILQ_FOREACH(owner, &at->local.owners, link) {
    owner->waited = owner->waited || at->driver.waited;
  }
}

static void decided(el_entry_driver *driver, const el_entry_action *action) {
  place *at = EL_CONTAINER_OF(driver, place, driver);
  el_local_event event = {
      .kind = EL_LOCAL_VERDICT, .place = &at->local, .verdict = action};
  if (action->kind == EL_ENTRY_GRANTED) note_waited(at);
  step(at->queue, &event);
}

static place *new_place(queue_driver *queue, el_bytes name, uint32_t slot) {
  el_place where = {
      .slot = slot, .mode = mode_of(queue), .permits = queue->local.permits};
  place *at = el_alloc(sizeof *at);
  at->driver.events = &queue->queues->place_events;
  at->queue = queue;
  el_entry_driver_init(&at->driver, queue->world, name, &where);
  el_local_queue_add(&queue->local, &at->local, &at->driver.entry);
  return at;
}

static void free_linger(place *at) {
  if (at->linger == NULL) return;
  el_contenders_free(at->linger->contenders);
  el_timers_stop(timers_of(at->queue), &at->linger->timer);
  free(at->linger);
  at->linger = NULL;
}

/* Nothing of it may be left in etcd, and it has no owner. */
static void free_place(place *at) {
  at->queue->uncertain =
      at->queue->uncertain || !el_entry_is_certain(&at->driver.entry);
  at->local.is_lingering = false; /* where the client stops */
  el_local_queue_remove(&at->queue->local, &at->local);
  at->driver.world->users -= is_orphan(at);
  free_linger(at);
  el_census_forget(at->census);
  el_entry_driver_destroy(&at->driver);
  free(at);
}

/* A number that no place of |queue| has. */
static uint32_t unused_slot(const queue_driver *queue) {
  uint32_t slot = first_slot(queue);
  for (const place *at = first_place(queue); at != NULL; at = next_place(at)) {
    if (at->driver.slot >= slot) slot = at->driver.slot + 1;
  }
  return slot;
}

/* ---- what stands in the way ---- */

/* What stood in the way of |owner| last, which has, or had, |at|; NULL: nothing. */
static const el_error *last_cause(const queue_driver *queue, const place *at) {
  const el_entry_world *world = queue->queues->world;
  const el_error *cause;
  if (at != NULL && at->driver.cause != NULL) return at->driver.cause;
  cause = el_session_driver_cause(queue->world->session);
  return cause != NULL ? cause : el_requests_away(world->requests);
}

/* The place that |owner| has, or else the one that it waits for; NULL: none. */
static place *awaited_place(const el_waiter *owner) {
  return owner->local.place != NULL ? place_of(owner->local.place)
                                    : first_place(owner->queue);
}

/* Does another owner of this client hold what |owner| waits for? Readers share. */
static bool is_held_here(const el_waiter *owner, const place *at) {
  const el_local_owner *first =
      at != NULL ? TAILQ_FIRST(&at->local.owners) : NULL;
  return owner->mode != EL_MODE_READ && first != NULL &&
         first->state == EL_OWNER_HOLDING;
}

/* Has etcd answered in all the time that |owner| has waited? Nothing is asked while
 * our place in its queue is known. */
static bool has_answered(const el_waiter *owner, const place *at) {
  int64_t since_ms = owner->deadline_ms == INT64_MAX
                         ? 0
                         : owner->deadline_ms - owner->timeout_ms;
  const el_entry *entry = at != NULL ? &at->driver.entry : NULL;
  return (entry != NULL && entry->state == EL_ENTRY_WAITING &&
          entry->ahead.rev != 0) ||
         el_requests_heard_since(owner->queue->queues->world->requests,
                                 since_ms);
}

/* How many entries of |queue| are taken, as far as this client knows: by an owner that
 * holds, by one that waits for another client, or by a lost hold with a lock delay. */
static unsigned count_known_taken(const queue_driver *queue) {
  unsigned n = 0;
  for (const place *at = first_place(queue); at != NULL; at = next_place(at)) {
    el_entry_state state = at->driver.entry.state;
    n += state == EL_ENTRY_LOCK_DELAY ||
         (!TAILQ_EMPTY(&at->local.owners) &&
          (state == EL_ENTRY_HELD || state == EL_ENTRY_WAITING));
  }
  return n;
}

/* Why nobody knows whether a try that found others before it here could have the lock: they
 * have no answer either. NULL: the lock is taken. */
static const el_error *cause_of_doubt(const queue_driver *queue) {
  unsigned most = mode_of(queue) == EL_MODE_PERMIT ? queue->local.permits : 1;
  return count_known_taken(queue) >= most ? NULL : last_cause(queue, NULL);
}

/* A try whose time is over has no answer of its own, whatever others were told. */
static void explain_timeout(const el_waiter *owner, int64_t waited_ms,
                            el_error *err) {
  const place *at = awaited_place(owner);
  bool is_held = !owner->local.try_once && is_held_here(owner, at);
  const el_error *cause = is_held ? NULL : last_cause(owner->queue, at);
  bool is_answered =
      !owner->local.try_once && (is_held || has_answered(owner, at));
  const char *address =
      el_requests_address(owner->queue->queues->world->requests);
  el_lock_message_timeout(owner, waited_ms, cause, is_answered ? NULL : address,
                          err);
}

/* ---- time ---- */

static bool waits_for_contact(const el_waiter *owner) {
  const el_local_queues *queues = owner->queue->queues;
  return owner->deadline_ms == INT64_MAX &&
         !el_requests_have_contact(queues->world->requests);
}

static void set_deadline(el_waiter *owner) {
  int64_t at_ms = waits_for_contact(owner) ? el_now_ms() + EL_FIRST_CONTACT_MS
                                           : owner->deadline_ms;
  if (at_ms != INT64_MAX) {
    el_timers_set(timers_of(owner->queue), &owner->timer, at_ms);
  }
}

static void set_hard_end(el_waiter *owner) {
  int64_t end_ms = owner->events->max_hold_end(owner);
  if (end_ms != INT64_MAX) {
    el_timers_set(timers_of(owner->queue), &owner->timer, end_ms);
  } else {
    el_timers_stop(timers_of(owner->queue), &owner->timer);
  }
}

static void stop_wait(el_waiter *owner, const el_error *err) {
  el_local_event leave = {.kind = EL_LOCAL_LEAVE,
                          .owner = &owner->local,
                          .how = EL_LEAVE_BY_ITSELF,
                          .err = err};
  step(owner->queue, &leave);
}

/* A wait without a time limit lasts through an outage; but if etcd was never reached, its
 * address may be wrong. */
static void on_deadline(el_waiter *owner) {
  bool endless = owner->deadline_ms == INT64_MAX;
  el_error err;
  if (endless && !waits_for_contact(owner)) return; /* it has come meanwhile */
  explain_timeout(owner, endless ? EL_FIRST_CONTACT_MS : owner->timeout_ms,
                  &err);
  stop_wait(owner, &err);
}

static void on_timer(el_timer *timer) {
  el_waiter *owner = EL_CONTAINER_OF(timer, el_waiter, timer);
  el_local_event end = {.kind = EL_LOCAL_MAX_HOLD, .owner = &owner->local};
  if (!el_waiter_is_holding(owner)) {
    on_deadline(owner);
  } else if (el_now_ms() < owner->events->max_hold_end(owner)) {
    set_hard_end(owner); /* it was moved this very moment */
  } else {
    step(owner->queue, &end);
  }
}

/* ---- what is done ---- */

/* What an enqueue puts is its first owner's. */
static void set_value(place *at) {
  el_local_owner *first = TAILQ_FIRST(&at->local.owners);
  at->driver.value = first != NULL && first->state == EL_OWNER_ENQUEUED
                         ? owner_of(first)->value
                         : (el_bytes){0};
}

static void forget(el_waiter *owner) { owner->events->done(owner); }

static void add_place(queue_driver *queue) {
  el_local_owner *first = TAILQ_FIRST(&queue->local.waiting);
  if (first == NULL) return;
  new_place(queue, owner_of(first)->name, unused_slot(queue));
  step_kind(queue, EL_LOCAL_SETTLE);
}

static void signal_entry(place *at, int signal) {
  if (at->local.releasing != NULL) at->driver.awaited = true;
  el_entry_driver_signal(&at->driver, signal);
}

/* The claim is the session's, not the lock's: one renewal prolongs all its holds,
 * and the end of the session ends them all without a visit to each. */
static void grant(el_waiter *owner, place *at, int64_t mod_rev) {
  queue_driver *queue = owner->queue;
  el_grant what = {.token = at->driver.entry.rev,
                   .mod_rev = mod_rev,
                   .keys = &at->driver.keys,
                   .deadline = el_session_driver_claim(queue->world->session)};
  EL_COUNT(counters_of(queue), waiting, -1);
  EL_COUNT(counters_of(queue), held, 1);
  EL_COUNT(counters_of(queue), acquired, 1);
  owner->events->granted(owner, &what);
  set_value(at);
  set_hard_end(owner);
}

static void explain_failure(const el_waiter *owner,
                            const el_local_action *action, el_error *err) {
  const place *at = place_of(action->place);
  const el_error *doubt;
  switch (action->why) {
    case EL_FAILED_LOCKED_HERE:
      doubt = cause_of_doubt(owner->queue);
      if (doubt != NULL) {
        el_lock_message_away(owner, doubt, err);
      } else {
        el_lock_message_locked(owner, err);
      }
      return;
    case EL_FAILED_LOCKED:
      el_lock_message_locked(owner, err);
      return;
    case EL_FAILED_REFUSED:
      el_lock_message_refused(owner, last_cause(owner->queue, at), err);
      return;
    case EL_FAILED_PLACE_LOST:
      el_lock_message_place_lost(owner, err);
      return;
  }
}

static void fail(el_waiter *owner, const el_local_action *action) {
  const el_error *given = action->err;
  el_error err;
  if (given == NULL) {
    explain_failure(owner, action, &err);
  } else {
    err = *given;
  }
  EL_COUNT(counters_of(owner->queue), waiting, -1);
  el_timers_stop(timers_of(owner->queue), &owner->timer);
  if (action->place != NULL) set_value(place_of(action->place));
  owner->events->failed(owner, &err);
  forget(owner);
}

/* Counted first: an owner that is told of the loss finds it counted in `stats`. */
static void lose(el_waiter *owner, el_loss loss) {
  el_error err;
  EL_COUNT(counters_of(owner->queue), held, -1);
  el_timers_stop(timers_of(owner->queue), &owner->timer);
  el_lock_message_lost(owner, loss, &err);
  owner->events->lost(owner, loss);
  owner->events->released(owner, &err);
  forget(owner);
}

static void explain_gone(const el_local_queues *queues, const el_waiter *owner,
                         el_error *err) {
  const el_error *wrong = el_requests_wrong_cluster(queues->world->requests);
  if (queues->closed.code != EL_OK) {
    el_lock_message_unconfirmed(owner, err); /* our lease took it along */
  } else if (wrong != NULL) {
    *err = *wrong;
    err->code = EL_LOST;
  } else {
    el_lock_message_gone(owner, err);
  }
}

/* A release that is refused (rights were taken away) is told, once, as what it is;
 * the entry goes on trying, and at the latest the lease takes the key along. */
static void end_release(el_waiter *owner, const el_local_action *action) {
  el_error err = {.code = EL_OK};
  if (action->release == EL_RELEASE_GONE) {
    explain_gone(place_of(action->place)->queue->queues, owner, &err);
  } else if (action->release == EL_RELEASE_REFUSED) {
    err = *place_of(action->place)->driver.cause;
  }
  owner->events->released(owner, &err);
  forget(owner);
}

static void on_looked(void *arg, el_behind behind) {
  place *at = arg;
  el_local_event event = {
      .kind = EL_LOCAL_BEHIND, .place = &at->local, .behind = behind};
  at->census = NULL;
  step(at->queue, &event);
}

static void look(place *at) {
  el_census_forget(at->census);
  at->census = el_census_take(&at->driver, on_looked, at);
}

static void on_contender(void *arg) { step_place(arg, EL_LOCAL_CONTENDER); }

static void on_linger_timer(el_timer *timer) {
  step_place(EL_CONTAINER_OF(timer, linger, timer)->place, EL_LOCAL_TIMER);
}

static void watch(place *at) {
  at->linger = el_alloc(sizeof *at->linger);
  at->linger->place = at;
  at->linger->timer.on_due = on_linger_timer;
  at->linger->contenders = el_contenders_watch(&at->driver, on_contender, at);
}

static void set_timer(place *at, int64_t at_ms) {
  if (at_ms != 0) {
    el_timers_set(timers_of(at->queue), &at->linger->timer, at_ms);
  } else {
    el_timers_stop(timers_of(at->queue), &at->linger->timer);
  }
}

static void start(place *at, const el_local_action *action) {
  el_entry_driver_start(&at->driver, action->try_once,
                        owner_of(action->owner)->value);
}

static void carry_out(const el_local_action *action) {
  place *at = place_of(action->place);
  switch (action->kind) {
    case EL_LOCAL_ADD:
      add_place(EL_CONTAINER_OF(action->queue, queue_driver, local));
      return;
    case EL_LOCAL_START:
      start(at, action);
      return;
    case EL_LOCAL_SIGNAL:
      signal_entry(at, action->signal);
      return;
    case EL_LOCAL_GRANTED:
      grant(owner_of(action->owner), at, action->mod_rev);
      return;
    case EL_LOCAL_FAILED:
      fail(owner_of(action->owner), action);
      return;
    case EL_LOCAL_LOST:
      lose(owner_of(action->owner), action->loss);
      return;
    case EL_LOCAL_RELEASED:
      end_release(owner_of(action->owner), action);
      return;
    case EL_LOCAL_LOOK:
      look(at);
      return;
    case EL_LOCAL_WATCH:
      watch(at);
      return;
    case EL_LOCAL_UNWATCH:
      free_linger(at);
      return;
    case EL_LOCAL_SET_TIMER:
      set_timer(at, action->at_ms);
      return;
  }
}

/* ---- owners ---- */

/* A queue for a multi-lock: its own, with a slot that nobody has. */
static queue_driver *add_multi(el_local_queues *queues, el_entry_world *world) {
  el_place where = {.slot = el_slots_take(&queues->slots),
                    .mode = EL_MODE_MULTI};
  return find_or_add(queues, world, (el_bytes){0}, &where);
}

static queue_driver *queue_for(el_local_queues *queues, el_entry_world *world,
                               const el_waiter *owner) {
  el_place where = {.mode = owner->mode, .permits = owner->permits};
  return owner->mode == EL_MODE_MULTI
             ? add_multi(queues, world)
             : find_or_add(queues, world, owner->name, &where);
}

static bool contend(queue_driver *queue) {
  step_kind(queue, EL_LOCAL_CONTENDER);
  return false;
}

/* Why nobody can join any more; false: everybody can. */
static bool is_refused(const el_local_queues *queues, const el_waiter *owner,
                       const el_entry_world *world, int64_t lock_delay_ms,
                       el_error *err) {
  const el_error *wrong = el_requests_wrong_cluster(queues->world->requests);
  if (queues->closed.code != EL_OK) {
    *err = queues->closed;
  } else if (wrong != NULL) {
    *err = *wrong;
  } else if (world == NULL) {
    el_lock_message_lock_delays(owner, lock_delay_ms, EL_LOCK_DELAYS_MAX, err);
  } else {
    return false;
  }
  return true;
}

void el_waiter_join(el_waiter *owner, el_local_queues *queues,
                    int64_t lock_delay_ms) {
  el_local_event join = {.kind = EL_LOCAL_JOIN, .owner = &owner->local};
  el_entry_world *world =
      queues->closed.code == EL_OK
          ? el_sessions_find(queues->sessions, lock_delay_ms)
          : queues->world;
  el_error err;
  if (is_refused(queues, owner, world, lock_delay_ms, &err)) {
    owner->events->failed(owner, &err);
    forget(owner);
    return;
  }
  EL_COUNT(queues->world->counters, waiting, 1);
  owner->timer.on_due = on_timer;
  owner->queue = queue_for(queues, world, owner);
  visit_conflicting(queues, owner, contend);
  touch(owner->queue);
  set_deadline(owner); /* it may be granted, or fail, at once */
  step(owner->queue, &join);
}

/* A hold counts as released when that begins. */
void el_waiter_leave(el_waiter *owner, el_leave how, el_loss loss) {
  el_local_event leave = {
      .kind = EL_LOCAL_LEAVE, .owner = &owner->local, .how = how, .loss = loss};
  el_error err;
  if (owner->local.state == EL_OWNER_OUT ||
      owner->local.state == EL_OWNER_RELEASING) {
    return;
  }
  if (el_waiter_is_holding(owner)) {
    leave.mod_rev = owner->events->mod_rev(owner);
    el_timers_stop(timers_of(owner->queue), &owner->timer);
    if (how != EL_LEAVE_LOST) EL_COUNT(counters_of(owner->queue), held, -1);
  } else {
    el_lock_message_cancelled(owner, &err);
    leave.err = &err;
  }
  touch(owner->queue);
  step(owner->queue, &leave);
}

bool el_waiter_is_holding(const el_waiter *owner) {
  return owner->local.state == EL_OWNER_HOLDING;
}

void el_waiter_move_max_hold_end(el_waiter *owner) {
  if (el_waiter_is_holding(owner)) set_hard_end(owner);
}

void el_waiter_downgrade(el_waiter *owner) {
  el_local_event downgrade = {.kind = EL_LOCAL_DOWNGRADE,
                              .owner = &owner->local};
  if (el_waiter_is_holding(owner)) step(owner->queue, &downgrade);
}

void el_waiter_key_gone(el_waiter *owner, int64_t rev, bool detached) {
  if (el_waiter_is_holding(owner)) {
    el_entry_driver_key_gone(&place_of(owner->local.place)->driver, rev,
                             detached);
  }
}

/* ---- settle ---- */

/* A key that is still to be deleted stands in the way of whoever waits. */
static void hurry(const queue_driver *queue) {
  if (TAILQ_EMPTY(&queue->local.waiting)) return;
  for (place *at = first_place(queue); at != NULL; at = next_place(at)) {
    if (TAILQ_EMPTY(&at->local.owners)) el_entry_driver_hurry(&at->driver);
  }
}

static void check(const queue_driver *queue) {
#ifndef NDEBUG
  el_local_now now = {.is_alive =
                          queue->queues->closed.code == EL_OK &&
                          el_session_driver_is_alive(queue->world->session),
                      .is_leaving_elsewhere = queue->is_held_back};
  assert(queue->queues->closed.code != EL_OK ||
         el_local_queue_check(&queue->local, &now) == NULL);
#else
  (void)queue;
#endif
}

/* The next one's turn, or the end of the queue. That comes only when nothing of
 * ours can be left in etcd: an entry has to outlive the last owner that wanted it, to delete
 * its key. */
static void settle(queue_driver *queue) {
  place *at, *next;
  bool is_wanted;
  step_kind(queue, EL_LOCAL_SETTLE);
  check(queue);
  is_wanted = !TAILQ_EMPTY(&queue->local.waiting);
  if (is_wanted && !el_session_driver_is_alive(queue->world->session) &&
      !el_local_queue_has_owners(&queue->local)) {
    queue->world->wanted = true;
  }
  hurry(queue);
  for (at = first_place(queue); at != NULL && !is_wanted; at = next) {
    next = next_place(at);
    if (el_local_place_is_idle(&at->local)) free_place(at);
  }
  if (!is_wanted && TAILQ_EMPTY(&queue->local.places)) free_queue(queue);
}

void el_local_queues_settle(el_local_queues *queues) {
  queue_driver *queue;
  while ((queue = TAILQ_FIRST(&queues->changed)) != NULL) {
    TAILQ_REMOVE(&queues->changed, queue, changed_link);
    queue->changed = false;
    settle(queue);
  }
}

bool el_local_queues_are_settled(const el_local_queues *queues) {
  return TAILQ_EMPTY(&queues->changed);
}

/* ---- what the news of a session mean to its queues ---- */

void el_local_queues_begin(el_local_queues *queues,
                           const el_entry_world *world) {
  queue_driver *queue, *next;
  HASH_ITER(hh, queues->by_id, queue, next) {
    if (queue->world == world) touch(queue);
  }
}

/* Gives |event| to the queues of |world|, or to all if that is NULL. */
static void step_all(el_local_queues *queues, const el_entry_world *world,
                     const el_local_event *event) {
  queue_driver *queue, *next;
  HASH_ITER(hh, queues->by_id, queue, next) {
    if (world != NULL && queue->world != world) continue;
    touch(queue);
    step(queue, event);
  }
}

void el_local_queues_refuse(el_local_queues *queues,
                            const el_entry_world *world, const el_error *err) {
  el_local_event refuse = {.kind = EL_LOCAL_REFUSE, .err = err};
  step_all(queues, world, &refuse);
}

void el_local_queues_fail_waiting(el_local_queues *queues,
                                  const el_error *away) {
  el_local_event fail = {.kind = EL_LOCAL_FAIL_WAITING, .err = away};
  step_all(queues, NULL, &fail);
}

void el_local_queues_lapse(el_local_queues *queues,
                           const el_entry_world *world) {
  queue_driver *queue, *next;
  place *at;
  HASH_ITER(hh, queues->by_id, queue, next) {
    if (queue->world != world) continue;
    for (at = first_place(queue); at != NULL; at = next_place(at)) {
      el_entry_driver_signal(&at->driver, EL_ENTRY_LAPSED);
    }
  }
}

/* That of a multi-lock, by a key in the queue of one of its names; NULL: none. */
static const queue_driver *find_multi(const el_local_queues *queues,
                                      const el_entry_world *world,
                                      const el_place *where) {
  return where->mode == EL_MODE_MULTI
             ? find(queues, world, (el_bytes){0}, where)
             : NULL;
}

/* Can no key of that multi-lock be there, unless its owner enqueues later? A member that is behind
 * lists keys that have gone since. */
static bool is_unused(const el_local_queues *queues, const queue_driver *multi,
                      const el_place *where) {
  if (where->mode != EL_MODE_MULTI) return false;
  if (multi == NULL) return el_slots_is_free(&queues->slots, where->slot);
  return first_place(multi) == NULL && !multi->uncertain;
}

static el_entry_world *world_of(const el_local_queues *queues, int64_t lease) {
  el_entry_world *world = queues->world;
  while (world != NULL && el_session_driver_lease(world->session) != lease) {
    world = world->next;
  }
  return world;
}

/* The name and the place of a |key| that |lease| has; empty: it is none of ours. No name
 * of ours has a NUL: many others' keys may. */
static el_bytes own_name(el_bytes key, int64_t lease, el_place *where) {
  el_bytes name = el_key_name(key, where);
  if (name.len == 0 || name.len > EL_NAME_MAX ||
      memchr(name.data, '\0', name.len) != NULL || where->is_timed ||
      !el_place_is_attached(where, lease) || where->mode > EL_MODE_MULTI) {
    return (el_bytes){0};
  }
  return name;
}

static place *find_or_add_place(el_local_queues *queues, el_entry_world *world,
                                el_bytes name, const el_place *where) {
  queue_driver *queue = find_or_add(queues, world, name, where);
  place *at = first_place(queue);
  while (at != NULL && at->driver.slot != where->slot) {
    at = next_place(at);
  }
  return at != NULL ? at : new_place(queue, name, where->slot);
}

void el_local_queues_find_key(el_local_queues *queues, int64_t lease,
                              el_bytes key) {
  el_entry_world *world = world_of(queues, lease);
  el_place where = {0};
  el_bytes name = own_name(key, lease, &where);
  const queue_driver *multi;
  place *at;
  if (name.len == 0) return;
  multi = find_multi(queues, world, &where);
  if (is_unused(queues, multi, &where)) return;
  at = multi != NULL ? first_place(multi) : NULL;
  if (at == NULL) at = find_or_add_place(queues, world, name, &where);
  el_entry_driver_signal(&at->driver, EL_ENTRY_KEY_FOUND);
}

/* Its place stays until the last request is answered, because the answer comes to
 * it; but it is not the queue's any more, whose next owner begins anew, with another
 * lease and so with another key. */
static void bury_place(place *at, el_session_end end) {
  queue_driver *orphans = at->queue->queues->orphans;
  el_entry_driver_orphan(&at->driver, end);
  free_linger(at);
  el_local_queue_remove(&at->queue->local, &at->local);
  at->queue = orphans;
  TAILQ_INSERT_TAIL(&orphans->local.places, &at->local, link);
  at->driver.world->users++;
  if (el_entry_is_over(&at->driver.entry)) free_place(at);
}

static void bury(queue_driver *queue, el_session_end end) {
  place *at;
  touch(queue);
  /* The owners of the place that began last go to the head of those that wait first. */
  while ((at = place_of(
              TAILQ_LAST(&queue->local.places, el_local_place_list))) != NULL) {
    bury_place(at, end);
  }
}

void el_local_queues_bury(el_local_queues *queues, const el_entry_world *world,
                          el_session_end end) {
  queue_driver *queue, *next;
  HASH_ITER(hh, queues->by_id, queue, next) {
    if (queue->world == world) bury(queue, end);
  }
}

/* What becomes of the release of |at|, if it has one, will not be known. */
static void give_up_release(place *at) {
  static const el_entry_action gone = {.kind = EL_ENTRY_RELEASED};
  decided(&at->driver, &gone);
}

void el_local_queues_leave(el_local_queues *queues, const el_error *err) {
  el_local_event end = {
      .kind = EL_LOCAL_END, .loss = EL_LOSS_CLUSTER, .err = err};
  queue_driver *queue, *next;
  place *at, *after;
  step_all(queues, NULL, &end);
  HASH_ITER(hh, queues->by_id, queue, next) {
    bury(queue, EL_SESSION_CUT_SHORT);
  }
  for (at = first_place(queues->orphans); at != NULL; at = after) {
    after = next_place(at);
    give_up_release(at);
    el_entry_driver_orphan(&at->driver, EL_SESSION_CUT_SHORT);
  }
}

void el_local_queues_close(el_local_queues *queues, const el_error *err) {
  el_local_event end = {
      .kind = EL_LOCAL_END, .loss = EL_LOSS_CLOSED, .err = err};
  queues->closed = *err;
  step_all(queues, NULL, &end);
}

/* ---- life ---- */

el_local_queues *el_local_queues_new(el_sessions *sessions,
                                     const el_turn_limits *limits) {
  el_local_queues *queues = el_alloc(sizeof *queues);
  queues->sessions = sessions;
  queues->world = el_sessions_first(sessions);
  queues->limits = *limits;
  queues->place_events = (el_entry_events){decided, stepped};
  TAILQ_INIT(&queues->changed);
  queues->orphans = el_alloc(sizeof *queues->orphans);
  queues->orphans->queues = queues;
  el_local_queue_init(&queues->orphans->local, EL_MODE_LOCK, 0);
  return queues;
}

void el_local_queues_free(el_local_queues *queues) {
  queue_driver *queue, *next;
  place *at;
  HASH_ITER(hh, queues->by_id, queue, next) {
    for (at = first_place(queue); at != NULL; at = next_place(at)) {
      give_up_release(at);
    }
    free_queue(queue);
  }
  while ((at = first_place(queues->orphans)) != NULL) {
    give_up_release(at);
    free_place(at);
  }
  el_slots_destroy(&queues->slots);
  free(queues->orphans);
  free(queues->listed);
  free(queues->actions.list);
  free(queues);
}

size_t el_local_queue_size(void) {
  return sizeof(queue_driver) + sizeof(place) + el_entry_driver_watch_size();
}
