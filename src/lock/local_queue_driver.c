/* local_queue_driver: the local queues of one client, with their entries and timers. */
#include "lock/local_queue_driver.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/hash.h"
#include "lock/lock_messages.h"
#include "protocol/lock_txn.h"

typedef struct el_queue_driver queue_driver;

typedef struct client_entry client_entry;

/* A contention query: a read that asks etcd whether other keys wait behind the key of an entry that
 * may linger. */
typedef struct contention_query {
  el_request request;
  /* the entry; NULL: the query was cancelled, its answer is ignored */
  client_entry *at;
  /* If there is no answer, the key may linger on until the next query: etcd grants the lock to
   * nobody meanwhile. */
  bool is_repeated;
  el_keys keys;
  int64_t rev; /* create_revision of the held key */
} contention_query;

/* What an entry needs for linger, from EL_LOCAL_START_WATCH to EL_LOCAL_STOP_WATCH. While the key
 * is held or lingers, the entry must learn whether another key waits behind it. */
typedef struct linger {
  client_entry *at;
  /* reports keys that are put behind the key of the entry */
  el_watch watch;
  contention_query *query; /* NULL: none is in flight */
  el_timer timer;
  el_timer look; /* sends the next query, because a watch may be silent */
} linger;

/* One entry of this client. */
struct client_entry {
  el_entry_driver driver;
  el_local_entry local;
  queue_driver *queue;
  linger *linger; /* NULL: the key must not linger */
};

/* Largest value of a holder's key that is kept, in bytes. A longer value is ignored, because each
 * waiter keeps a copy. */
enum { LABEL_MAX = 8 * 1024 };

struct el_queue_driver {
  el_local_queue local;
  el_local_queues *queues;
  /* Length of the lock name in |key|. EL_MODE_MULTI: 0; in a queue that was added for a key that an
   * audit found, the length of the lock name in that key. */
  uint16_t name_len;
  bool is_changed : 1; /* it is in the list |queues->changed| */
  /* its first waiter, a try or a share-only wait, waits until a conflicting key of this client is
   * deleted */
  bool is_deferred : 1;
  /* etcd may still apply a request of an entry that was freed */
  bool has_unknown_outcome : 1;
  /* what a read has returned last, for waiters that join later; NULL: nothing since the last
   * grant */
  el_holder *holder;
  TAILQ_ENTRY(el_queue_driver) changed_link;
  UT_hash_handle hh;
  char key[]; /* the hash key, see write_hash_key */
};

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
typedef struct slot_list {
  uint32_t last;  /* the largest slot ever taken */
  uint32_t *free; /* slots that may be used again; a stack */
  size_t n_free, size;
} slot_list;

struct el_local_queues {
  el_client_session *session;
  el_handoff_limits limits;
  el_entry_events entry_events;
  queue_driver *by_key; /* all local queues; a hash table */
  TAILQ_HEAD(, el_queue_driver) changed;
  /* The local queues of multi-locks and semaphores, in no order. A search for the queues that
   * conflict with a waiter goes through this list, because the hash keys of these queues cannot be
   * computed from the name and mode of the waiter. */
  queue_driver **listed;
  size_t n_listed, listed_room;
  int n_deferred;           /* number of local queues with |is_deferred| */
  el_local_actions actions; /* that are still to be carried out */
  bool is_acting;
  /* the error of waiters that join after close; code EL_OK: the client is open */
  el_error closed;
  slot_list slots; /* the slots of the multi-locks */
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

static el_mode mode_of(const queue_driver *queue) {
  return (el_mode)queue->local.mode;
}

static el_timers *timers_of(const queue_driver *queue) {
  return queue->queues->session->timers;
}

static el_counters *counters_of(const queue_driver *queue) {
  return queue->queues->session->counters;
}

static bool is_orphan(const client_entry *at) {
  return at->queue == at->queue->queues->orphans;
}

static void mark_changed(queue_driver *queue) {
  if (!queue->is_changed) {
    queue->is_changed = true;
    TAILQ_INSERT_TAIL(&queue->queues->changed, queue, changed_link);
  }
}

/* ---- slots ---- */

static uint32_t take_slot(slot_list *slots) {
  return slots->n_free > 0 ? slots->free[--slots->n_free] : ++slots->last;
}

static void give_back_slot(slot_list *slots, uint32_t slot) {
  if (slots->n_free == slots->size) {
    slots->size = slots->size > 0 ? 2 * slots->size : 8;
    slots->free = el_realloc(slots->free, slots->size * sizeof *slots->free);
  }
  slots->free[slots->n_free++] = slot;
}

static bool is_free_slot(const slot_list *slots, uint32_t slot) {
  for (size_t i = 0; i < slots->n_free; i++) {
    if (slots->free[i] == slot) return true;
  }
  return false;
}

/* ---- lookup of queues ---- */

enum { HASH_KEY_MAX = EL_NAME_MAX + 1 + sizeof(uint32_t) };

/* write_hash_key writes the hash key of a local queue to |key|, and returns its length. The hash
 * key consists of |name|, the mode and the number of permits. For a multi-lock the slot takes the
 * place of the number of permits, because each multi-lock has a local queue of its own. */
static size_t write_hash_key(char *key, el_bytes name,
                             const el_queue_key *where) {
  uint32_t which = where->mode == EL_MODE_MULTI ? where->slot : where->permits;
  if (name.len > 0) memcpy(key, name.data, name.len);
  key[name.len] = (char)where->mode;
  memcpy(key + name.len + 1, &which, sizeof which);
  return name.len + 1 + sizeof which;
}

static queue_driver *find_by_key(const el_local_queues *queues, const char *key,
                                 size_t len) {
  queue_driver *queue = NULL;
  HASH_FIND(hh, queues->by_key, key, len, queue);
  return queue;
}

/* find_queue returns the local queue of |name| and |where|; NULL: there is none. A multi-lock is
 * found by its slot, with an empty |name|. */
static queue_driver *find_queue(const el_local_queues *queues, el_bytes name,
                                const el_queue_key *where) {
  char key[HASH_KEY_MAX];
  return find_by_key(queues, key, write_hash_key(key, name, where));
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

static queue_driver *find_or_add(el_local_queues *queues, el_bytes name,
                                 const el_queue_key *where) {
  char key[HASH_KEY_MAX];
  size_t len = write_hash_key(key, name, where);
  queue_driver *queue = find_by_key(queues, key, len);
  if (queue == NULL) {
    queue = el_alloc(sizeof *queue + len);
    el_local_queue_init(&queue->local, where->mode, where->permits);
    queue->queues = queues;
    queues->session->users++;
    memcpy(queue->key, key, len);
    queue->name_len = (uint16_t)name.len;
    HASH_ADD_KEYPTR(hh, queues->by_key, queue->key, len, queue);
    if (is_listed(queue)) list_queue(queue);
  }
  return queue;
}

/* first_slot returns the slot of the first entry of |queue|. A multi-lock has a slot that no other
 * multi-lock has; in the other modes the first entry has slot 0. */
static uint32_t first_slot(const queue_driver *queue) {
  uint32_t slot = 0;
  if (mode_of(queue) == EL_MODE_MULTI) {
    memcpy(&slot, queue->key + queue->name_len + 1, sizeof slot);
  }
  return slot;
}

/* has_slot tells whether |queue| has taken a slot from the list. The queue of a multi-lock has,
 * unless it was added for a key that an audit found. */
static bool has_slot(const queue_driver *queue) {
  return mode_of(queue) == EL_MODE_MULTI && queue->name_len == 0;
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
  if (has_slot(queue) && !queue->has_unknown_outcome) {
    give_back_slot(&queue->queues->slots, first_slot(queue));
  }
  if (is_listed(queue)) unlist_queue(queue);
  set_deferred(queue, false);
  if (queue->is_changed) {
    TAILQ_REMOVE(&queue->queues->changed, queue, changed_link);
  }
  queue->queues->session->users--;
  HASH_DEL(queue->queues->by_key, queue);
  free(queue->holder);
  free(queue);
}

/* ---- other queues of the same name ---- */

typedef bool visitor(queue_driver *queue);

static bool visit_name(const el_local_queues *queues, const el_waiter *waiter,
                       el_bytes name, visitor *visit) {
  for (el_mode other = EL_MODE_LOCK; other < EL_MODE_PERMIT; other++) {
    el_queue_key where = {.mode = other};
    queue_driver *queue = el_modes_conflict(other, (el_mode)waiter->mode)
                              ? find_queue(queues, name, &where)
                              : NULL;
    if (queue != NULL && queue != waiter->queue && visit(queue)) return true;
  }
  return false;
}

static bool list_has(el_bytes names, el_bytes name) {
  while (names.len > 0) {
    if (el_bytes_are_equal(el_list_pop(&names), name)) return true;
  }
  return false;
}

/* shares_name tells whether |multi|, the queue of a multi-lock, has one of |names|. */
static bool shares_name(const queue_driver *multi, el_bytes names) {
  const client_entry *at = first_entry(multi);
  const el_acquisition *first = TAILQ_FIRST(&multi->local.waiting);
  const el_keys *keys = at != NULL ? &at->driver.keys : NULL;
  el_bytes wanted = keys == NULL && first != NULL
                        ? EL_CONTAINER_OF(first, const el_waiter, local)->name
                        : (el_bytes){0};
  for (; keys != NULL; keys = keys->next) {
    if (list_has(names, el_keys_name(keys))) return true;
  }
  while (wanted.len > 0) {
    if (list_has(names, el_list_pop(&wanted))) return true;
  }
  return false;
}

static bool visit_multis(const el_local_queues *queues, const el_waiter *waiter,
                         visitor *visit) {
  for (size_t i = 0; i < queues->n_listed; i++) {
    queue_driver *queue = queues->listed[i];
    if (mode_of(queue) == EL_MODE_MULTI && queue != waiter->queue &&
        shares_name(queue, waiter->name) && visit(queue)) {
      return true;
    }
  }
  return false;
}

/* Calls |visit| for the other local queues of the same semaphore: there is one for each number of
 * permits that callers use. Returns true, and stops, when |visit| does. */
static bool visit_permits(const el_local_queues *queues,
                          const el_waiter *waiter, visitor *visit) {
  for (size_t i = 0; i < queues->n_listed; i++) {
    queue_driver *queue = queues->listed[i];
    if (mode_of(queue) == EL_MODE_PERMIT && queue != waiter->queue &&
        el_bytes_are_equal((el_bytes){queue->key, queue->name_len},
                           waiter->name) &&
        visit(queue)) {
      return true;
    }
  }
  return false;
}

/* visit_conflicting calls |visit| for each other local queue that conflicts with the mode and the
 * names of |waiter|, until a call returns true. Returns whether a call did. */
static bool visit_conflicting(const el_local_queues *queues,
                              const el_waiter *waiter, visitor *visit) {
  el_bytes names = waiter->name;
  if (waiter->mode == EL_MODE_PERMIT) {
    return visit_permits(queues, waiter, visit);
  }
  while (names.len > 0) {
    if (visit_name(queues, waiter, el_list_pop(&names), visit)) return true;
  }
  return visit_multis(queues, waiter, visit);
}

static bool has_waiter(queue_driver *queue) {
  return el_local_queue_has_waiters(&queue->local);
}

static bool is_leaving(queue_driver *queue) {
  return el_local_queue_is_deleting(&queue->local);
}

/* must_defer tells whether |first| is a try or a share-only wait that must wait until a conflicting
 * key of this client is deleted. It records the result in |queue|->is_deferred. */
static bool must_defer(queue_driver *queue, const el_waiter *first) {
  bool is_so = first != NULL &&
               (first->local.try_once || first->local.is_share_only) &&
               visit_conflicting(queue->queues, first, is_leaving);
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
static bool is_wanted_elsewhere(const el_local_queues *queues,
                                const el_local_event *event) {
  return event->kind == EL_LOCAL_ON_LEAVE &&
         event->acquisition->linger_ms > 0 &&
         visit_conflicting(queues, waiter_of(event->acquisition), has_waiter);
}

/* Applies |event| to |queue| and carries out the actions. An action may step a queue again. The
 * actions of that second step are appended to the list, and carried out after those of the
 * first. */
static void step(queue_driver *queue, const el_local_event *event) {
  el_local_queues *queues = queue->queues;
  el_local_actions *actions = &queues->actions;
  el_local_context now = {.now_ms = el_now_ms(), .limits = &queues->limits};
  if (queue != queues->orphans) {
    now.has_lease = queues->closed.code == EL_OK &&
                    el_session_driver_is_alive(queues->session->driver);
    now.is_proven =
        el_session_driver_is_proven(queues->session->driver, now.now_ms);
    now.has_conflicting_waiter = is_wanted_elsewhere(queues, event);
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
  queue_driver *queue, *next;
  if (queues->n_deferred == 0) return;
  HASH_ITER(hh, queues->by_key, queue, next) {
    if (queue->is_deferred) mark_changed(queue);
  }
}

static void stepped(el_entry_driver *driver) {
  client_entry *at = EL_CONTAINER_OF(driver, client_entry, driver);
  retry_deferred(at->queue->queues);
  if (!is_orphan(at)) {
    mark_changed(at->queue);
  } else if (el_entry_is_finished(&driver->entry)) {
    free_entry(at);
  }
}

/* Records for the waiters of |at| whether they have waited. They have if the entry has waited for
 * the key of another client. */
static void note_waited(client_entry *at) {
  el_acquisition *waiter;
  TAILQ_FOREACH(waiter, &at->local.acquisitions, link) {
    waiter->has_waited = waiter->has_waited || at->driver.has_waited;
  }
}

static void forget_holder(queue_driver *queue) {
  free(queue->holder);
  queue->holder = NULL;
}

static void reported(el_entry_driver *driver, const el_entry_action *action) {
  client_entry *at = EL_CONTAINER_OF(driver, client_entry, driver);
  el_local_event event = {
      .kind = EL_LOCAL_ON_ENTRY_REPORT, .entry = &at->local, .report = action};
  if (action->kind == EL_ENTRY_REPORT_GRANTED) {
    note_waited(at);
    forget_holder(at->queue);
  }
  step(at->queue, &event);
}

static void tell_holder(el_waiter *waiter, const queue_driver *queue) {
  if (queue->holder != NULL) {
    waiter->events->saw_holder(waiter, queue->holder);
  }
}

/* Passes |label| to the waiters of the entry and to the waiters of its queue that have no entry
 * yet. */
static void saw_holder(el_entry_driver *driver, el_bytes label) {
  client_entry *at = EL_CONTAINER_OF(driver, client_entry, driver);
  const struct el_acquisition_list *lists[] = {&at->local.acquisitions,
                                               &at->queue->local.waiting};
  forget_holder(at->queue);
  if (label.len > LABEL_MAX) return;
  at->queue->holder = el_alloc(sizeof *at->queue->holder + label.len);
  at->queue->holder->seen_ms = el_now_ms();
  at->queue->holder->len = label.len;
  memcpy(at->queue->holder->label, label.data, label.len);
  for (size_t i = 0; i < 2; i++) {
    el_acquisition *local;
    TAILQ_FOREACH(local, lists[i], link) {
      tell_holder(waiter_of(local), at->queue);
    }
  }
}

static client_entry *new_entry(queue_driver *queue, el_bytes name,
                               uint32_t slot) {
  el_queue_key where = {
      .slot = slot, .mode = mode_of(queue), .permits = queue->local.permits};
  client_entry *at = el_alloc(sizeof *at);
  at->driver.events = &queue->queues->entry_events;
  at->queue = queue;
  el_entry_driver_init(&at->driver, queue->queues->session, name, &where);
  el_local_queue_add(&queue->local, &at->local, &at->driver.entry);
  return at;
}

/* cancel_query cancels |query|: its answer is ignored. If |query| is NULL, the function does
 * nothing. */
static void cancel_query(contention_query *query) {
  if (query != NULL) query->at = NULL;
}

static void stop_linger(client_entry *at) {
  if (at->linger == NULL) return;
  el_watch_stop(at->driver.session->watches, &at->linger->watch);
  cancel_query(at->linger->query);
  el_timers_stop(timers_of(at->queue), &at->linger->timer);
  el_timers_stop(timers_of(at->queue), &at->linger->look);
  free(at->linger);
  at->linger = NULL;
}

/* free_entry frees |at|. No request of the entry may be in flight, and it must have no waiters. */
static void free_entry(client_entry *at) {
  at->queue->has_unknown_outcome = at->queue->has_unknown_outcome ||
                                   !el_entry_is_definite(&at->driver.entry);
  at->local.is_lingering = false; /* it may linger when the client stops */
  el_local_queue_remove(&at->queue->local, &at->local);
  at->driver.session->users -= is_orphan(at);
  stop_linger(at);
  el_entry_driver_destroy(&at->driver);
  free(at);
}

/* unused_slot returns a slot that no entry of |queue| has. */
static uint32_t unused_slot(const queue_driver *queue) {
  uint32_t slot = first_slot(queue);
  for (const client_entry *at = first_entry(queue); at != NULL;
       at = next_entry(at)) {
    if (at->driver.slot >= slot) slot = at->driver.slot + 1;
  }
  return slot;
}

/* ---- causes of failed waits ---- */

/* find_last_error returns the error that kept a waiter of |queue| from a grant. It is the last
 * error of |at|, the entry of the waiter (NULL: it has none), else that of the session, else that
 * of the request queue. NULL: no attempt has failed. */
static const el_error *find_last_error(const queue_driver *queue,
                                       const client_entry *at) {
  const el_client_session *session = queue->queues->session;
  const el_error *cause;
  if (at != NULL && at->driver.last_error != NULL) return at->driver.last_error;
  cause = el_session_driver_last_error(session->driver);
  return cause != NULL ? cause
                       : el_request_queue_backoff_error(session->requests);
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

/* has_answered tells whether etcd has answered since |waiter| began to wait. It also returns true
 * if the entry |at| knows its predecessor: the entry then watches that key and may send no request
 * for a long time. */
static bool has_answered(const el_waiter *waiter, const client_entry *at) {
  int64_t since_ms = waiter->deadline_ms == INT64_MAX
                         ? 0
                         : waiter->deadline_ms - waiter->timeout_ms;
  const el_entry *entry = at != NULL ? &at->driver.entry : NULL;
  return (entry != NULL && entry->state == EL_ENTRY_WAITING &&
          entry->predecessor.rev != 0) ||
         el_request_queue_was_answered_since(
             waiter->queue->queues->session->requests, since_ms);
}

/* count_known_holders returns how many entries of |queue| show that the lock is taken. Such an
 * entry is held, or waits for the key of another client, or keeps its key for a lock delay. */
static unsigned count_known_holders(const queue_driver *queue) {
  unsigned n = 0;
  for (const client_entry *at = first_entry(queue); at != NULL;
       at = next_entry(at)) {
    el_entry_state state = at->driver.entry.state;
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
  unsigned most = mode_of(queue) == EL_MODE_PERMIT ? queue->local.permits : 1;
  return count_known_holders(queue) >= most ? NULL
                                            : find_last_error(queue, NULL);
}

/* Sets |err| to the message of a wait that timed out. A try that timed out got no answer to its own
 * request. Answers to the requests of other waiters do not count for it. */
static void explain_timeout(const el_waiter *waiter, int64_t waited_ms,
                            el_error *err) {
  const client_entry *at = awaited_entry(waiter);
  bool is_held = !waiter->local.try_once && is_held_here(waiter, at);
  const el_error *cause = is_held ? NULL : find_last_error(waiter->queue, at);
  /* an entry of another waiter may show it, too */
  bool is_answered =
      !waiter->local.try_once && (is_held || has_answered(waiter, at) ||
                                  count_known_holders(waiter->queue) > 0);
  const char *address =
      el_request_queue_address(waiter->queue->queues->session->requests);
  el_lock_message_timeout(waiter, waited_ms, cause,
                          is_answered ? NULL : address, err);
}

/* ---- timeouts ---- */

/* Milliseconds between two looks whether etcd may be reached yet. */
enum { CONTACT_STEP_MS = 250 };

static bool waits_for_contact(const el_waiter *waiter) {
  const el_local_queues *queues = waiter->queue->queues;
  return waiter->deadline_ms == INT64_MAX &&
         !el_request_queue_has_contact(queues->session->requests);
}

static void set_wait_deadline(el_waiter *waiter) {
  int64_t at_ms = waiter->deadline_ms;
  if (waits_for_contact(waiter)) {
    waiter->timeout_ms = EL_FIRST_CONTACT_MS;
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
 * has a deadline only until etcd is first reached, because the address may be wrong. On a slow network
 * that deadline is later. */
static void on_deadline(el_waiter *waiter) {
  bool endless = waiter->deadline_ms == INT64_MAX;
  el_error err;
  /* etcd was reached in the meantime */
  if (endless && !waits_for_contact(waiter)) return;
  if (endless &&
      waiter->timeout_ms <
          EL_FIRST_CONTACT_MS + el_request_queue_contact_ms(
                                    waiter->queue->queues->session->requests)) {
    waiter->timeout_ms += CONTACT_STEP_MS;
    el_timers_set(timers_of(waiter->queue), &waiter->timer,
                  el_now_ms() + CONTACT_STEP_MS);
    return;
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
  at->driver.value = first != NULL && first->state == EL_ACQUISITION_ENQUEUED
                         ? waiter_of(first)->value
                         : (el_bytes){0};
}

static void end_waiter(el_waiter *waiter) { waiter->events->done(waiter); }

static void add_entry(queue_driver *queue) {
  el_acquisition *first = TAILQ_FIRST(&queue->local.waiting);
  if (first == NULL) return;
  new_entry(queue, waiter_of(first)->name, unused_slot(queue));
  step_kind(queue, EL_LOCAL_ON_SETTLE);
}

static void signal_entry(client_entry *at, int signal) {
  if (at->local.releasing != NULL) at->driver.is_release_awaited = true;
  el_entry_driver_signal(&at->driver, signal);
}

/* Tells |waiter| that it holds. All holds share the hold deadline of the session: one renewal extends
 * all of them, and the end of the session ends all of them at once. */
static void grant(el_waiter *waiter, client_entry *at, int64_t mod_rev) {
  queue_driver *queue = waiter->queue;
  el_grant what = {.token = at->driver.entry.rev,
                   .mod_rev = mod_rev,
                   .keys = &at->driver.keys,
                   .deadline = el_session_driver_hold_deadline(
                       queue->queues->session->driver)};
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
    case EL_FAILED_LOCKED_LOCALLY:
      doubt = find_doubt(waiter->queue);
      if (doubt != NULL) {
        el_lock_message_unreachable(waiter, doubt, err);
      } else {
        el_lock_message_locked(waiter, err);
      }
      return;
    case EL_FAILED_LOCKED:
      el_lock_message_locked(waiter, err);
      return;
    case EL_FAILED_REFUSED:
      el_lock_message_refused(waiter, find_last_error(waiter->queue, at), err);
      return;
    case EL_FAILED_KEY_LOST:
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
  end_waiter(waiter);
}

/* Tells |waiter| that its hold is lost. The counter |held| is lowered first, so that a caller that
 * is told of the loss finds the new number in client:stats. */
static void lose(el_waiter *waiter, el_loss loss) {
  el_error err;
  EL_COUNT(counters_of(waiter->queue), held, -1);
  el_timers_stop(timers_of(waiter->queue), &waiter->timer);
  el_lock_message_lost(waiter, loss, &err);
  waiter->events->lost(waiter, loss);
  waiter->events->released(waiter, &err);
  end_waiter(waiter);
}

static void explain_gone(const el_local_queues *queues, const el_waiter *waiter,
                         el_error *err) {
  const el_error *wrong =
      el_request_queue_wrong_cluster(queues->session->requests);
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
  if (action->release == EL_RELEASE_GONE) {
    explain_gone(entry_of(action->entry)->queue->queues, waiter, &err);
  } else if (action->release == EL_RELEASE_REFUSED) {
    err = *entry_of(action->entry)->driver.last_error;
  }
  waiter->events->released(waiter, &err);
  end_waiter(waiter);
}

/* ---- contention: keys that wait behind the key of an entry ---- */

static void end_query(const contention_query *query, el_contention behind,
                      bool detached) {
  client_entry *at = query->at;
  at->linger->query = NULL;
  if (behind == EL_CONTENTION_WAITERS ||
      (behind == EL_CONTENTION_UNKNOWN && !query->is_repeated)) {
    step_entry(at, EL_LOCAL_ON_CONTENDER);
  }
  if (behind == EL_CONTENTION_KEY_LOST) {
    el_entry_driver_key_gone(&at->driver, query->rev, detached);
  } else {
    stepped(&at->driver);
  }
}

static void on_query_answer(el_request *request, el_txn_answer *answer) {
  contention_query *query = EL_CONTAINER_OF(request, contention_query, request);
  el_contention behind =
      EL_CONTENTION_UNKNOWN; /* if the client stops, no answer comes */
  bool detached = false;
  if (answer != NULL) {
    behind = el_lock_txn_read_contention(&query->keys, query->rev, answer,
                                         &detached);
    el_txn_answer_free(answer);
  }
  if (query->at != NULL) {
    end_query(query, behind, detached);
  }
  el_keys_destroy(&query->keys);
  free(query);
}

static void query_contention(client_entry *at, bool is_repeated) {
  contention_query *query = el_alloc(sizeof *query);
  EL_UNINITIALIZED el_lock_txn built;
  query->request.done = on_query_answer;
  query->request.counted_as = offsetof(el_stats, looks);
  query->at = at;
  query->is_repeated = is_repeated;
  query->rev = at->driver.entry.rev;
  el_keys_copy(&query->keys, &at->driver.keys);
  el_lock_txn_build_contention(&built, &query->keys);
  el_request_queue_send(at->driver.session->requests, &query->request,
                        &built.txn);
  at->linger->query = query;
}

/* Takes the events of the watch on the queue of a key that may linger. The watch reports keys that
 * are put after its creation. A query finds the keys that were put before. */
static void on_watch_event(el_watch *watch, const el_watch_event *event) {
  linger *own = EL_CONTAINER_OF(watch, linger, watch);
  client_entry *at = own->at;
  const el_entry_driver *driver = &at->driver;
  switch (event->kind) {
    case EL_WATCH_CREATED:
      EL_COUNT(driver->session->counters, watches, 1);
      cancel_query(own->query);
      query_contention(at, false);
      return;
    case EL_WATCH_PUT:
      if (!el_bytes_are_equal(event->key, el_keys_own(&driver->keys)) &&
          el_conflict_is_waiter(&driver->keys, event->key, event->lease)) {
        step_entry(at, EL_LOCAL_ON_CONTENDER);
      }
      return;
    case EL_WATCH_REFUSED:
      step_entry(at, EL_LOCAL_ON_CONTENDER);
      return;
    case EL_WATCH_DELETED:
      return;
  }
}

/* A re-take of a lingering key sends no request, and a watch may be silent: a proxy may hold its
 * events back. So another client that waits is looked for every third of the TTL, too. */
static void look_later(client_entry *at) {
  int64_t ttl_ms =
      el_session_driver_session(at->driver.session->driver)->ttl_ms;
  el_timers_set(timers_of(at->queue), &at->linger->look,
                el_now_ms() + ttl_ms / 3);
}

static void on_look(el_timer *timer) {
  linger *own = EL_CONTAINER_OF(timer, linger, look);
  if (own->query == NULL) query_contention(own->at, true);
  look_later(own->at);
}

static void on_linger_timer(el_timer *timer) {
  step_entry(EL_CONTAINER_OF(timer, linger, timer)->at, EL_LOCAL_ON_TIMER);
}

static void start_linger(client_entry *at) {
  at->linger = el_alloc(sizeof *at->linger);
  at->linger->at = at;
  at->linger->timer.on_due = on_linger_timer;
  at->linger->look.on_due = on_look;
  at->linger->watch.on_event = on_watch_event;
  el_watch_start_prefix(at->driver.session->watches, &at->linger->watch,
                        el_keys_queue_prefix(&at->driver.keys));
  look_later(at);
}

static void set_timer(client_entry *at, int64_t at_ms) {
  if (at_ms != 0) {
    el_timers_set(timers_of(at->queue), &at->linger->timer, at_ms);
  } else {
    el_timers_stop(timers_of(at->queue), &at->linger->timer);
  }
}

static void start(client_entry *at, const el_local_action *action) {
  el_entry_driver_start(&at->driver, action->try_once,
                        waiter_of(action->acquisition)->value);
}

static void carry_out(const el_local_action *action) {
  client_entry *at = entry_of(action->entry);
  switch (action->kind) {
    case EL_LOCAL_ADD_ENTRY:
      add_entry(EL_CONTAINER_OF(action->queue, queue_driver, local));
      return;
    case EL_LOCAL_START_ENTRY:
      start(at, action);
      return;
    case EL_LOCAL_STEP_ENTRY:
      signal_entry(at, action->entry_event);
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
      start_linger(at);
      return;
    case EL_LOCAL_STOP_WATCH:
      stop_linger(at);
      return;
    case EL_LOCAL_SET_TIMER:
      set_timer(at, action->at_ms);
      return;
  }
}

/* ---- waiters ---- */

/* add_multi returns a new queue for a multi-lock, with a slot of its own. */
static queue_driver *add_multi(el_local_queues *queues) {
  el_queue_key where = {.slot = take_slot(&queues->slots),
                        .mode = EL_MODE_MULTI};
  return find_or_add(queues, (el_bytes){0}, &where);
}

static queue_driver *queue_for(el_local_queues *queues,
                               const el_waiter *waiter) {
  el_queue_key where = {.mode = waiter->mode, .permits = waiter->permits};
  return waiter->mode == EL_MODE_MULTI
             ? add_multi(queues)
             : find_or_add(queues, waiter->name, &where);
}

static bool contend(queue_driver *queue) {
  step_kind(queue, EL_LOCAL_ON_CONTENDER);
  return false;
}

void el_waiter_join(el_waiter *waiter, el_local_queues *queues) {
  el_local_event join = {.kind = EL_LOCAL_ON_JOIN,
                         .acquisition = &waiter->local};
  const el_error *refused =
      queues->closed.code != EL_OK
          ? &queues->closed
          : el_request_queue_wrong_cluster(queues->session->requests);
  if (refused != NULL) {
    waiter->events->failed(waiter, refused);
    end_waiter(waiter);
    return;
  }
  EL_COUNT(queues->session->counters, waiting, 1);
  waiter->timer.on_due = on_timer;
  waiter->queue = queue_for(queues, waiter);
  visit_conflicting(queues, waiter, contend);
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
    el_entry_driver_key_gone(&entry_of(waiter->local.entry)->driver, rev,
                             detached);
  }
}

/* ---- settle ---- */

/* If waiters of |queue| wait for an entry, sends the pending deletes of the queue in the
 * foreground, because a key that is not deleted yet blocks these waiters. */
static void expedite(const queue_driver *queue) {
  if (TAILQ_EMPTY(&queue->local.waiting)) return;
  for (client_entry *at = first_entry(queue); at != NULL; at = next_entry(at)) {
    if (TAILQ_EMPTY(&at->local.acquisitions))
      el_entry_driver_expedite(&at->driver);
  }
}

static void check(const queue_driver *queue) {
#ifndef NDEBUG
  el_local_context now = {
      .has_lease = queue->queues->closed.code == EL_OK &&
                   el_session_driver_is_alive(queue->queues->session->driver),
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
  el_client_session *session = queue->queues->session;
  client_entry *at, *next;
  bool is_wanted;
  step_kind(queue, EL_LOCAL_ON_SETTLE);
  check(queue);
  is_wanted = !TAILQ_EMPTY(&queue->local.waiting);
  if (is_wanted && !el_session_driver_is_alive(session->driver) &&
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
    TAILQ_REMOVE(&queues->changed, queue, changed_link);
    queue->is_changed = false;
    settle(queue);
  }
}

bool el_local_queues_are_settled(const el_local_queues *queues) {
  return TAILQ_EMPTY(&queues->changed);
}

/* ---- events of the session ---- */

void el_local_queues_start(el_local_queues *queues) {
  queue_driver *queue, *next;
  HASH_ITER(hh, queues->by_key, queue, next) { mark_changed(queue); }
}

static void step_all(el_local_queues *queues, const el_local_event *event) {
  queue_driver *queue, *next;
  HASH_ITER(hh, queues->by_key, queue, next) {
    mark_changed(queue);
    step(queue, event);
  }
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
  queue_driver *queue, *next;
  client_entry *at;
  HASH_ITER(hh, queues->by_key, queue, next) {
    for (at = first_entry(queue); at != NULL; at = next_entry(at)) {
      el_entry_driver_signal(&at->driver, EL_ENTRY_ON_EXPIRED);
    }
  }
}

/* find_multi returns the queue of the multi-lock to which the key |where| belongs. NULL: there is
 * none, or |where| is no key of a multi-lock. */
static const queue_driver *find_multi(const el_local_queues *queues,
                                      const el_queue_key *where) {
  return where->mode == EL_MODE_MULTI ? find_queue(queues, (el_bytes){0}, where)
                                      : NULL;
}

/* cannot_have_key tells whether the key |where| of a multi-lock cannot exist, although the audit
 * lists it. |multi| is the queue of the multi-lock; NULL: there is none. The key cannot exist if
 * its slot is free, or if the multi-lock has sent no enqueue yet and no earlier request is in
 * doubt. The audit may list such a key because a member that is behind also lists deleted keys. */
static bool cannot_have_key(const el_local_queues *queues,
                            const queue_driver *multi,
                            const el_queue_key *where) {
  if (where->mode != EL_MODE_MULTI) return false;
  if (multi == NULL) return is_free_slot(&queues->slots, where->slot);
  return first_entry(multi) == NULL && !multi->has_unknown_outcome;
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

static client_entry *find_or_add_entry(el_local_queues *queues, el_bytes name,
                                       const el_queue_key *where) {
  queue_driver *queue = find_or_add(queues, name, where);
  client_entry *at = first_entry(queue);
  while (at != NULL && at->driver.slot != where->slot) {
    at = next_entry(at);
  }
  return at != NULL ? at : new_entry(queue, name, where->slot);
}

void el_local_queues_add_found_key(el_local_queues *queues, int64_t lease,
                                   el_bytes key) {
  el_queue_key where = {0};
  el_bytes name = own_name(key, lease, &where);
  const queue_driver *multi;
  client_entry *at;
  if (name.len == 0) return;
  multi = find_multi(queues, &where);
  if (cannot_have_key(queues, multi, &where)) return;
  at = multi != NULL ? first_entry(multi) : NULL;
  if (at == NULL) at = find_or_add_entry(queues, name, &where);
  el_entry_driver_signal(&at->driver, EL_ENTRY_ON_KEY_FOUND);
}

/* Moves the entry |at| from its queue to the orphans, because its session has ended. The entry
 * lives there until its last request is answered. The next waiter of the queue gets a new entry,
 * whose key contains another lease. */
static void end_entry_session(client_entry *at, el_session_end end) {
  queue_driver *orphans = at->queue->queues->orphans;
  el_entry_driver_end_session(&at->driver, end);
  stop_linger(at);
  el_local_queue_remove(&at->queue->local, &at->local);
  at->queue = orphans;
  TAILQ_INSERT_TAIL(&orphans->local.entries, &at->local, link);
  at->driver.session->users++;
  if (el_entry_is_finished(&at->driver.entry)) free_entry(at);
}

static void end_queue_session(queue_driver *queue, el_session_end end) {
  client_entry *at;
  mark_changed(queue);
  /* From the last entry to the first: each entry may put its waiters back at the head of the queue,
   * and the waiters of the first entry must come first. */
  while ((at = entry_of(TAILQ_LAST(&queue->local.entries,
                                   el_local_entry_list))) != NULL) {
    end_entry_session(at, end);
  }
}

void el_local_queues_end_session(el_local_queues *queues, el_session_end end) {
  queue_driver *queue, *next;
  HASH_ITER(hh, queues->by_key, queue, next) { end_queue_session(queue, end); }
}

/* If a waiter waits for the release of |at|, reports that the release has ended: etcd will not
 * confirm it any more. */
static void end_release_unconfirmed(client_entry *at) {
  static const el_entry_action gone = {.kind = EL_ENTRY_REPORT_RELEASED};
  reported(&at->driver, &gone);
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
    el_entry_driver_end_session(&at->driver, EL_SESSION_END_EARLY);
  }
}

void el_local_queues_close(el_local_queues *queues, const el_error *err) {
  el_local_event end = {
      .kind = EL_LOCAL_ON_CLOSE, .loss = EL_LOSS_CLOSED, .err = err};
  queues->closed = *err;
  step_all(queues, &end);
}

/* ---- life ---- */

el_local_queues *el_local_queues_new(el_client_session *session,
                                     const el_handoff_limits *limits) {
  el_local_queues *queues = el_alloc(sizeof *queues);
  queues->session = session;
  queues->limits = *limits;
  queues->entry_events = (el_entry_events){reported, stepped, saw_holder};
  TAILQ_INIT(&queues->changed);
  queues->orphans = el_alloc(sizeof *queues->orphans);
  queues->orphans->queues = queues;
  el_local_queue_init(&queues->orphans->local, EL_MODE_LOCK, 0);
  return queues;
}

void el_local_queues_free(el_local_queues *queues) {
  queue_driver *queue, *next;
  client_entry *at;
  HASH_ITER(hh, queues->by_key, queue, next) {
    for (at = first_entry(queue); at != NULL; at = next_entry(at)) {
      end_release_unconfirmed(at);
    }
    free_queue(queue);
  }
  while ((at = first_entry(queues->orphans)) != NULL) {
    end_release_unconfirmed(at);
    free_entry(at);
  }
  free(queues->slots.free);
  free(queues->orphans);
  free(queues->listed);
  free(queues->actions.list);
  free(queues);
}

size_t el_local_queue_size(void) {
  return sizeof(queue_driver) + sizeof(client_entry) +
         el_entry_driver_watch_size();
}
