/* local_queue_driver: the local queues of one client, with their entries and timers. */
#include "lock/local_queue_driver.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/times.h"
#include "lock/linger.h"
#include "lock/lock_messages.h"
#include "lock/lock_names.h"

typedef struct el_queue_driver queue_driver;

typedef struct client_entry client_entry;

/* One entry of this client. */
struct client_entry {
  el_entry entry;
  el_local_entry local;
  queue_driver *queue;
  el_linger *linger; /* NULL: the key must not linger */
};

/* Largest value of a key that is kept, in bytes. A longer value is ignored, because each waiter
 * keeps a copy. */
enum { LABEL_MAX = 8 * 1024 };

struct el_queue_driver {
  el_local_queue local;
  el_local_queues *queues;
  uint8_t n_names;
  bool
      is_changed : 1; /* it is in |queues->changed|, else in |queues->settled| */
  /* its first waiter, a try or a share-only wait, waits until a conflicting key of this client is
   * deleted */
  bool is_deferred : 1;
  /* etcd may still apply a request of an entry that was freed */
  bool has_unknown_outcome : 1;
  bool has_slot : 1; /* its slot is from |queues->slots| */
  bool was_held : 1; /* a hold has ended */
  uint32_t held_ms;  /* when one ended last: the low bits of el_now_ms */
  /* what a read has returned last, for waiters that join later; NULL: nothing since the last
   * grant */
  el_holder *holder;
  TAILQ_ENTRY(el_queue_driver) link;
  el_queue_name names[]; /* several only for a multi-lock; their text follows */
};

TAILQ_HEAD(queue_list, el_queue_driver);

/* A slot is a number in the keys of a multi-lock. It distinguishes the multi-locks of one client.
 *
 * The slot of a multi-lock that has ended is used again. With a new slot each time, there would be
 * ever more different keys: etcd keeps each key that ever existed in its index until the store is
 * compacted, and a read of a queue passes all of them.
 *
 * If a request of an entry has an unknown outcome, its slot is not used again in the same session.
 * Otherwise a late delete could delete the keys of another multi-lock, because a delete of several
 * keys deletes all that it finds (build_delete in protocol/lock_txn.c). The next session may use
 * the slot, because its keys contain another lease. */
typedef struct slot_set {
  bool *are_taken; /* for each slot, from 1 to |n| */
  uint32_t n;
} slot_set;

struct el_local_queues {
  el_session *session;
  el_handoff_limits limits;
  struct queue_list settled, changed;
  el_queue_name *names;     /* finds a queue by its names */
  int n_deferred;           /* number of local queues with |is_deferred| */
  el_local_actions actions; /* that are still to be carried out */
  bool is_acting;
  /* the error of waiters that join after close; code EL_OK: the client is open */
  el_error closed;
  slot_set slots; /* the slots of the multi-locks */
  /* A queue without waiters, for the entries whose session has ended. */
  queue_driver *orphans;
};

static el_waiter *waiter_of(el_acquisition *local) {
  return EL_CONTAINER_OF(local, el_waiter, local);
}

static client_entry *entry_of(el_local_entry *local) {
  return local != NULL ? EL_CONTAINER_OF(local, client_entry, local) : NULL;
}

static client_entry *first_entry(const queue_driver *queue) {
  return entry_of(TAILQ_FIRST(&queue->local.entries));
}

static client_entry *next_entry(const client_entry *at) {
  return entry_of(TAILQ_NEXT(&at->local, link));
}

static el_timers *timers_of(const queue_driver *queue) {
  return queue->queues->session->shared->timers;
}

static el_counters *counters_of(const queue_driver *queue) {
  return &queue->queues->session->shared->counters;
}

static bool is_orphan(const client_entry *at) {
  return at->queue == at->queue->queues->orphans;
}

static void mark_changed(queue_driver *queue) {
  if (!queue->is_changed) {
    queue->is_changed = true;
    TAILQ_REMOVE(&queue->queues->settled, queue, link);
    TAILQ_INSERT_TAIL(&queue->queues->changed, queue, link);
  }
}

/* ---- slots ---- */

static uint32_t take_slot(slot_set *slots) {
  uint32_t i = 0;
  while (i < slots->n && slots->are_taken[i])
    i++;
  if (i == slots->n) {
    slots->are_taken =
        el_realloc(slots->are_taken, ++slots->n * sizeof *slots->are_taken);
  }
  slots->are_taken[i] = true;
  return i + 1;
}

static void give_back_slot(slot_set *slots, uint32_t slot) {
  slots->are_taken[slot - 1] = false;
}

static bool is_free_slot(const slot_set *slots, uint32_t slot) {
  return slot - 1 < slots->n && !slots->are_taken[slot - 1];
}

/* ---- queues ---- */

static queue_driver *queue_of(const el_local_queue *local) {
  return local != NULL ? EL_CONTAINER_OF(local, queue_driver, local) : NULL;
}

/* add_queue adds a queue for the lock |name|; for a multi-lock, a list of names. */
static queue_driver *add_queue(el_local_queues *queues, el_bytes name,
                               const el_queue_key *where) {
  queue_driver *queue;
  size_t n = 0;
  for (el_bytes rest = name; rest.len > 0; el_list_pop(&rest))
    n++;
  queue = el_alloc(sizeof *queue + n * sizeof *queue->names + name.len);
  memcpy(queue->names + n, name.data, name.len);
  name.data = (const char *)(queue->names + n);
  el_local_queue_init(&queue->local, where);
  queue->queues = queues;
  queues->session->users++;
  TAILQ_INSERT_TAIL(&queues->settled, queue, link);
  while (queue->n_names < n) {
    el_lock_names_add(&queues->names, el_list_pop(&name),
                      &queue->names[queue->n_names++], &queue->local);
  }
  return queue;
}

static queue_driver *find_queue(const el_local_queues *queues, el_bytes name,
                                const el_queue_key *where) {
  return queue_of(el_lock_names_find(queues->names, name, where));
}

static void free_entry(client_entry *at);

static void set_deferred(queue_driver *queue, bool is_deferred) {
  queue->queues->n_deferred += is_deferred - queue->is_deferred;
  queue->is_deferred = is_deferred;
}

/* free_queue frees |queue| and its entries. |queue| must have no waiters. */
static void free_queue(queue_driver *queue) {
  client_entry *at;
  while ((at = first_entry(queue)) != NULL) {
    free_entry(at);
  }
  if (queue->has_slot && !queue->has_unknown_outcome) {
    give_back_slot(&queue->queues->slots, queue->local.slot);
  }
  while (queue->n_names > 0) {
    el_lock_names_remove(&queue->queues->names,
                         &queue->names[--queue->n_names]);
  }
  set_deferred(queue, false);
  mark_changed(queue);
  TAILQ_REMOVE(&queue->queues->changed, queue, link);
  queue->queues->session->users--;
  free(queue->holder);
  free(queue);
}

/* visit_conflicting calls |visit| for each other local queue that conflicts with |queue|, until a
 * call returns true. Returns whether a call did. */
static bool visit_conflicting(const queue_driver *queue,
                              bool (*visit)(const el_local_queue *other)) {
  for (size_t i = 0; i < queue->n_names; i++) {
    if (el_lock_names_visit(queue->queues->names, &queue->names[i], visit)) {
      return true;
    }
  }
  return false;
}

/* must_defer tells whether |first| is a try or a share-only wait that must wait until a conflicting
 * key of this client is deleted. It records the result in |queue|->is_deferred. */
static bool must_defer(queue_driver *queue, const el_waiter *first) {
  bool is_so = first != NULL &&
               (first->local.try_once || first->local.is_share_only) &&
               visit_conflicting(queue, el_local_queue_is_deleting);
  set_deferred(queue, is_so);
  return is_so;
}

/* ---- steps ---- */

static void carry_out(const el_local_action *action);

/* first_waiting returns the first waiter of |queue|. If no waiter is in the queue yet, it returns
 * the waiter that joins by |event|. NULL: there is none. */
static const el_waiter *first_waiting(const queue_driver *queue,
                                      const el_local_event *event) {
  el_acquisition *first = TAILQ_FIRST(&queue->local.waiting);
  if (first == NULL && event->kind == EL_LOCAL_ON_JOIN)
    first = event->acquisition;
  return first != NULL ? waiter_of(first) : NULL;
}

/* Tells whether |event| ends a hold with linger, while a waiter in a conflicting local queue of
 * this client waits for the lock. */
static bool is_wanted_elsewhere(const queue_driver *queue,
                                const el_local_event *event) {
  return event->kind == EL_LOCAL_ON_LEAVE &&
         event->acquisition->linger_ms > 0 &&
         visit_conflicting(queue, el_local_queue_has_waiters);
}

/* Applies |event| to |queue| and carries out the actions. An action may step a queue again. The
 * actions of that second step are appended to the list, and carried out after those of the
 * first. */
static void step(queue_driver *queue, const el_local_event *event) {
  el_local_queues *queues = queue->queues;
  el_local_actions *actions = &queues->actions;
  el_local_context now = {.now_ms = el_now_ms(), .limits = &queues->limits};
  if (queue != queues->orphans) {
    now.has_lease =
        queues->closed.code == EL_OK && el_session_is_alive(queues->session);
    now.is_proven = el_session_is_proven(queues->session, now.now_ms);
    now.has_conflicting_waiter = is_wanted_elsewhere(queue, event);
    now.has_conflicting_delete = must_defer(queue, first_waiting(queue, event));
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

static void step_entry(client_entry *at, int kind) {
  el_local_event event = {.entry = &at->local};
  event.kind = kind;
  step(at->queue, &event);
}

/* ---- entries ---- */

/* Marks the queues with a deferred try as changed, so that the next settle starts the try. */
static void retry_deferred(el_local_queues *queues) {
  queue_driver *queue = TAILQ_FIRST(&queues->settled), *next;
  if (queues->n_deferred == 0) return;
  for (; queue != NULL; queue = next) {
    next = TAILQ_NEXT(queue, link);
    if (queue->is_deferred) mark_changed(queue);
  }
}

static void stepped(el_entry *entry) {
  client_entry *at = EL_CONTAINER_OF(entry, client_entry, entry);
  retry_deferred(at->queue->queues);
  if (!is_orphan(at)) {
    mark_changed(at->queue);
  } else if (el_entry_is_finished(entry)) {
    free_entry(at);
  }
}

/* Records for the waiters of |at| whether they have waited. They have if the entry has waited for
 * the key of another client. */
static void note_waited(client_entry *at) {
  el_acquisition *waiter;
  TAILQ_FOREACH(waiter, &at->local.acquisitions, link) {
    waiter->has_waited = waiter->has_waited || at->entry.has_waited;
  }
}

static void forget_holder(queue_driver *queue) {
  free(queue->holder);
  queue->holder = NULL;
}

static void granted(el_entry *entry) {
  client_entry *at = EL_CONTAINER_OF(entry, client_entry, entry);
  note_waited(at);
  forget_holder(at->queue);
  step_entry(at, EL_LOCAL_ON_GRANTED);
}

static void failed(el_entry *entry, el_entry_failure why) {
  client_entry *at = EL_CONTAINER_OF(entry, client_entry, entry);
  el_local_event event = {
      .kind = EL_LOCAL_ON_FAILED, .entry = &at->local, .failure = why};
  step(at->queue, &event);
}

static void must_restart(el_entry *entry) {
  step_entry(EL_CONTAINER_OF(entry, client_entry, entry), EL_LOCAL_ON_RESTART);
}

static void lost(el_entry *entry, el_loss loss) {
  client_entry *at = EL_CONTAINER_OF(entry, client_entry, entry);
  el_local_event event = {
      .kind = EL_LOCAL_ON_LOST, .entry = &at->local, .loss = loss};
  step(at->queue, &event);
}

static void released(el_entry *entry, el_entry_ending how) {
  client_entry *at = EL_CONTAINER_OF(entry, client_entry, entry);
  el_local_event event = {
      .kind = EL_LOCAL_ON_RELEASED, .entry = &at->local, .ending = how};
  step(at->queue, &event);
}

static void tell_holder(el_waiter *waiter, const queue_driver *queue) {
  if (queue->holder != NULL) {
    waiter->events->saw_holder(waiter, queue->holder);
  }
}

static el_holder *new_holder(uint16_t permits, el_bytes label) {
  el_holder *holder = el_alloc(sizeof *holder + label.len);
  holder->seen_ms = el_now_ms();
  holder->permits = permits;
  holder->len = label.len;
  memcpy(holder->label, label.data, label.len);
  return holder;
}

/* Passes |label| to the waiters of the entry and to the waiters of its queue that have no entry
 * yet. */
static void saw_holder(el_entry *entry, el_bytes label) {
  client_entry *at = EL_CONTAINER_OF(entry, client_entry, entry);
  const struct el_acquisition_list *lists[] = {&at->local.acquisitions,
                                               &at->queue->local.waiting};
  if (is_orphan(at)) return; /* no waiter is to be told */
  forget_holder(at->queue);
  if (label.len > LABEL_MAX) return;
  at->queue->holder = new_holder(0, label);
  for (size_t i = 0; i < 2; i++) {
    el_acquisition *local;
    TAILQ_FOREACH(local, lists[i], link) {
      tell_holder(waiter_of(local), at->queue);
    }
  }
}

/* The waiters of the entry include one that the answer grants. */
static void saw_other_permits(el_entry *entry, uint16_t permits,
                              el_bytes label) {
  client_entry *at = EL_CONTAINER_OF(entry, client_entry, entry);
  el_acquisition *local;
  el_holder *other;
  if (is_orphan(at)) return; /* no waiter is to be told */
  if (label.len > LABEL_MAX) label.len = 0;
  other = new_holder(permits, label);
  TAILQ_FOREACH(local, &at->local.acquisitions, link) {
    waiter_of(local)->events->saw_other_permits(waiter_of(local), other);
  }
  free(other);
}

static client_entry *new_entry(queue_driver *queue, el_bytes name,
                               uint32_t slot) {
  el_queue_key where = {
      .slot = slot, .mode = queue->local.mode, .permits = queue->local.permits};
  client_entry *at = el_alloc(sizeof *at);
  at->queue = queue;
  el_entry_init(&at->entry, queue->queues->session, name, &where);
  el_local_queue_add(&queue->local, &at->local, &at->entry);
  return at;
}

static void on_linger(el_entry *entry, int kind) {
  step_entry(EL_CONTAINER_OF(entry, client_entry, entry), kind);
}

static void stop_linger(client_entry *at) {
  el_linger_stop(at->linger);
  at->linger = NULL;
}

/* free_entry frees |at|. No request of the entry may be in flight, and it must have no waiters. */
static void free_entry(client_entry *at) {
  at->queue->has_unknown_outcome =
      at->queue->has_unknown_outcome || !el_entry_is_definite(&at->entry);
  at->local.is_lingering = false; /* it may linger when the client stops */
  el_local_queue_remove(&at->queue->local, &at->local);
  at->entry.session->users -= is_orphan(at);
  stop_linger(at);
  el_entry_destroy(&at->entry);
  free(at);
}

/* unused_slot returns the lowest slot from |slot| on that no entry of |queue| has. A slot above all
 * others would make ever more different keys, as told at slot_set. */
static uint32_t unused_slot(const queue_driver *queue, uint32_t slot) {
  size_t n = 1;
  bool *are_taken;
  for (const client_entry *at = first_entry(queue); at != NULL;
       at = next_entry(at)) {
    n++;
  }
  are_taken = el_alloc(n * sizeof *are_taken);
  for (const client_entry *at = first_entry(queue); at != NULL;
       at = next_entry(at)) {
    if (at->entry.slot - slot < n) are_taken[at->entry.slot - slot] = true;
  }
  for (size_t i = 0; are_taken[i]; i++)
    slot++;
  free(are_taken);
  return slot;
}

/* pick_slot is called for |entry| when user data has the name of its key. The earlier
 * slot of a multi-lock is not given back. */
static uint32_t pick_slot(el_entry *entry) {
  queue_driver *queue = EL_CONTAINER_OF(entry, client_entry, entry)->queue;
  if (!queue->has_slot) return unused_slot(queue, entry->slot);
  queue->local.slot = take_slot(&queue->queues->slots);
  return queue->local.slot;
}

/* ---- causes of failed waits ---- */

/* find_last_error returns the error that has kept a waiter of |queue|, which waits since |since_ms|
 * (el_now_ms; 0: unknown), from a grant. It is the last error of |at|, the entry of the waiter
 * (NULL: it has none), else that of the session, else that of the last attempt to reach etcd. NULL:
 * no attempt has failed. */
static const el_error *find_last_error(const queue_driver *queue,
                                       const client_entry *at,
                                       int64_t since_ms) {
  const el_session *session = queue->queues->session;
  const el_error *cause;
  if (at != NULL && at->entry.last_error != NULL) return at->entry.last_error;
  cause = el_session_last_error(session, since_ms);
  if (cause == NULL && el_contact_is_lost(&session->shared->contact)) {
    cause = &session->shared->contact.error;
  }
  return cause;
}

/* awaited_entry returns the entry of |waiter|. If |waiter| has no entry yet, it returns the first
 * entry of the queue. NULL: the queue has no entry. */
static client_entry *awaited_entry(const el_waiter *waiter) {
  return waiter->local.entry != NULL ? entry_of(waiter->local.entry)
                                     : first_entry(waiter->queue);
}

/* is_held_here tells whether a hold of this client by the entry |at| blocks |waiter|. No such hold
 * blocks a reader, because readers share the key. */
static bool is_held_here(const el_waiter *waiter, const client_entry *at) {
  const el_acquisition *first =
      at != NULL ? TAILQ_FIRST(&at->local.acquisitions) : NULL;
  return waiter->mode != EL_MODE_READ && first != NULL &&
         first->state == EL_ACQUISITION_HOLDING;
}

static void note_hold_ended(queue_driver *queue) {
  queue->was_held = true;
  queue->held_ms = (uint32_t)el_now_ms();
}

/* was_held_since tells whether a hold of |queue| has ended since |ms|, which is at most 24 days
 * ago, or 0. */
static bool was_held_since(const queue_driver *queue, int64_t ms) {
  return queue->was_held &&
         (ms == 0 || (int32_t)(queue->held_ms - (uint32_t)ms) > 0);
}

/* wait_began_ms returns when |waiter| began to wait (el_now_ms); 0: it has no timeout. */
static int64_t wait_began_ms(const el_waiter *waiter) {
  return waiter->deadline_ms == INT64_MAX
             ? 0
             : waiter->deadline_ms - waiter->timeout_ms;
}

/* has_answered tells whether etcd has answered since |waiter| began to wait. It also returns true
 * if a hold of the same queue has ended since: until then no request was needed; and if the entry
 * |at| knows its predecessor: the entry then watches that key and may send no request for a long
 * time. If the last waiter of |at| has just left, |waiter| waits for the end of |at|. */
static bool has_answered(const el_waiter *waiter, const client_entry *at) {
  int64_t since_ms = wait_began_ms(waiter);
  const el_entry *entry = at != NULL ? &at->entry : NULL;
  bool is_behind =
      entry != NULL && entry->predecessor.rev != 0 &&
      (entry->state == EL_ENTRY_WAITING || entry->state == EL_ENTRY_RELEASING);
  return is_behind || was_held_since(waiter->queue, since_ms) ||
         waiter->queue->queues->session->shared->contact.reached_ms > since_ms;
}

/* count_known_holders returns how many entries of |queue| show that the lock is taken. Such an
 * entry is held, or waits for the key of another client, or keeps its key for a lock delay. */
static unsigned count_known_holders(const queue_driver *queue) {
  unsigned n = 0;
  for (const client_entry *at = first_entry(queue); at != NULL;
       at = next_entry(at)) {
    el_entry_state state = at->entry.state;
    n += state == EL_ENTRY_LOCK_DELAY ||
         (!TAILQ_EMPTY(&at->local.acquisitions) &&
          (state == EL_ENTRY_HELD || state == EL_ENTRY_WAITING));
  }
  return n;
}

/* find_doubt is used for a try that failed because other waiters of this client came first. If
 * those waiters have no answer from etcd, the lock may be free: find_doubt then returns the error
 * that kept them from an answer. NULL: the lock is known to be taken, or no attempt has failed. */
static const el_error *find_doubt(const queue_driver *queue) {
  unsigned most =
      queue->local.mode == EL_MODE_PERMIT ? queue->local.permits : 1;
  return count_known_holders(queue) >= most ? NULL
                                            : find_last_error(queue, NULL, 0);
}

/* Sets |err| to the message of a wait that timed out. A try that timed out got no answer to its own
 * request. Answers to the requests of other waiters do not count for it. */
static void explain_timeout(const el_waiter *waiter, int64_t waited_ms,
                            el_error *err) {
  const client_entry *at = awaited_entry(waiter);
  bool is_held = !waiter->local.try_once && is_held_here(waiter, at);
  const el_error *cause =
      is_held ? NULL
              : find_last_error(waiter->queue, at, wait_began_ms(waiter));
  /* the entry of another waiter may show that the lock is taken */
  bool is_answered =
      !waiter->local.try_once && (is_held || has_answered(waiter, at) ||
                                  count_known_holders(waiter->queue) > 0);
  el_shared *shared = waiter->queue->queues->session->shared;
  const char *address = el_request_queue_address(shared->requests);
  el_error no_token;
  if (cause == NULL && !is_answered &&
      el_auth_explain_wait(shared->auth, &no_token)) {
    cause = &no_token;
  }
  el_lock_message_timeout(waiter, waited_ms, cause,
                          is_answered ? NULL : address, err);
}

/* ---- timeouts ---- */

static int64_t limit_without_timeout(const el_waiter *waiter) {
  return el_request_queue_wait_limit_ms(
      waiter->queue->queues->session->shared->requests);
}

static void set_wait_deadline(el_waiter *waiter) {
  int64_t at_ms = waiter->deadline_ms;
  if (at_ms == INT64_MAX && limit_without_timeout(waiter) != INT64_MAX) {
    waiter->timeout_ms = EL_CALL_MS;
    at_ms = el_now_ms() + waiter->timeout_ms;
  }
  if (at_ms != INT64_MAX) {
    el_timers_set(timers_of(waiter->queue), &waiter->timer, at_ms);
  }
}

static void set_max_hold_timer(el_waiter *waiter) {
  int64_t end_ms = waiter->events->max_hold_end(waiter);
  if (end_ms != INT64_MAX) {
    el_timers_set(timers_of(waiter->queue), &waiter->timer, end_ms);
  } else {
    el_timers_stop(timers_of(waiter->queue), &waiter->timer);
  }
}

static void stop_wait(el_waiter *waiter, const el_error *err) {
  el_local_event leave = {.kind = EL_LOCAL_ON_LEAVE,
                          .acquisition = &waiter->local,
                          .how = EL_LEAVE_VOLUNTARY,
                          .err = err};
  step(waiter->queue, &leave);
}

/* Fails the wait of |waiter| at its deadline. A wait without a timeout goes on during an outage. It
 * has a deadline only until etcd has first answered. */
static void on_deadline(el_waiter *waiter) {
  el_error err;
  if (waiter->deadline_ms == INT64_MAX) {
    int64_t limit_ms = limit_without_timeout(waiter);
    if (limit_ms == INT64_MAX) return;
    if (waiter->timeout_ms < limit_ms) {
      waiter->timeout_ms += EL_CONTACT_STEP_MS;
      el_timers_set(timers_of(waiter->queue), &waiter->timer,
                    el_now_ms() + EL_CONTACT_STEP_MS);
      return;
    }
  }
  explain_timeout(waiter, waiter->timeout_ms, &err);
  stop_wait(waiter, &err);
}

static void on_timer(el_timer *timer) {
  el_waiter *waiter = EL_CONTAINER_OF(timer, el_waiter, timer);
  el_local_event end = {.kind = EL_LOCAL_ON_MAX_HOLD,
                        .acquisition = &waiter->local};
  if (!el_waiter_is_holding(waiter)) {
    on_deadline(waiter);
  } else if (el_now_ms() < waiter->events->max_hold_end(waiter)) {
    /* max_hold was changed after the timer was set */
    set_max_hold_timer(waiter);
  } else {
    step(waiter->queue, &end);
  }
}

/* ---- reports ---- */

/* Sets the value that an enqueue of |at| puts: the value of its first waiter, until that is
 * granted. */
static void set_value(client_entry *at) {
  el_acquisition *first = TAILQ_FIRST(&at->local.acquisitions);
  at->entry.value = first != NULL && first->state == EL_ACQUISITION_ENQUEUED
                        ? waiter_of(first)->value
                        : (el_bytes){0};
}

static void add_entry(queue_driver *queue) {
  el_acquisition *first = TAILQ_FIRST(&queue->local.waiting);
  if (first == NULL) return;
  new_entry(queue, waiter_of(first)->name,
            unused_slot(queue, queue->local.slot));
  step_kind(queue, EL_LOCAL_ON_SETTLE);
}

/* Tells |waiter| that it holds. All holds share the hold deadline of the session: one renewal
 * extends all of them, and the end of the session ends all of them at once. */
static void grant(el_waiter *waiter, client_entry *at, int64_t mod_rev) {
  queue_driver *queue = waiter->queue;
  el_grant what = {.token = at->entry.rev,
                   .held_rev = at->entry.watch_rev,
                   .mod_rev = mod_rev,
                   .keys = &at->entry.keys,
                   .deadline = queue->queues->session->published};
  EL_COUNT(counters_of(queue), waiting, -1);
  EL_COUNT(counters_of(queue), held, 1);
  EL_COUNT(counters_of(queue), acquired, 1);
  waiter->events->granted(waiter, &what);
  set_value(at);
  set_max_hold_timer(waiter);
}

static void explain_failure(const el_waiter *waiter,
                            const el_local_action *action, el_error *err) {
  const client_entry *at = entry_of(action->entry);
  const el_error *doubt;
  switch (action->why) {
    case EL_ENTRY_LOCKED:
      doubt = action->is_locked_here ? find_doubt(waiter->queue) : NULL;
      if (doubt != NULL) {
        el_lock_message_unreachable(waiter, doubt, err);
      } else {
        el_lock_message_locked(waiter, err);
      }
      return;
    case EL_ENTRY_REFUSED:
      el_lock_message_refused(waiter, find_last_error(waiter->queue, at, 0),
                              err);
      return;
    case EL_ENTRY_KEY_LOST:
      el_lock_message_key_lost(waiter, err);
      return;
  }
}

static void fail(el_waiter *waiter, const el_local_action *action) {
  const el_error *given = action->err;
  el_error err;
  if (given == NULL) {
    explain_failure(waiter, action, &err);
  } else {
    err = *given;
  }
  EL_COUNT(counters_of(waiter->queue), waiting, -1);
  el_timers_stop(timers_of(waiter->queue), &waiter->timer);
  if (action->entry != NULL) set_value(entry_of(action->entry));
  waiter->events->failed(waiter, &err);
  waiter->events->done(waiter);
}

/* Tells |waiter| that its hold is lost. The counter |held| is lowered first, so that a caller that
 * is told of the loss finds the new number in client:stats. */
static void lose(el_waiter *waiter, el_loss loss) {
  el_error err;
  note_hold_ended(waiter->queue);
  EL_COUNT(counters_of(waiter->queue), held, -1);
  el_timers_stop(timers_of(waiter->queue), &waiter->timer);
  el_lock_message_lost(waiter, loss, &err);
  waiter->events->lost(waiter, loss);
  waiter->events->released(waiter, &err);
  waiter->events->done(waiter);
}

static void explain_gone(const el_local_queues *queues, const el_waiter *waiter,
                         el_error *err) {
  const el_error *wrong =
      el_request_queue_wrong_cluster(queues->session->shared->requests);
  if (queues->closed.code != EL_OK) {
    /* the key ends with its lease at the latest */
    el_lock_message_unconfirmed(waiter, err);
  } else if (wrong != NULL) {
    *err = *wrong;
    err->code = EL_LOST;
  } else {
    el_lock_message_key_gone(waiter, err);
  }
}

/* Tells |waiter| that its release has ended. If etcd refuses the delete, for example because the
 * user lost its permission, this is reported only once. The entry still repeats the delete, and the
 * key ends with the lease at the latest. */
static void end_release(el_waiter *waiter, const el_local_action *action) {
  el_error err = {.code = EL_OK};
  if (action->release == EL_ENTRY_GONE) {
    explain_gone(entry_of(action->entry)->queue->queues, waiter, &err);
  } else if (action->release == EL_ENTRY_NOT_DELETED) {
    el_lock_message_refused(waiter, entry_of(action->entry)->entry.last_error,
                            &err);
  }
  waiter->events->released(waiter, &err);
  waiter->events->done(waiter);
}

static void carry_out(const el_local_action *action) {
  client_entry *at = entry_of(action->entry);
  switch (action->kind) {
    case EL_LOCAL_ADD_ENTRY:
      add_entry(queue_of(action->queue));
      return;
    case EL_LOCAL_START_ENTRY:
      el_entry_acquire(&at->entry, action->try_once,
                       waiter_of(action->acquisition)->value);
      return;
    case EL_LOCAL_STEP_ENTRY:
      action->step(&at->entry);
      return;
    case EL_LOCAL_REPORT_GRANTED:
      grant(waiter_of(action->acquisition), at, action->mod_rev);
      return;
    case EL_LOCAL_REPORT_FAILED:
      fail(waiter_of(action->acquisition), action);
      return;
    case EL_LOCAL_REPORT_LOST:
      lose(waiter_of(action->acquisition), action->loss);
      return;
    case EL_LOCAL_REPORT_RELEASED:
      end_release(waiter_of(action->acquisition), action);
      return;
    case EL_LOCAL_START_WATCH:
      at->linger = el_linger_start(&at->entry, on_linger);
      return;
    case EL_LOCAL_STOP_WATCH:
      stop_linger(at);
      return;
    case EL_LOCAL_SET_TIMER:
      el_linger_set_end(at->linger, action->at_ms);
      return;
  }
}

/* ---- waiters ---- */

/* queue_for returns the local queue that |waiter| joins. Each multi-lock has a queue and a slot of
 * its own. */
static queue_driver *queue_for(el_local_queues *queues,
                               const el_waiter *waiter) {
  el_queue_key where = {.mode = waiter->mode, .permits = waiter->permits};
  bool is_multi = waiter->mode == EL_MODE_MULTI;
  queue_driver *queue = NULL;
  if (is_multi) {
    where.slot = take_slot(&queues->slots);
  } else {
    queue = find_queue(queues, waiter->name, &where);
  }
  if (queue == NULL) queue = add_queue(queues, waiter->name, &where);
  queue->has_slot = is_multi;
  return queue;
}

static bool contend(const el_local_queue *other) {
  step_kind(queue_of(other), EL_LOCAL_ON_CONTENDER);
  return false;
}

void el_waiter_join(el_waiter *waiter, el_local_queues *queues) {
  el_local_event join = {.kind = EL_LOCAL_ON_JOIN,
                         .acquisition = &waiter->local};
  const el_error *refused =
      queues->closed.code != EL_OK
          ? &queues->closed
          : el_request_queue_wrong_cluster(queues->session->shared->requests);
  if (refused != NULL) {
    waiter->events->failed(waiter, refused);
    waiter->events->done(waiter);
    return;
  }
  EL_COUNT(&queues->session->shared->counters, waiting, 1);
  waiter->timer.on_due = on_timer;
  waiter->queue = queue_for(queues, waiter);
  visit_conflicting(waiter->queue, contend);
  mark_changed(waiter->queue);
  tell_holder(waiter, waiter->queue);
  /* this comes before the step, because the step may end the wait */
  set_wait_deadline(waiter);
  step(waiter->queue, &join);
}

/* For the caller, a hold has ended when this function is called, so the counter |held| is lowered
 * before etcd has answered. If the hold is lost, `lose` lowers the counter. */
void el_waiter_leave(el_waiter *waiter, el_leave how, el_loss loss) {
  el_local_event leave = {.kind = EL_LOCAL_ON_LEAVE,
                          .acquisition = &waiter->local,
                          .how = how,
                          .loss = loss};
  el_error err;
  if (waiter->local.state == EL_ACQUISITION_OUT ||
      waiter->local.state == EL_ACQUISITION_RELEASING) {
    return;
  }
  if (el_waiter_is_holding(waiter)) {
    leave.mod_rev = waiter->events->mod_rev(waiter);
    note_hold_ended(waiter->queue);
    el_timers_stop(timers_of(waiter->queue), &waiter->timer);
    if (how != EL_LEAVE_LOST) EL_COUNT(counters_of(waiter->queue), held, -1);
  } else {
    el_lock_message_cancelled(waiter, &err);
    leave.err = &err;
  }
  mark_changed(waiter->queue);
  step(waiter->queue, &leave);
}

bool el_waiter_is_holding(const el_waiter *waiter) {
  return waiter->local.state == EL_ACQUISITION_HOLDING;
}

void el_waiter_move_max_hold_end(el_waiter *waiter) {
  if (el_waiter_is_holding(waiter)) set_max_hold_timer(waiter);
}

void el_waiter_downgrade(el_waiter *waiter) {
  el_local_event downgrade = {.kind = EL_LOCAL_ON_DOWNGRADED,
                              .acquisition = &waiter->local};
  if (el_waiter_is_holding(waiter)) step(waiter->queue, &downgrade);
}

void el_waiter_key_gone(el_waiter *waiter, int64_t rev, bool detached) {
  if (el_waiter_is_holding(waiter)) {
    el_entry_lose_key(&entry_of(waiter->local.entry)->entry, rev, detached);
  }
}

/* ---- settle ---- */

/* If |queue| has waiters, sends the pending deletes of the queue in the foreground, because a key
 * that is not deleted yet blocks these waiters. */
static void expedite(const queue_driver *queue) {
  if (!el_local_queue_has_waiters(&queue->local)) return;
  for (client_entry *at = first_entry(queue); at != NULL; at = next_entry(at)) {
    if (TAILQ_EMPTY(&at->local.acquisitions)) el_entry_expedite(&at->entry);
  }
}

static void check(const queue_driver *queue) {
#ifndef NDEBUG
  el_local_context now = {.has_lease =
                              queue->queues->closed.code == EL_OK &&
                              el_session_is_alive(queue->queues->session),
                          .has_conflicting_delete = queue->is_deferred};
  assert(queue->queues->closed.code != EL_OK ||
         el_local_queue_check(&queue->local, &now) == NULL);
#else
  (void)queue;
#endif
}

/* settle starts the next waiters of |queue|, or frees |queue| if it has neither waiters nor
 * entries. An entry outlives its last waiter until its key is deleted, so |queue| lives until then,
 * too. */
static void settle(queue_driver *queue) {
  el_session *session = queue->queues->session;
  client_entry *at, *next;
  bool is_wanted;
  step_kind(queue, EL_LOCAL_ON_SETTLE);
  check(queue);
  is_wanted = !TAILQ_EMPTY(&queue->local.waiting);
  if (is_wanted && !el_session_is_alive(session) &&
      !el_local_queue_is_in_use(&queue->local)) {
    session->wanted = true;
  }
  expedite(queue);
  for (at = first_entry(queue); at != NULL && !is_wanted; at = next) {
    next = next_entry(at);
    if (el_local_entry_is_idle(&at->local)) free_entry(at);
  }
  if (!is_wanted && TAILQ_EMPTY(&queue->local.entries)) free_queue(queue);
}

void el_local_queues_settle(el_local_queues *queues) {
  queue_driver *queue;
  while ((queue = TAILQ_FIRST(&queues->changed)) != NULL) {
    TAILQ_REMOVE(&queues->changed, queue, link);
    TAILQ_INSERT_TAIL(&queues->settled, queue, link);
    queue->is_changed = false;
    settle(queue);
  }
}

bool el_local_queues_are_settled(const el_local_queues *queues) {
  return TAILQ_EMPTY(&queues->changed);
}

/* ---- events of the session ---- */

void el_local_queues_start(el_local_queues *queues) {
  queue_driver *queue;
  while ((queue = TAILQ_FIRST(&queues->settled)) != NULL)
    mark_changed(queue);
}

static void step_all(el_local_queues *queues, const el_local_event *event) {
  queue_driver *queue;
  el_local_queues_start(queues);
  TAILQ_FOREACH(queue, &queues->changed, link) step(queue, event);
}

void el_local_queues_fail_for_lease(el_local_queues *queues) {
  el_local_event refuse = {.kind = EL_LOCAL_ON_LEASE_REFUSED};
  step_all(queues, &refuse);
}

void el_local_queues_fail_waiting(el_local_queues *queues,
                                  const el_error *unreachable) {
  el_local_event fail = {.kind = EL_LOCAL_ON_UNREACHABLE, .err = unreachable};
  step_all(queues, &fail);
}

void el_local_queues_expire(el_local_queues *queues) {
  queue_driver *queue;
  client_entry *at;
  el_local_queues_start(queues);
  TAILQ_FOREACH(queue, &queues->changed, link) {
    for (at = first_entry(queue); at != NULL; at = next_entry(at)) {
      el_entry_expire(&at->entry);
    }
  }
}

/* cannot_have_key tells whether the key |where| of a multi-lock cannot exist, although the audit
 * lists it. |queue| is the queue of the key; NULL: there is none. The key cannot exist if its slot
 * is free, or if the multi-lock has sent no enqueue yet. The audit may list such a key because a
 * member that is behind also lists deleted keys. */
static bool cannot_have_key(const el_local_queues *queues,
                            const queue_driver *queue,
                            const el_queue_key *where) {
  if (where->mode != EL_MODE_MULTI) return false;
  return queue == NULL ? is_free_slot(&queues->slots, where->slot)
                       : first_entry(queue) == NULL;
}

/* own_name returns the name of the lock to which |key|, attached to |lease|, belongs, and fills
 * |where| with the parts of |key|. Empty: |key| belongs to no lock of this client. A key whose name
 * contains a NUL does not, because no lock name contains one. */
static el_bytes own_name(el_bytes key, int64_t lease, el_queue_key *where) {
  el_bytes name = el_key_name(key, where);
  if (name.len == 0 || name.len > EL_NAME_MAX ||
      memchr(name.data, '\0', name.len) != NULL || where->is_timed ||
      !el_queue_key_is_attached(where, lease) || where->mode > EL_MODE_MULTI) {
    return (el_bytes){0};
  }
  return name;
}

void el_local_queues_add_found_key(el_local_queues *queues, int64_t lease,
                                   el_bytes key) {
  el_queue_key where = {0};
  el_bytes name = own_name(key, lease, &where);
  queue_driver *queue;
  client_entry *at;
  if (name.len == 0) return;
  queue = find_queue(queues, name, &where);
  if (cannot_have_key(queues, queue, &where)) return;
  if (queue == NULL) queue = add_queue(queues, name, &where);
  at = first_entry(queue);
  while (at != NULL && at->entry.slot != where.slot) {
    at = next_entry(at);
  }
  if (at == NULL) at = new_entry(queue, name, where.slot);
  el_entry_find_key(&at->entry);
}

/* Moves the entry |at| from its queue to the orphans, because its session has ended. The entry
 * lives there until its last request is answered. The next waiter of the queue gets a new entry,
 * whose key contains another lease. */
static void end_entry_session(client_entry *at, el_session_end end) {
  queue_driver *orphans = at->queue->queues->orphans;
  el_entry_end_session(&at->entry, end);
  stop_linger(at);
  el_local_queue_remove(&at->queue->local, &at->local);
  at->queue = orphans;
  TAILQ_INSERT_TAIL(&orphans->local.entries, &at->local, link);
  at->entry.session->users++;
  if (el_entry_is_finished(&at->entry)) free_entry(at);
}

static void end_queue_session(queue_driver *queue, el_session_end end) {
  client_entry *at;
  /* From the last entry to the first: each entry may put its waiters back at the head of the queue,
   * and the waiters of the first entry must come first. */
  while ((at = entry_of(TAILQ_LAST(&queue->local.entries,
                                   el_local_entry_list))) != NULL) {
    end_entry_session(at, end);
  }
}

void el_local_queues_end_session(el_local_queues *queues, el_session_end end) {
  queue_driver *queue;
  el_local_queues_start(queues);
  TAILQ_FOREACH(queue, &queues->changed, link) end_queue_session(queue, end);
}

/* If a waiter waits for the release of |at|, reports that the release has ended: etcd will not
 * confirm it any more. */
static void end_release_unconfirmed(client_entry *at) {
  released(&at->entry, EL_ENTRY_GONE);
}

void el_local_queues_leave_cluster(el_local_queues *queues,
                                   const el_error *err) {
  el_local_event end = {
      .kind = EL_LOCAL_ON_CLOSE, .loss = EL_LOSS_CLUSTER, .err = err};
  client_entry *at, *after;
  step_all(queues, &end);
  el_local_queues_end_session(queues, EL_SESSION_END_EARLY);
  for (at = first_entry(queues->orphans); at != NULL; at = after) {
    after = next_entry(at);
    end_release_unconfirmed(at);
    el_entry_end_session(&at->entry, EL_SESSION_END_EARLY);
  }
}

void el_local_queues_close(el_local_queues *queues, const el_error *err) {
  el_local_event end = {
      .kind = EL_LOCAL_ON_CLOSE, .loss = EL_LOSS_CLOSED, .err = err};
  queues->closed = *err;
  step_all(queues, &end);
}

/* ---- life ---- */

el_local_queues *el_local_queues_new(el_session *session,
                                     const el_handoff_limits *limits) {
  static const el_entry_events entry_events = {
      granted, failed,     must_restart,      lost,     released,
      stepped, saw_holder, saw_other_permits, pick_slot};
  el_local_queues *queues = el_alloc(sizeof *queues);
  queues->session = session;
  queues->limits = *limits;
  session->entry_events = &entry_events;
  TAILQ_INIT(&queues->settled);
  TAILQ_INIT(&queues->changed);
  queues->orphans = el_alloc(sizeof *queues->orphans);
  queues->orphans->queues = queues;
  el_local_queue_init(&queues->orphans->local, &(el_queue_key){0});
  return queues;
}

void el_local_queues_free(el_local_queues *queues) {
  queue_driver *queue;
  client_entry *at;
  el_local_queues_start(queues);
  while ((queue = TAILQ_FIRST(&queues->changed)) != NULL) {
    for (at = first_entry(queue); at != NULL; at = next_entry(at)) {
      end_release_unconfirmed(at);
    }
    free_queue(queue);
  }
  while ((at = first_entry(queues->orphans)) != NULL) {
    end_release_unconfirmed(at);
    free_entry(at);
  }
  free(queues->slots.are_taken);
  free(queues->orphans);
  free(queues->actions.list);
  free(queues);
}

size_t el_local_queue_size(void) {
  return sizeof(queue_driver) + sizeof(el_queue_name) + sizeof(client_entry) +
         el_entry_watch_size();
}
