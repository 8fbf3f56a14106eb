/* local_queue: the waiters of one client for one lock, with their entries. */
#include "lock/local_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/times.h"
#include "lock/local_queue_int.h"
#include "lock/lock_messages.h"
#include "lock/request_queue.h"
#include "protocol/write_order.h"

/* Largest value of a key that is kept, in bytes. A longer value is ignored, because each waiter
 * keeps a copy. */
enum { LABEL_MAX = 8 * 1024 };

TAILQ_HEAD(queue_list, el_local_queue);

/* A slot is a number in a key (key.h). Here, slots distinguish the multi-locks of one client.
 *
 * The slot of a multi-lock that has ended is used again. With a new slot each time, there would be
 * ever more different keys: etcd keeps each key that ever existed in its index until the store is
 * compacted, and a read of a queue passes all of them.
 *
 * If an entry ends before its session, with a request of unknown outcome, its slot is not used
 * again. Otherwise a late delete could delete the keys of another multi-lock, because a delete of
 * several keys deletes all that it finds (build_delete in protocol/lock_txn.c). If the session ends
 * first, the slot may be used again: the keys of the next session contain another lease. */
typedef struct slot_set {
  bool *are_taken; /* for each slot, from 1 to |n| */
  uint32_t n;
} slot_set;

struct el_local_queues {
  el_session *session;
  el_handoff_limits limits;
  struct queue_list served, changed; /* by |is_changed| */
  el_queue_name *names;              /* finds a queue by its names */
  /* a function of a waiter is being called: it must not call the local queue */
  bool is_reporting;
  /* the error of waiters that join after close; code EL_OK: the client is open */
  el_error closed;
  slot_set slots; /* the slots of the multi-locks */
  /* A queue without waiters, for the entries whose session has ended. */
  el_local_queue *orphans;
};

static el_local_entry *local_of(el_entry *entry) {
  return EL_CONTAINER_OF(entry, el_local_entry, entry);
}

static el_shared *shared_of(const el_local_queue *queue) {
  return queue->queues->session->shared;
}

static el_timers *timers_of(const el_local_queue *queue) {
  return shared_of(queue)->timers;
}

static el_counters *counters_of(const el_local_queue *queue) {
  return &shared_of(queue)->counters;
}

el_session *el_local_queue_session(const el_local_queue *queue) {
  return queue->queues->session;
}

static void mark_changed(el_local_queue *queue) {
  if (!queue->is_changed) {
    queue->is_changed = true;
    TAILQ_REMOVE(&queue->queues->served, queue, link);
    TAILQ_INSERT_TAIL(&queue->queues->changed, queue, link);
  }
}

static void mark_served(el_local_queue *queue) {
  queue->is_changed = false;
  TAILQ_REMOVE(&queue->queues->changed, queue, link);
  TAILQ_INSERT_TAIL(&queue->queues->served, queue, link);
}

/* ---- state of a queue and its entries ---- */

static bool is_orphan(const el_local_entry *entry) {
  return entry->queue == entry->queue->queues->orphans;
}

static bool has_waiters(const el_local_entry *entry) {
  return !TAILQ_EMPTY(&entry->waiters);
}

static bool has_lease(const el_local_queue *queue) {
  return queue->queues->closed.code == EL_OK &&
         el_session_is_alive(queue->queues->session);
}

static bool is_proven(const el_local_queue *queue) {
  return el_session_is_proven(queue->queues->session, el_now_ms());
}

static bool is_shared(const el_local_queue *queue) {
  return queue->mode == EL_MODE_READ;
}

/* Tells whether |waiter| fails instead of waiting for another client. */
static bool is_try(const el_waiter *waiter) {
  return waiter->try_once || waiter->is_share_only;
}

/* Tells whether |entry| can be started. It is not started again while a request of its last waiter
 * is in flight: both would be about the same key, and etcd may apply two requests in any order. */
static bool is_free(const el_local_entry *entry) {
  return !has_waiters(entry) && !entry->is_lingering &&
         el_entry_can_start(&entry->entry);
}

/* Tells whether |entry| may be freed: it has no waiter and no key in etcd. */
static bool is_idle(const el_local_entry *entry) {
  return !has_waiters(entry) && entry->releasing == NULL &&
         !entry->is_lingering && el_entry_is_finished(&entry->entry);
}

/* Tells whether a waiter has an entry that is not granted yet. Such a waiter joined before those
 * that wait for an entry. */
static bool has_enqueued(const el_local_queue *queue) {
  const el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    const el_waiter *first = TAILQ_FIRST(&entry->waiters);
    if (first != NULL && first->state == EL_WAITER_ENQUEUED) return true;
  }
  return false;
}

/* Tells whether a waiter waits, for an entry or in etcd's queue. */
static bool is_waited_for(el_local_queue *queue) {
  return !TAILQ_EMPTY(&queue->waiting) || has_enqueued(queue);
}

/* Tells whether a key of |queue| that no waiter wants is being deleted. A key in its lock delay
 * does not count. */
static bool is_deleting(el_local_queue *queue) {
  const el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    if (!has_waiters(entry) && !entry->is_lingering &&
        !el_entry_can_start(&entry->entry) && !entry->entry.is_in_lock_delay &&
        entry->entry.state != EL_ENTRY_ENDED) {
      return true;
    }
  }
  return false;
}

/* Tells whether a waiter has an entry. */
static bool is_in_use(const el_local_queue *queue) {
  const el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    if (has_waiters(entry)) return true;
  }
  return false;
}

static el_local_entry *find_lingering(const el_local_queue *queue) {
  el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    if (entry->is_lingering) return entry;
  }
  return NULL;
}

/* Calls |visit| for each other local queue that conflicts with |queue|, until a call returns true.
 * Returns whether a call did. */
static bool visit_conflicting(const el_local_queue *queue,
                              bool (*visit)(el_local_queue *other)) {
  for (size_t i = 0; i < queue->n_names; i++) {
    if (el_lock_names_visit(queue->queues->names, &queue->names[i], visit)) {
      return true;
    }
  }
  return false;
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

/* Returns the lowest slot from |slot| on that no entry of |queue| has. A slot above all others
 * would make ever more different keys, as told at slot_set. */
static uint32_t unused_slot(const el_local_queue *queue, uint32_t slot) {
  const el_local_entry *entry;
  size_t n = 1;
  bool *are_taken;
  TAILQ_FOREACH(entry, &queue->entries, link) { n++; }
  are_taken = el_alloc(n * sizeof *are_taken);
  TAILQ_FOREACH(entry, &queue->entries, link) {
    /* for a slot below |slot|, the difference wraps around and is above |n| */
    if (entry->entry.slot - slot < n)
      are_taken[entry->entry.slot - slot] = true;
  }
  for (size_t i = 0; are_taken[i]; i++)
    slot++;
  free(are_taken);
  return slot;
}

/* Is called for |entry| when user data has the name of its key. The earlier slot of a multi-lock is
 * not given back. */
static uint32_t pick_slot(el_entry *entry) {
  el_local_queue *queue = local_of(entry)->queue;
  if (!queue->has_own_slot) return unused_slot(queue, entry->slot);
  queue->slot = take_slot(&queue->queues->slots);
  return queue->slot;
}

/* ---- queues and entries come and go ---- */

static el_local_queue *new_queue(el_local_queues *queues,
                                 const el_queue_key *where, size_t names_size) {
  el_local_queue *queue = el_alloc(sizeof *queue + names_size);
  queue->queues = queues;
  queue->slot = where->slot;
  queue->permits = where->permits;
  queue->mode = where->mode;
  TAILQ_INIT(&queue->waiting);
  TAILQ_INIT(&queue->entries);
  return queue;
}

/* Adds a queue for the lock |name|; for a multi-lock, a list of names. */
static el_local_queue *add_queue(el_local_queues *queues, el_bytes name,
                                 const el_queue_key *where) {
  el_local_queue *queue;
  size_t n = 0;
  for (el_bytes rest = name; rest.len > 0; el_list_pop(&rest))
    n++;
  queue = new_queue(queues, where, n * sizeof *queue->names + name.len);
  memcpy(queue->names + n, name.data, name.len);
  name.data = (const char *)(queue->names + n);
  queues->session->users++;
  TAILQ_INSERT_TAIL(&queues->served, queue, link);
  while (queue->n_names < n) {
    el_lock_names_add(&queues->names, el_list_pop(&name),
                      &queue->names[queue->n_names++], queue);
  }
  return queue;
}

static el_local_entry *add_entry(el_local_queue *queue, el_bytes name,
                                 uint32_t slot) {
  el_queue_key where = {
      .slot = slot, .mode = queue->mode, .permits = queue->permits};
  el_local_entry *entry = el_alloc(sizeof *entry);
  entry->queue = queue;
  el_entry_init(&entry->entry, queue->queues->session, name, &where);
  TAILQ_INIT(&entry->waiters);
  TAILQ_INSERT_TAIL(&queue->entries, entry, link);
  return entry;
}

static void stop_linger(el_local_entry *entry) {
  entry->is_lingering = false;
  el_linger_stop(entry->linger);
  entry->linger = NULL;
}

/* Frees |entry|. No request of the entry may be in flight, and it must have no waiters. */
static void free_entry(el_local_entry *entry) {
  assert(!has_waiters(entry));
  entry->queue->has_unknown_outcome =
      entry->queue->has_unknown_outcome || !el_entry_is_definite(&entry->entry);
  TAILQ_REMOVE(&entry->queue->entries, entry, link);
  entry->entry.session->users -= is_orphan(entry);
  stop_linger(entry); /* it may linger when the client stops */
  el_entry_destroy(&entry->entry);
  free(entry);
}

/* Frees |queue| and its entries. |queue| must have no waiters. */
static void free_queue(el_local_queue *queue) {
  el_local_queues *queues = queue->queues;
  el_local_entry *entry;
  while ((entry = TAILQ_FIRST(&queue->entries)) != NULL) {
    free_entry(entry);
  }
  if (queue->has_own_slot && !queue->has_unknown_outcome) {
    give_back_slot(&queues->slots, queue->slot);
  }
  while (queue->n_names > 0) {
    el_lock_names_remove(&queues->names, &queue->names[--queue->n_names]);
  }
  mark_changed(queue);
  TAILQ_REMOVE(&queues->changed, queue, link);
  queues->session->users--;
  free(queue->holder);
  free(queue);
}

/* ---- reports to waiters ---- */

static void begin_report(el_local_queues *queues) {
  assert(!queues->is_reporting);
  queues->is_reporting = true;
}

static void end_report(el_local_queues *queues) {
  queues->is_reporting = false;
}

static void enter(el_local_entry *entry, el_waiter *waiter) {
  TAILQ_REMOVE(&waiter->queue->waiting, waiter, link);
  TAILQ_INSERT_TAIL(&entry->waiters, waiter, link);
  waiter->entry = entry;
  waiter->state = EL_WAITER_ENQUEUED;
}

/* Sets the value that an enqueue of |entry| puts: the value of its first waiter, until that is
 * granted. */
static void set_value(el_local_entry *entry) {
  const el_waiter *first = TAILQ_FIRST(&entry->waiters);
  entry->entry.value = first != NULL && first->state == EL_WAITER_ENQUEUED
                           ? first->value
                           : (el_bytes){0};
}

static void detach(el_waiter *waiter) {
  el_local_entry *entry = waiter->entry;
  if (entry != NULL) {
    TAILQ_REMOVE(&entry->waiters, waiter, link);
    set_value(entry);
  } else {
    TAILQ_REMOVE(&waiter->queue->waiting, waiter, link);
  }
  waiter->entry = NULL;
  waiter->state = EL_WAITER_OUT;
}

static void set_max_hold_timer(el_waiter *waiter) {
  int64_t end_ms = waiter->events->max_hold_end(waiter);
  if (end_ms != INT64_MAX) {
    el_timers_set(timers_of(waiter->queue), &waiter->timer, end_ms);
  } else {
    el_timers_stop(timers_of(waiter->queue), &waiter->timer);
  }
}

static void on_linger_end(el_entry *entry, bool is_contended);

/* Tells |waiter| that it holds. All holds share the hold deadline of the session. */
static void grant(el_waiter *waiter, int64_t mod_rev) {
  el_local_entry *entry = waiter->entry;
  el_local_queue *queue = waiter->queue;
  el_grant what = {.token = entry->entry.rev,
                   .held_rev = entry->entry.watch_rev,
                   .mod_rev = mod_rev,
                   .keys = &entry->entry.keys,
                   .deadline = queue->queues->session->published};
  waiter->state = EL_WAITER_HOLDING;
  set_value(entry);
  EL_COUNT(counters_of(queue), waiting, -1);
  EL_COUNT(counters_of(queue), held, 1);
  EL_COUNT(counters_of(queue), acquired, 1);
  begin_report(queue->queues);
  waiter->events->granted(waiter, &what);
  end_report(queue->queues);
  set_max_hold_timer(waiter);
  if (waiter->linger_ms > 0 && entry->linger == NULL) {
    entry->linger = el_linger_start(&entry->entry, on_linger_end);
  }
}

static void report_failed(el_local_queues *queues, el_waiter *waiter,
                          const el_error *err) {
  begin_report(queues);
  waiter->events->failed(waiter, err);
  waiter->events->done(waiter);
  end_report(queues);
}

/* Ends the wait of |waiter| with |err|. */
static void fail(el_waiter *waiter, const el_error *err) {
  el_local_queue *queue = waiter->queue;
  detach(waiter);
  EL_COUNT(counters_of(queue), waiting, -1);
  el_timers_stop(timers_of(queue), &waiter->timer);
  report_failed(queue->queues, waiter, err);
}

static void fail_for(el_waiter *waiter, el_entry_failure why) {
  el_error err;
  el_lock_message_failed(waiter, why, &err);
  fail(waiter, &err);
}

/* Records that |waiter| does not hold any more. For the caller, a hold ends with the unlock, before
 * etcd has answered. */
static void end_hold(el_waiter *waiter) {
  el_local_queue *queue = waiter->queue;
  detach(waiter);
  queue->was_held = true;
  queue->held_ms = (uint32_t)el_now_ms();
  el_timers_stop(timers_of(queue), &waiter->timer);
  EL_COUNT(counters_of(queue), held, -1);
}

static void lose(el_waiter *waiter, el_loss loss) {
  el_local_queues *queues = waiter->queue->queues;
  el_error err;
  end_hold(waiter);
  el_lock_message_lost(waiter, loss, &err);
  begin_report(queues);
  waiter->events->lost(waiter, loss);
  waiter->events->released(waiter, &err);
  waiter->events->done(waiter);
  end_report(queues);
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

/* Tells |waiter| how its release by |entry| has ended. The queue of the waiter may be gone, if the
 * session of the entry has ended. If etcd refuses the delete, for example because the user lost its
 * permission, this is reported only once. The entry still repeats the delete. */
static void end_release(el_waiter *waiter, const el_local_entry *entry,
                        el_entry_ending how) {
  el_local_queues *queues = entry->queue->queues;
  el_error err = {.code = EL_OK};
  waiter->state = EL_WAITER_OUT;
  waiter->entry = NULL;
  if (how == EL_ENTRY_GONE) {
    explain_gone(queues, waiter, &err);
  } else if (how == EL_ENTRY_NOT_DELETED) {
    el_lock_message_refused(waiter, entry->entry.last_error, &err);
  }
  begin_report(queues);
  waiter->events->released(waiter, &err);
  waiter->events->done(waiter);
  end_report(queues);
}

/* ---- the next waiter ---- */

/* Returns how many entries of |queue| are in use, or blocked by a lock delay. */
static uint32_t count_taken(const el_local_queue *queue) {
  const el_local_entry *entry;
  uint32_t n = 0;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    n += has_waiters(entry) || entry->entry.is_in_lock_delay;
  }
  return n;
}

/* Returns the largest number of entries that |queue| may have in use. Behind a writer that was
 * downgraded, the entry of the next writer may wait in etcd's queue. */
static uint32_t capacity(const el_local_queue *queue) {
  const el_local_entry *entry;
  uint32_t n = 1;
  if (is_shared(queue)) return UINT32_MAX;
  if (queue->mode == EL_MODE_PERMIT) return queue->permits;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    n += entry->is_downgraded && has_waiters(entry);
  }
  return n;
}

/* Tells whether one more entry of |queue| may be started. (The caller knows that none lingers.) One
 * entry whose key is being deleted does not count: the delete and the next enqueue can leave in one
 * batch, which etcd writes to its disk once. If the delete takes longer, the next key waits behind
 * that key in etcd's queue. */
static bool may_start(const el_local_queue *queue) {
  const el_local_entry *entry;
  uint32_t n_busy = 0, most = capacity(queue);
  TAILQ_FOREACH(entry, &queue->entries, link) { n_busy += !is_free(entry); }
  return count_taken(queue) < most && n_busy <= most;
}

/* Tells whether |waiter| has to wait, because the waiters before it need as many entries as |queue|
 * may have. */
static bool has_to_wait(const el_local_queue *queue, const el_waiter *waiter) {
  const el_waiter *other = TAILQ_FIRST(&queue->waiting);
  uint32_t n, most = capacity(queue);
  if (is_shared(queue)) return false;
  n = count_taken(queue);
  for (; other != waiter && n < most; other = TAILQ_NEXT(other, link)) {
    n++;
  }
  return n >= most;
}

/* If handoff is switched off, readers still share a key, within the default limits. */
static const el_handoff_limits *limits_of(const el_local_queue *queue) {
  static const el_handoff_limits defaults = {.holds = 32, .ms = 50};
  const el_handoff_limits *limits = &queue->queues->limits;
  return is_shared(queue) && limits->holds < 2 ? &defaults : limits;
}

/* Tells whether the key of |entry| can serve one more hold, or linger. */
static bool can_keep_key(const el_local_entry *entry) {
  return entry->entry.state == EL_ENTRY_HELD && is_proven(entry->queue);
}

/* Tells whether the handoff budget of |entry| allows one more hold. */
static bool has_budget(const el_local_entry *entry) {
  const el_handoff_limits *limits = limits_of(entry->queue);
  return entry->holds < limits->holds &&
         el_now_ms() < entry->granted_ms + limits->ms;
}

static void start_budget(el_local_entry *entry) {
  entry->granted_ms = el_now_ms();
  entry->holds = 1;
}

/* Lets |waiter|, which waits, hold by the key of |entry|. */
static void hand_off(el_local_entry *entry, el_waiter *waiter,
                     int64_t mod_rev) {
  entry->holds++;
  enter(entry, waiter);
  grant(waiter, mod_rev);
  el_entry_watch_own_key(&entry->entry);
}

/* Grants the lingering key of |entry| to the first waiter without an entry. The handoff budget
 * starts again, because no contender was seen. */
static void take_lingering(el_local_entry *entry) {
  el_waiter *next = TAILQ_FIRST(&entry->queue->waiting);
  entry->is_lingering = false;
  el_linger_set_end(entry->linger, 0);
  start_budget(entry);
  enter(entry, next);
  grant(next, entry->mod_rev);
}

/* Lets |next|, a reader, hold by the key of other readers, if it may. Returns whether it holds. */
static bool share_hold(el_local_queue *queue, el_waiter *next) {
  el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    if (has_waiters(entry) && can_keep_key(entry) &&
        (next->is_share_only || has_budget(entry))) {
      hand_off(entry, next, 0);
      return true;
    }
  }
  return false;
}

/* Lets |next| wait on an entry on which other readers wait, if there is one. A try gets an entry of
 * its own. */
static bool share_wait(el_local_queue *queue, el_waiter *next) {
  el_local_entry *entry;
  if (is_try(next)) return false;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    const el_waiter *first = TAILQ_FIRST(&entry->waiters);
    if (first != NULL && first->state == EL_WAITER_ENQUEUED && !is_try(first)) {
      enter(entry, next);
      return true;
    }
  }
  return false;
}

/* Returns an entry of |queue| that can be started, for |next|. If there is none, adds one. */
static el_local_entry *find_free(el_local_queue *queue, const el_waiter *next) {
  el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    if (is_free(entry)) return entry;
  }
  return add_entry(queue, next->name, unused_slot(queue, queue->slot));
}

static void start_entry(el_local_queue *queue, el_waiter *next) {
  el_local_entry *entry = find_free(queue, next);
  TAILQ_REMOVE(&queue->entries, entry, link);
  TAILQ_INSERT_TAIL(&queue->entries, entry, link);
  entry->is_downgraded = entry->is_contended = false;
  enter(entry, next);
  el_entry_acquire(&entry->entry, is_try(next), next->value);
}

/* Tells whether |next| is a try that must wait until this client has deleted a key, because
 * otherwise the try would fail on that key. Readers do not block each other, so they do not wait
 * for a delete in their own queue. */
static bool waits_for_delete(el_local_queue *queue, const el_waiter *next) {
  return is_try(next) && ((!is_shared(queue) && is_deleting(queue)) ||
                          visit_conflicting(queue, is_deleting));
}

/* A function of the section "events of the local queue" in entry.h. */
typedef void entry_step(el_entry *entry);

/* Stops the linger of |entry|, whose last waiter has left, and passes |event| to the entry. */
static void stop(el_local_entry *entry, entry_step *event) {
  stop_linger(entry);
  event(&entry->entry);
}

/* Gives the first waiter without an entry a key or an entry. Returns false if that is not possible
 * now. */
static bool serve_next(el_local_queue *queue) {
  el_waiter *next = TAILQ_FIRST(&queue->waiting);
  el_local_entry *lingering = find_lingering(queue);
  if (lingering != NULL && is_proven(queue)) {
    take_lingering(lingering);
    return true;
  }
  if (lingering != NULL) stop(lingering, el_entry_release);
  if (is_shared(queue) &&
      (share_hold(queue, next) || share_wait(queue, next))) {
    return true;
  }
  if (waits_for_delete(queue, next) || !may_start(queue)) return false;
  start_entry(queue, next);
  return true;
}

static void serve_waiters(el_local_queue *queue) {
  if (!has_lease(queue)) return;
  while (!TAILQ_EMPTY(&queue->waiting) && serve_next(queue)) {
  }
}

/* ---- a waiter leaves ---- */

static bool try_hand_off(el_local_entry *entry, int64_t mod_rev) {
  el_waiter *next = TAILQ_FIRST(&entry->queue->waiting);
  if (next == NULL || has_enqueued(entry->queue) || !can_keep_key(entry) ||
      !has_budget(entry)) {
    return false;
  }
  hand_off(entry, next, mod_rev);
  return true;
}

static bool try_linger(el_local_entry *entry, int32_t linger_ms,
                       int64_t mod_rev) {
  el_local_queue *queue = entry->queue;
  if (linger_ms == 0 || is_waited_for(queue) || entry->is_contended ||
      !can_keep_key(entry) || visit_conflicting(queue, is_waited_for)) {
    return false;
  }
  entry->is_lingering = true;
  entry->mod_rev = mod_rev;
  el_linger_set_end(entry->linger, el_now_ms() + linger_ms);
  el_entry_watch_own_key(&entry->entry);
  return true;
}

/* Ends the hold of |waiter|, which was the last one of |entry|: the key is handed off, lingers or
 * is deleted. */
static void unlock_last(el_local_entry *entry, el_waiter *waiter, el_leave how,
                        int64_t mod_rev) {
  bool is_key_kept = how == EL_LEAVE_VOLUNTARY && mod_rev >= 0 &&
                     !entry->is_downgraded &&
                     (try_hand_off(entry, mod_rev) ||
                      try_linger(entry, waiter->linger_ms, mod_rev));
  if (is_key_kept) {
    end_release(waiter, entry, EL_ENTRY_INTACT);
    return;
  }
  assert(entry->releasing == NULL);
  entry->releasing = waiter;
  waiter->entry = entry;
  waiter->state = EL_WAITER_RELEASING;
  stop(entry, el_entry_release);
}

static void unlock(el_waiter *waiter, el_leave how) {
  el_local_entry *entry = waiter->entry;
  int64_t mod_rev = waiter->events->mod_rev(waiter);
  end_hold(waiter);
  if (has_waiters(entry)) {
    end_release(waiter, entry, EL_ENTRY_INTACT);
  } else {
    unlock_last(entry, waiter, how, mod_rev);
  }
}

/* Ends the hold of |waiter| as lost. Readers that share a key have a max_hold each. When a hold has
 * expired, those of the other readers have, too. */
static void lose_hold(el_waiter *waiter, el_loss loss) {
  el_local_entry *entry = waiter->entry;
  entry_step *event =
      loss == EL_LOSS_MAX_HOLD ? el_entry_end_max_hold : el_entry_expire;
  lose(waiter, loss);
  if (!has_waiters(entry)) {
    stop(entry, event);
  } else if (loss == EL_LOSS_EXPIRED) {
    event(&entry->entry);
  }
}

static void end_wait(el_waiter *waiter, const el_error *err) {
  el_local_entry *entry = waiter->entry;
  fail(waiter, err);
  if (entry != NULL && !has_waiters(entry)) stop(entry, el_entry_release);
}

void el_waiter_leave(el_waiter *waiter, el_leave how, el_loss loss) {
  el_error err;
  if (waiter->state == EL_WAITER_OUT || waiter->state == EL_WAITER_RELEASING) {
    return;
  }
  assert(!waiter->queue->queues->is_reporting);
  mark_changed(waiter->queue);
  if (!el_waiter_is_holding(waiter)) {
    el_lock_message_cancelled(waiter, &err);
    end_wait(waiter, &err);
  } else if (how == EL_LEAVE_LOST) {
    lose_hold(waiter, loss);
  } else {
    unlock(waiter, how);
  }
}

/* ---- the timer of a waiter ---- */

static int64_t limit_without_timeout(const el_waiter *waiter) {
  return el_request_queue_wait_limit_ms(shared_of(waiter->queue)->requests);
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
  mark_changed(waiter->queue);
  el_lock_message_timeout(waiter, &err);
  end_wait(waiter, &err);
}

static void on_timer(el_timer *timer) {
  el_waiter *waiter = EL_CONTAINER_OF(timer, el_waiter, timer);
  if (!el_waiter_is_holding(waiter)) {
    on_deadline(waiter);
  } else if (el_now_ms() < waiter->events->max_hold_end(waiter)) {
    /* max_hold was changed after the timer was set */
    set_max_hold_timer(waiter);
  } else {
    el_waiter_leave(waiter, EL_LEAVE_LOST, EL_LOSS_MAX_HOLD);
  }
}

/* ---- a waiter joins ---- */

/* Deletes the lingering keys of |other|, because a waiter joins a conflicting local queue. Entries
 * that do not linger are not marked as contended: before such an entry lingers, its watch or
 * is_waited_for shows the contender. */
static bool contend(el_local_queue *other) {
  el_local_entry *entry;
  while ((entry = find_lingering(other)) != NULL) {
    stop(entry, el_entry_release);
  }
  return false;
}

/* Returns the local queue that |waiter| joins. */
static el_local_queue *queue_for(el_local_queues *queues,
                                 const el_waiter *waiter) {
  el_queue_key where = {.mode = waiter->mode, .permits = waiter->permits};
  bool is_multi = waiter->mode == EL_MODE_MULTI;
  el_local_queue *queue = NULL;
  if (is_multi) {
    where.slot = take_slot(&queues->slots);
  } else {
    queue = el_lock_names_find(queues->names, waiter->name, &where);
  }
  if (queue == NULL) queue = add_queue(queues, waiter->name, &where);
  queue->has_own_slot = is_multi;
  return queue;
}

static void tell_seen_key(el_waiter *waiter, const el_seen_key *key) {
  begin_report(waiter->queue->queues);
  waiter->events->saw_key(waiter, key);
  end_report(waiter->queue->queues);
}

void el_waiter_join(el_waiter *waiter, el_local_queues *queues) {
  const el_error *refused =
      queues->closed.code != EL_OK
          ? &queues->closed
          : el_request_queue_wrong_cluster(queues->session->shared->requests);
  el_local_queue *queue;
  assert(!queues->is_reporting && waiter->state == EL_WAITER_OUT);
  if (refused != NULL) {
    report_failed(queues, waiter, refused);
    return;
  }
  EL_COUNT(&queues->session->shared->counters, waiting, 1);
  queue = queue_for(queues, waiter);
  waiter->queue = queue;
  waiter->timer.on_due = on_timer;
  waiter->state = EL_WAITER_WAITING;
  TAILQ_INSERT_TAIL(&queue->waiting, waiter, link);
  waiter->has_waited = has_to_wait(queue, waiter);
  mark_changed(queue);
  visit_conflicting(queue, contend);
  if (queue->holder != NULL) tell_seen_key(waiter, queue->holder);
  set_wait_deadline(waiter);
  if (waiter->try_once && waiter->has_waited) {
    el_error err;
    el_lock_message_locked_here(waiter, &err);
    fail(waiter, &err);
  }
}

/* ---- other calls for a waiter ---- */

bool el_waiter_is_holding(const el_waiter *waiter) {
  return waiter->state == EL_WAITER_HOLDING;
}

void el_waiter_move_max_hold_end(el_waiter *waiter) {
  if (el_waiter_is_holding(waiter)) set_max_hold_timer(waiter);
}

void el_waiter_downgrade(el_waiter *waiter) {
  if (!el_waiter_is_holding(waiter)) return;
  waiter->entry->is_downgraded = true;
  mark_changed(waiter->queue);
}

void el_waiter_key_gone(el_waiter *waiter, int64_t rev, bool is_detached) {
  if (el_waiter_is_holding(waiter)) {
    el_entry_lose_key(&waiter->entry->entry, rev, is_detached);
  }
}

/* ---- the end of a linger ---- */

static void on_linger_end(el_entry *entry, bool is_contended) {
  el_local_entry *local = local_of(entry);
  local->is_contended = local->is_contended || is_contended;
  if (local->is_lingering) stop(local, el_entry_release);
}

/* ---- reports of an entry ---- */

/* Marks |other| as changed if it has waiters, so that they are served again: the first one may be a
 * try that waits until this client has deleted a key. */
static bool serve_again(el_local_queue *other) {
  if (!TAILQ_EMPTY(&other->waiting)) mark_changed(other);
  return false;
}

static void stepped(el_entry *entry) {
  el_local_entry *local = local_of(entry);
  if (!is_orphan(local)) {
    mark_changed(local->queue);
    if (is_free(local)) visit_conflicting(local->queue, serve_again);
  } else if (el_entry_is_finished(entry)) {
    free_entry(local);
  }
}

static void forget_holder(el_local_queue *queue) {
  free(queue->holder);
  queue->holder = NULL;
}

static void granted(el_entry *entry) {
  el_local_entry *local = local_of(entry);
  int64_t mod_rev =
      el_write_order_initial_rev((el_mode)local->queue->mode, entry->rev);
  el_waiter *waiter, *next;
  /* after close there is no waiter, but the entry goes on until the last audit is over */
  assert(has_waiters(local) || local->queue->queues->closed.code != EL_OK);
  forget_holder(local->queue);
  start_budget(local);
  for (waiter = TAILQ_FIRST(&local->waiters); waiter != NULL; waiter = next) {
    next = TAILQ_NEXT(waiter, link);
    waiter->has_waited = waiter->has_waited || entry->has_waited;
    grant(waiter, mod_rev);
  }
}

static void failed(el_entry *entry, el_entry_failure why) {
  el_waiter *waiter;
  while ((waiter = TAILQ_FIRST(&local_of(entry)->waiters)) != NULL) {
    fail_for(waiter, why);
  }
}

/* The waiters of |entry| wait again, before those that joined later. */
static void must_restart(el_entry *entry) {
  el_local_entry *local = local_of(entry);
  el_waiter *waiter;
  while ((waiter = TAILQ_LAST(&local->waiters, el_waiter_list)) != NULL) {
    detach(waiter);
    waiter->state = EL_WAITER_WAITING;
    TAILQ_INSERT_HEAD(&local->queue->waiting, waiter, link);
    if (entry->rev == 0) continue;
    begin_report(local->queue->queues);
    waiter->events->requeued(waiter);
    end_report(local->queue->queues);
  }
}

static void lost(el_entry *entry, el_loss loss) {
  el_local_entry *local = local_of(entry);
  el_waiter *waiter;
  while ((waiter = TAILQ_FIRST(&local->waiters)) != NULL) {
    lose(waiter, loss);
  }
  stop_linger(local);
}

/* If no waiter waits for the release, a wait was given up, a hold was lost, or the end was reported
 * before. */
static void released(el_entry *entry, el_entry_ending how) {
  el_local_entry *local = local_of(entry);
  el_waiter *waiter = local->releasing;
  local->releasing = NULL;
  if (waiter != NULL) end_release(waiter, local, how);
}

static el_seen_key *new_seen_key(uint16_t permits, el_bytes label) {
  el_seen_key *key = el_alloc(sizeof *key + label.len);
  key->seen_ms = el_now_ms();
  key->permits = permits;
  key->len = label.len;
  if (label.len > 0) memcpy(key->label, label.data, label.len);
  return key;
}

/* Tells the waiters of |entry| of the key. (The same answer may grant one of them.) The waiters
 * that have no entry yet learn only of the holder. */
static void saw_key(el_entry *entry, uint16_t permits, el_bytes label) {
  el_local_entry *local = local_of(entry);
  el_local_queue *queue = local->queue;
  el_waiter *waiter;
  el_seen_key *key;
  if (is_orphan(local)) return; /* no waiter is to be told */
  if (permits == 0) forget_holder(queue);
  if (label.len > LABEL_MAX) {
    if (permits == 0) return;
    label.len = 0;
  }
  key = new_seen_key(permits, label);
  TAILQ_FOREACH(waiter, &local->waiters, link) { tell_seen_key(waiter, key); }
  if (permits != 0) {
    free(key);
    return;
  }
  TAILQ_FOREACH(waiter, &queue->waiting, link) { tell_seen_key(waiter, key); }
  queue->holder = key;
}

/* ---- serve ---- */

/* If |queue| has waiters, sends the pending deletes of the queue in the foreground, because a key
 * that is not deleted yet may block these waiters. */
static void expedite(el_local_queue *queue) {
  el_local_entry *entry;
  if (!is_waited_for(queue)) return;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    if (!has_waiters(entry)) el_entry_expedite(&entry->entry);
  }
}

#ifndef NDEBUG
/* Checks that |entry| is wanted if and only if it has waiters or lingers. */
static void check_entry(const el_local_entry *entry) {
  assert(entry->entry.is_wanted == (has_waiters(entry) || entry->is_lingering));
  assert(!entry->is_lingering ||
         (entry->linger != NULL && !has_waiters(entry) &&
          !entry->is_contended && TAILQ_EMPTY(&entry->queue->waiting)));
}

/* Checks that no waiter waits while an entry can be started or added. */
static void check(el_local_queue *queue) {
  const el_waiter *next = TAILQ_FIRST(&queue->waiting);
  const el_local_entry *entry;
  if (queue->queues->closed.code != EL_OK) return;
  TAILQ_FOREACH(entry, &queue->entries, link) { check_entry(entry); }
  assert(next == NULL || !has_lease(queue) || waits_for_delete(queue, next) ||
         !may_start(queue));
}
#endif

/* Starts the next waiters of |queue|, or frees |queue| if it has neither waiters nor entries. An
 * entry outlives its last waiter until its key is deleted, so |queue| lives until then, too. */
static void serve(el_local_queue *queue) {
  el_session *session = queue->queues->session;
  el_local_entry *entry, *next;
  serve_waiters(queue);
  mark_served(queue);
#ifndef NDEBUG
  check(queue);
#endif
  expedite(queue);
  if (!TAILQ_EMPTY(&queue->waiting)) {
    if (!el_session_is_alive(session) && !is_in_use(queue)) {
      session->wanted = true;
    }
    return;
  }
  for (entry = TAILQ_FIRST(&queue->entries); entry != NULL; entry = next) {
    next = TAILQ_NEXT(entry, link);
    if (is_idle(entry)) free_entry(entry);
  }
  if (TAILQ_EMPTY(&queue->entries)) free_queue(queue);
}

void el_local_queues_serve(el_local_queues *queues) {
  el_local_queue *queue;
  while ((queue = TAILQ_FIRST(&queues->changed)) != NULL) {
    serve(queue);
  }
}

bool el_local_queues_are_served(const el_local_queues *queues) {
  return TAILQ_EMPTY(&queues->changed);
}

/* ---- events of the session ---- */

void el_local_queues_mark_changed(el_local_queues *queues) {
  el_local_queue *queue;
  while ((queue = TAILQ_FIRST(&queues->served)) != NULL)
    mark_changed(queue);
}

static void fail_enqueued(el_local_queue *queue, const el_error *err) {
  el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    el_waiter *waiter;
    while ((waiter = TAILQ_FIRST(&entry->waiters)) != NULL &&
           waiter->state == EL_WAITER_ENQUEUED) {
      end_wait(waiter, err);
    }
  }
}

static void fail_waiting(el_local_queue *queue, const el_error *err) {
  while (!TAILQ_EMPTY(&queue->waiting)) {
    fail(TAILQ_FIRST(&queue->waiting), err);
  }
}

void el_local_queues_fail_waiting(el_local_queues *queues,
                                  const el_error *unreachable) {
  el_local_queue *queue;
  el_local_queues_mark_changed(queues);
  TAILQ_FOREACH(queue, &queues->changed, link) {
    fail_enqueued(queue, unreachable);
    fail_waiting(queue, unreachable);
  }
}

void el_local_queues_fail_for_lease(el_local_queues *queues) {
  el_local_queue *queue;
  el_local_queues_mark_changed(queues);
  TAILQ_FOREACH(queue, &queues->changed, link) {
    while (!is_in_use(queue) && !TAILQ_EMPTY(&queue->waiting)) {
      fail_for(TAILQ_FIRST(&queue->waiting), EL_ENTRY_REFUSED);
    }
  }
}

void el_local_queues_expire(el_local_queues *queues) {
  el_local_queue *queue;
  el_local_entry *entry;
  el_local_queues_mark_changed(queues);
  TAILQ_FOREACH(queue, &queues->changed, link) {
    TAILQ_FOREACH(entry, &queue->entries, link) {
      el_entry_expire(&entry->entry);
    }
  }
}

/* Tells whether the key |where| of a multi-lock cannot exist, although the audit lists it. |queue|
 * is the queue of the key; NULL: there is none. The key cannot exist if its slot is free, or if the
 * multi-lock has sent no enqueue yet. The audit may list such a key because a member that is behind
 * also lists deleted keys. */
static bool cannot_have_key(const el_local_queues *queues,
                            const el_local_queue *queue,
                            const el_queue_key *where) {
  if (where->mode != EL_MODE_MULTI) return false;
  return queue == NULL ? is_free_slot(&queues->slots, where->slot)
                       : TAILQ_EMPTY(&queue->entries);
}

/* Returns the name of the lock to which |key|, attached to |lease|, belongs, and fills |where| with
 * the parts of |key|. Empty: |key| belongs to no lock of this client. A key whose name contains a
 * NUL does not, because no lock name contains one. */
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
  el_local_queue *queue;
  el_local_entry *entry;
  if (name.len == 0) return;
  queue = el_lock_names_find(queues->names, name, &where);
  if (cannot_have_key(queues, queue, &where)) return;
  if (queue == NULL) queue = add_queue(queues, name, &where);
  entry = TAILQ_FIRST(&queue->entries);
  while (entry != NULL && entry->entry.slot != where.slot) {
    entry = TAILQ_NEXT(entry, link);
  }
  if (entry == NULL) entry = add_entry(queue, name, where.slot);
  el_entry_find_key(&entry->entry);
}

/* Moves |entry| from its queue to the orphans, because its session has ended. The entry lives there
 * until its last request is answered. The next waiter of the queue gets a new entry, whose key
 * contains another lease. */
static void end_entry_session(el_local_entry *entry, el_session_end end) {
  el_local_queue *orphans = entry->queue->queues->orphans;
  el_entry_end_session(&entry->entry, end);
  assert(!has_waiters(entry));
  stop_linger(entry);
  TAILQ_REMOVE(&entry->queue->entries, entry, link);
  entry->queue = orphans;
  TAILQ_INSERT_TAIL(&orphans->entries, entry, link);
  entry->entry.session->users++;
  if (el_entry_is_finished(&entry->entry)) free_entry(entry);
}

static void end_queue_session(el_local_queue *queue, el_session_end end) {
  el_local_entry *entry;
  /* From the last entry to the first: each entry may put its waiters back at the head of the queue,
   * and the waiters of the first entry must come first. */
  while ((entry = TAILQ_LAST(&queue->entries, el_local_entry_list)) != NULL) {
    end_entry_session(entry, end);
  }
}

void el_local_queues_end_session(el_local_queues *queues, el_session_end end) {
  el_local_queue *queue;
  el_local_queues_mark_changed(queues);
  TAILQ_FOREACH(queue, &queues->changed, link) end_queue_session(queue, end);
}

/* Ends all holds of |queue| as lost, for |loss|, and all waits with |err|. The entries go on. */
static void end_all(el_local_queue *queue, el_loss loss, const el_error *err) {
  el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    el_waiter *waiter;
    while ((waiter = TAILQ_FIRST(&entry->waiters)) != NULL) {
      if (el_waiter_is_holding(waiter)) {
        lose(waiter, loss);
      } else {
        fail(waiter, err);
      }
    }
    stop_linger(entry);
  }
  fail_waiting(queue, err);
}

void el_local_queues_close(el_local_queues *queues, const el_error *err) {
  el_local_queue *queue;
  queues->closed = *err;
  el_local_queues_mark_changed(queues);
  TAILQ_FOREACH(queue, &queues->changed, link) {
    end_all(queue, EL_LOSS_CLOSED, err);
  }
}

void el_local_queues_leave_cluster(el_local_queues *queues,
                                   const el_error *err) {
  el_local_queue *queue;
  el_local_entry *entry, *after;
  el_local_queues_mark_changed(queues);
  TAILQ_FOREACH(queue, &queues->changed, link) {
    end_all(queue, EL_LOSS_CLUSTER, err);
  }
  el_local_queues_end_session(queues, EL_SESSION_END_EARLY);
  entry = TAILQ_FIRST(&queues->orphans->entries);
  for (; entry != NULL; entry = after) {
    after = TAILQ_NEXT(entry, link);
    released(&entry->entry, EL_ENTRY_GONE);
    el_entry_end_session(&entry->entry, EL_SESSION_END_EARLY);
  }
}

/* ---- life ---- */

el_local_queues *el_local_queues_new(el_session *session,
                                     const el_handoff_limits *limits) {
  static const el_entry_events entry_events = {granted, failed,   must_restart,
                                               lost,    released, stepped,
                                               saw_key, pick_slot};
  el_local_queues *queues = el_alloc(sizeof *queues);
  queues->session = session;
  queues->limits = *limits;
  session->entry_events = &entry_events;
  TAILQ_INIT(&queues->served);
  TAILQ_INIT(&queues->changed);
  queues->orphans = new_queue(queues, &(el_queue_key){0}, 0);
  return queues;
}

void el_local_queues_free(el_local_queues *queues) {
  el_local_queue *queue;
  el_local_entry *entry;
  el_local_queues_mark_changed(queues);
  while ((queue = TAILQ_FIRST(&queues->changed)) != NULL) {
    TAILQ_FOREACH(entry, &queue->entries, link) {
      released(&entry->entry, EL_ENTRY_GONE);
    }
    free_queue(queue);
  }
  while ((entry = TAILQ_FIRST(&queues->orphans->entries)) != NULL) {
    released(&entry->entry, EL_ENTRY_GONE);
    free_entry(entry);
  }
  free(queues->slots.are_taken);
  free(queues->orphans);
  free(queues);
}

size_t el_local_queue_size(void) {
  return sizeof(el_local_queue) + sizeof(el_queue_name) +
         sizeof(el_local_entry) + el_entry_watch_size();
}
