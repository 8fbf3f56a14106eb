/* local_queue: the acquisitions of one client for one lock. It decides which of them holds the lock
 * and which is next. */
#include "lock/local_queue.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "protocol/write_order.h"

void el_local_queue_init(el_local_queue *queue, const el_queue_key *where) {
  *queue = (el_local_queue){
      .slot = where->slot, .permits = where->permits, .mode = where->mode};
  TAILQ_INIT(&queue->waiting);
  TAILQ_INIT(&queue->entries);
}

void el_local_queue_add(el_local_queue *queue, el_local_entry *entry,
                        const el_entry *machine) {
  entry->machine = machine;
  TAILQ_INIT(&entry->acquisitions);
  TAILQ_INSERT_TAIL(&queue->entries, entry, link);
}

void el_local_queue_remove(el_local_queue *queue, el_local_entry *entry) {
  assert(TAILQ_EMPTY(&entry->acquisitions) && !entry->is_lingering);
  TAILQ_REMOVE(&queue->entries, entry, link);
}

/* ---- state of a queue and its entries ---- */

static bool has_acquisitions(const el_local_entry *entry) {
  return !TAILQ_EMPTY(&entry->acquisitions);
}

static bool is_shared(const el_local_queue *queue) {
  return queue->mode == EL_MODE_READ;
}

/* Tells whether |entry| can be started. It is not started again while a request of its last
 * acquisition is in flight: both would be about the same key, and etcd may apply two requests in
 * any order. */
static bool is_free(const el_local_entry *entry) {
  return !has_acquisitions(entry) && !entry->is_lingering &&
         el_entry_can_start(entry->machine);
}

/* Returns how many entries of |queue| are in use, or blocked by a lock delay. */
static uint32_t count_taken(const el_local_queue *queue) {
  const el_local_entry *entry;
  uint32_t n = 0;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    n +=
        has_acquisitions(entry) || entry->machine->state == EL_ENTRY_LOCK_DELAY;
  }
  return n;
}

/* Returns an entry of |queue| that can be started. NULL: there is none. */
static el_local_entry *find_free(const el_local_queue *queue) {
  el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    if (is_free(entry)) return entry;
  }
  return NULL;
}

/* Returns the largest number of entries that |queue| may have in use. A writer that was downgraded
 * does not conflict with the entry of the next writer. */
static uint32_t capacity(const el_local_queue *queue) {
  const el_local_entry *entry;
  uint32_t n = 1;
  if (is_shared(queue)) return UINT32_MAX;
  if (queue->mode == EL_MODE_PERMIT) return queue->permits;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    n += entry->is_downgraded && has_acquisitions(entry);
  }
  return n;
}

/* Tells whether one more entry of |queue|, in which none lingers, may be started. While the key of
 * an entry is being deleted, one entry more than the capacity may be in use: the delete and the
 * next enqueue then leave in one batch, which etcd writes to its disk once. If the delete takes
 * longer, the next key waits behind it in etcd's queue. */
static bool may_start(const el_local_queue *queue) {
  const el_local_entry *entry;
  uint32_t n_busy = 0, most = capacity(queue);
  TAILQ_FOREACH(entry, &queue->entries, link) { n_busy += !is_free(entry); }
  return count_taken(queue) < most && n_busy <= most;
}

/* Tells whether |acquisition| has to wait, because the acquisitions before it need as many entries
 * as |queue| may have. */
static bool has_to_wait(const el_local_queue *queue,
                        const el_acquisition *acquisition) {
  const el_acquisition *other = TAILQ_FIRST(&queue->waiting);
  uint32_t n, most = capacity(queue);
  if (is_shared(queue)) return false;
  n = count_taken(queue);
  for (; other != acquisition && n < most; other = TAILQ_NEXT(other, link)) {
    n++;
  }
  return n >= most;
}

/* Tells whether |acquisition| fails instead of waiting for another client. */
static bool is_try(const el_acquisition *acquisition) {
  return acquisition->try_once || acquisition->is_share_only;
}

/* If handoff is switched off, readers still share a key, within the default limits. */
static const el_handoff_limits *limits_of(const el_local_queue *queue,
                                          const el_local_context *context) {
  static const el_handoff_limits defaults = {.holds = 32, .ms = 50};
  return is_shared(queue) && context->limits->holds < 2 ? &defaults
                                                        : context->limits;
}

static bool may_hand_off(const el_local_queue *queue,
                         const el_local_entry *entry,
                         const el_local_context *context) {
  return entry->machine->state == EL_ENTRY_HELD && context->is_proven &&
         entry->holds < limits_of(queue, context)->holds &&
         context->now_ms < entry->granted_ms + limits_of(queue, context)->ms;
}

static void start_budget(el_local_entry *entry,
                         const el_local_context *context) {
  entry->granted_ms = context->now_ms;
  entry->holds = 1;
}

/* ---- actions ---- */

static el_local_action *push(el_local_actions *out, int kind) {
  if (out->n == out->room) {
    out->room = out->room > 0 ? 2 * out->room : 16;
    out->list = el_realloc(out->list, out->room * sizeof *out->list);
  }
  memset(&out->list[out->n], 0, sizeof *out->list);
  out->list[out->n].kind = kind;
  return &out->list[out->n++];
}

static el_local_action *push_for(el_local_actions *out, int kind,
                                 el_local_entry *entry) {
  el_local_action *action = push(out, kind);
  action->entry = entry;
  return action;
}

/* An event of the local queue in entry.h. */
typedef void entry_step(el_entry *entry);

static void step_entry(el_local_entry *entry, entry_step *event,
                       el_local_actions *out) {
  push_for(out, EL_LOCAL_STEP_ENTRY, entry)->step = event;
}

static void stop_watch(el_local_entry *entry, el_local_actions *out) {
  if (!entry->is_watched) return;
  entry->is_watched = false;
  push_for(out, EL_LOCAL_STOP_WATCH, entry);
}

static void stop_lingering(el_local_entry *entry, el_local_actions *out) {
  if (!entry->is_lingering) return;
  entry->is_lingering = false;
  push_for(out, EL_LOCAL_SET_TIMER, entry);
}

/* ---- acquisitions enter and leave entries ---- */

static void enter(el_local_queue *queue, el_local_entry *entry,
                  el_acquisition *acquisition) {
  TAILQ_REMOVE(&queue->waiting, acquisition, link);
  TAILQ_INSERT_TAIL(&entry->acquisitions, acquisition, link);
  acquisition->entry = entry;
  acquisition->state = EL_ACQUISITION_ENQUEUED;
}

static void detach(el_local_queue *queue, el_acquisition *acquisition) {
  if (acquisition->state == EL_ACQUISITION_WAITING) {
    TAILQ_REMOVE(&queue->waiting, acquisition, link);
  } else {
    TAILQ_REMOVE(&acquisition->entry->acquisitions, acquisition, link);
  }
  acquisition->entry = NULL;
  acquisition->state = EL_ACQUISITION_OUT;
}

static el_local_action *fail(el_local_queue *queue, el_acquisition *acquisition,
                             const el_error *err, el_local_actions *out) {
  el_local_action *action = push(out, EL_LOCAL_REPORT_FAILED);
  action->acquisition = acquisition;
  action->entry = acquisition->entry;
  action->err = err;
  action->why = EL_ENTRY_REFUSED;
  detach(queue, acquisition);
  return action;
}

static void lose(el_local_queue *queue, el_acquisition *acquisition,
                 el_loss loss, el_local_actions *out) {
  el_local_action *action = push(out, EL_LOCAL_REPORT_LOST);
  action->acquisition = acquisition;
  action->loss = loss;
  detach(queue, acquisition);
}

static void end_release(el_local_entry *entry, el_acquisition *acquisition,
                        el_entry_ending how, el_local_actions *out) {
  el_local_action *action = push_for(out, EL_LOCAL_REPORT_RELEASED, entry);
  action->acquisition = acquisition;
  action->release = how;
  acquisition->state = EL_ACQUISITION_OUT;
  acquisition->entry = NULL;
}

static void grant(el_acquisition *acquisition, int64_t mod_rev,
                  el_local_actions *out) {
  el_local_entry *entry = acquisition->entry;
  el_local_action *action = push_for(out, EL_LOCAL_REPORT_GRANTED, entry);
  acquisition->state = EL_ACQUISITION_HOLDING;
  action->acquisition = acquisition;
  action->mod_rev = mod_rev;
  if (acquisition->linger_ms > 0 && !entry->is_watched) {
    entry->is_watched = true;
    push_for(out, EL_LOCAL_START_WATCH, entry);
  }
}

/* Lets |acquisition|, which waits, hold by the key of |entry|. */
static void hand_off(el_local_queue *queue, el_local_entry *entry,
                     el_acquisition *acquisition, int64_t mod_rev,
                     el_local_actions *out) {
  entry->holds++;
  enter(queue, entry, acquisition);
  grant(acquisition, mod_rev, out);
  step_entry(entry, el_entry_watch_own_key, out);
}

/* Grants the lingering key of |entry| to the first acquisition in |waiting|. The handoff budget
 * starts again, because no contender was seen. */
static void take_lingering(el_local_queue *queue, el_local_entry *entry,
                           const el_local_context *context,
                           el_local_actions *out) {
  el_acquisition *next = TAILQ_FIRST(&queue->waiting);
  int64_t mod_rev = entry->mod_rev;
  stop_lingering(entry, out);
  start_budget(entry, context);
  enter(queue, entry, next);
  grant(next, mod_rev, out);
}

/* ---- the last acquisition of an entry has left ---- */

/* Tells whether an acquisition has an entry that is not granted yet. It joined before those that
 * wait for an entry. */
static bool has_enqueued(const el_local_queue *queue) {
  const el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    const el_acquisition *first = TAILQ_FIRST(&entry->acquisitions);
    if (first != NULL && first->state == EL_ACQUISITION_ENQUEUED) return true;
  }
  return false;
}

static bool try_hand_off(el_local_queue *queue, el_local_entry *entry,
                         int64_t mod_rev, const el_local_context *context,
                         el_local_actions *out) {
  el_acquisition *next = TAILQ_FIRST(&queue->waiting);
  if (next == NULL || has_enqueued(queue) ||
      !may_hand_off(queue, entry, context)) {
    return false;
  }
  hand_off(queue, entry, next, mod_rev, out);
  return true;
}

static bool try_linger(const el_local_queue *queue, el_local_entry *entry,
                       int32_t linger_ms, int64_t mod_rev,
                       const el_local_context *context, el_local_actions *out) {
  if (linger_ms == 0 || !TAILQ_EMPTY(&queue->waiting) || has_enqueued(queue) ||
      entry->is_contended || context->has_conflicting_waiter ||
      !context->is_proven || entry->machine->state != EL_ENTRY_HELD) {
    return false;
  }
  entry->is_lingering = true;
  entry->mod_rev = mod_rev;
  step_entry(entry, el_entry_watch_own_key, out);
  push_for(out, EL_LOCAL_SET_TIMER, entry)->at_ms = context->now_ms + linger_ms;
  return true;
}

/* Ends everything that was started for the acquisitions of |entry|, after the last one has left,
 * and gives the entry |event|. */
static void stop(el_local_entry *entry, entry_step *event,
                 el_local_actions *out) {
  stop_lingering(entry, out);
  stop_watch(entry, out);
  step_entry(entry, event, out);
}

/* Ends the hold of |acquisition|, the last one of |entry|: its key is handed off, lingers or is
 * deleted. */
static void unlock_last(el_local_queue *queue, el_local_entry *entry,
                        el_acquisition *acquisition,
                        const el_local_event *event,
                        const el_local_context *context,
                        el_local_actions *out) {
  bool is_key_kept =
      event->how == EL_LEAVE_VOLUNTARY && event->mod_rev >= 0 &&
      !entry->is_downgraded &&
      (try_hand_off(queue, entry, event->mod_rev, context, out) ||
       try_linger(queue, entry, acquisition->linger_ms, event->mod_rev, context,
                  out));
  if (is_key_kept) {
    end_release(entry, acquisition, EL_ENTRY_DELETED, out);
    return;
  }
  assert(entry->releasing == NULL);
  entry->releasing = acquisition;
  acquisition->entry = entry;
  acquisition->state = EL_ACQUISITION_RELEASING;
  stop(entry, el_entry_release, out);
}

static void leave_hold(el_local_queue *queue, el_acquisition *acquisition,
                       const el_local_event *event,
                       const el_local_context *context, el_local_actions *out) {
  el_local_entry *entry = acquisition->entry;
  if (event->how == EL_LEAVE_LOST) {
    entry_step *end = event->loss == EL_LOSS_MAX_HOLD ? el_entry_end_max_hold
                                                      : el_entry_expire;
    lose(queue, acquisition, event->loss, out);
    if (!has_acquisitions(entry)) {
      stop(entry, end, out);
    } else if (event->loss == EL_LOSS_EXPIRED) {
      /* also ends the holds of the other readers */
      step_entry(entry, end, out);
    }
    return;
  }
  detach(queue, acquisition);
  if (has_acquisitions(entry)) {
    end_release(entry, acquisition, EL_ENTRY_DELETED, out);
  } else {
    unlock_last(queue, entry, acquisition, event, context, out);
  }
}

static void leave_wait(el_local_queue *queue, el_acquisition *acquisition,
                       const el_error *err, el_local_actions *out) {
  el_local_entry *entry = acquisition->entry;
  fail(queue, acquisition, err, out);
  if (entry != NULL && !has_acquisitions(entry))
    stop(entry, el_entry_release, out);
}

static void on_leave(el_local_queue *queue, const el_local_event *event,
                     const el_local_context *context, el_local_actions *out) {
  switch (event->acquisition->state) {
    case EL_ACQUISITION_OUT:
    case EL_ACQUISITION_RELEASING:
      return;
    case EL_ACQUISITION_HOLDING:
      leave_hold(queue, event->acquisition, event, context, out);
      return;
    case EL_ACQUISITION_WAITING:
    case EL_ACQUISITION_ENQUEUED:
      leave_wait(queue, event->acquisition, event->err, out);
      return;
  }
}

/* Ends the hold of |acquisition| only, because readers that share a key have a max_hold each. */
static void on_max_hold(el_local_queue *queue, el_acquisition *acquisition,
                        const el_local_context *context,
                        el_local_actions *out) {
  static const el_local_event lost = {.how = EL_LEAVE_LOST,
                                      .loss = EL_LOSS_MAX_HOLD};
  if (acquisition->state == EL_ACQUISITION_HOLDING) {
    leave_hold(queue, acquisition, &lost, context, out);
  }
}

/* ---- the next acquisition ---- */

/* Lets |next|, a reader, share the hold of other readers, if it may. */
static bool share_hold(el_local_queue *queue, el_acquisition *next,
                       const el_local_context *context, el_local_actions *out) {
  el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    if (has_acquisitions(entry) && entry->machine->state == EL_ENTRY_HELD &&
        context->is_proven &&
        (next->is_share_only || may_hand_off(queue, entry, context))) {
      hand_off(queue, entry, next, 0, out);
      return true;
    }
  }
  return false;
}

/* Lets |next| wait on an entry on which other readers wait, if there is one. A try gets an entry of
 * its own. */
static bool share_wait(el_local_queue *queue, el_acquisition *next) {
  el_local_entry *entry;
  if (is_try(next)) return false;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    const el_acquisition *first = TAILQ_FIRST(&entry->acquisitions);
    if (first != NULL && first->state == EL_ACQUISITION_ENQUEUED &&
        !is_try(first)) {
      enter(queue, entry, next);
      return true;
    }
  }
  return false;
}

static void start(el_local_queue *queue, el_local_entry *entry,
                  el_acquisition *next, el_local_actions *out) {
  el_local_action *action = push_for(out, EL_LOCAL_START_ENTRY, entry);
  TAILQ_REMOVE(&queue->entries, entry, link);
  TAILQ_INSERT_TAIL(&queue->entries, entry, link);
  entry->is_downgraded = entry->is_contended = false;
  enter(queue, entry, next);
  action->acquisition = next;
  action->try_once = is_try(next);
}

/* Starts an entry for |next|. Returns false if none can be started now. */
static bool start_one(el_local_queue *queue, el_acquisition *next,
                      el_local_actions *out) {
  el_local_entry *free_entry = find_free(queue);
  if (!may_start(queue)) return false;
  if (free_entry == NULL) {
    push(out, EL_LOCAL_ADD_ENTRY);
    return false;
  }
  start(queue, free_entry, next, out);
  return true;
}

static el_local_entry *find_lingering(const el_local_queue *queue) {
  el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    if (entry->is_lingering) return entry;
  }
  return NULL;
}

/* Tells whether |next| is a try that must wait until this client has deleted a key, because
 * otherwise the try would fail on that key. Readers do not block each other, so they do not wait
 * for a delete in their own queue. */
static bool waits_for_delete(const el_local_queue *queue,
                             const el_acquisition *next,
                             const el_local_context *context) {
  return is_try(next) &&
         (context->has_conflicting_delete ||
          (!is_shared(queue) && el_local_queue_is_deleting(queue)));
}

/* Gives the first waiting acquisition a key or an entry. Returns false if that is not possible
 * now. */
static bool serve_next(el_local_queue *queue, const el_local_context *context,
                       el_local_actions *out) {
  el_acquisition *next = TAILQ_FIRST(&queue->waiting);
  el_local_entry *lingering = find_lingering(queue);
  if (lingering != NULL && context->is_proven) {
    take_lingering(queue, lingering, context, out);
    return true;
  }
  if (lingering != NULL) stop(lingering, el_entry_release, out);
  if (is_shared(queue) &&
      (share_hold(queue, next, context, out) || share_wait(queue, next))) {
    return true;
  }
  return !waits_for_delete(queue, next, context) && start_one(queue, next, out);
}

static void settle(el_local_queue *queue, const el_local_context *context,
                   el_local_actions *out) {
  if (!context->has_lease) return;
  while (!TAILQ_EMPTY(&queue->waiting) && serve_next(queue, context, out)) {
  }
}

static void on_join(el_local_queue *queue, el_acquisition *acquisition,
                    el_local_actions *out) {
  assert(acquisition->state == EL_ACQUISITION_OUT);
  acquisition->state = EL_ACQUISITION_WAITING;
  acquisition->entry = NULL;
  TAILQ_INSERT_TAIL(&queue->waiting, acquisition, link);
  acquisition->has_waited = has_to_wait(queue, acquisition);
  if (acquisition->try_once && acquisition->has_waited) {
    el_local_action *action = fail(queue, acquisition, NULL, out);
    action->why = EL_ENTRY_LOCKED;
    action->is_locked_here = true;
  }
}

/* ---- reports of an entry ---- */

static void fail_acquisitions(el_local_queue *queue, el_local_entry *entry,
                              el_entry_failure why, el_local_actions *out) {
  while (has_acquisitions(entry)) {
    fail(queue, TAILQ_FIRST(&entry->acquisitions), NULL, out)->why = why;
  }
}

static void on_granted(const el_local_queue *queue, el_local_entry *entry,
                       const el_local_context *context, el_local_actions *out) {
  int64_t mod_rev =
      el_write_order_initial_rev((el_mode)queue->mode, entry->machine->rev);
  el_acquisition *acquisition;
  assert(has_acquisitions(entry));
  start_budget(entry, context);
  TAILQ_FOREACH(acquisition, &entry->acquisitions, link) {
    grant(acquisition, mod_rev, out);
  }
}

/* The session ended before the key was in etcd's queue. The acquisitions of |entry| wait again,
 * before those that joined later. */
static void restart(el_local_queue *queue, el_local_entry *entry) {
  el_acquisition *acquisition;
  while ((acquisition =
              TAILQ_LAST(&entry->acquisitions, el_acquisition_list)) != NULL) {
    detach(queue, acquisition);
    acquisition->state = EL_ACQUISITION_WAITING;
    TAILQ_INSERT_HEAD(&queue->waiting, acquisition, link);
  }
}

static void lose_all(el_local_queue *queue, el_local_entry *entry, el_loss loss,
                     el_local_actions *out) {
  while (has_acquisitions(entry)) {
    lose(queue, TAILQ_FIRST(&entry->acquisitions), loss, out);
  }
  stop_lingering(entry, out);
  stop_watch(entry, out);
}

static void on_released(el_local_entry *entry, el_entry_ending how,
                        el_local_actions *out) {
  el_acquisition *acquisition = entry->releasing;
  if (acquisition == NULL)
    return; /* a wait was given up, or the release was reported before */
  entry->releasing = NULL;
  end_release(entry, acquisition, how, out);
}

/* ---- contenders ---- */

static void on_contender(el_local_entry *entry, el_local_actions *out) {
  entry->is_contended = true;
  if (entry->is_lingering) stop(entry, el_entry_release, out);
}

/* Deletes the lingering keys, because an acquisition joins a conflicting local queue. Entries that
 * do not linger are not marked as contended: before such an entry lingers, its watch or
 * |has_conflicting_waiter| shows the contender. */
static void end_lingering(el_local_queue *queue, el_local_actions *out) {
  el_local_entry *entry;
  while ((entry = find_lingering(queue)) != NULL) {
    stop(entry, el_entry_release, out);
  }
}

static void on_timer(el_local_entry *entry, el_local_actions *out) {
  if (entry->is_lingering) stop(entry, el_entry_release, out);
}

/* ---- all waits or holds end ---- */

static void fail_waiting(el_local_queue *queue, const el_error *err,
                         el_local_actions *out) {
  while (!TAILQ_EMPTY(&queue->waiting)) {
    fail(queue, TAILQ_FIRST(&queue->waiting), err, out);
  }
}

static void fail_enqueued(el_local_queue *queue, const el_error *err,
                          el_local_actions *out) {
  el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    el_acquisition *acquisition;
    while ((acquisition = TAILQ_FIRST(&entry->acquisitions)) != NULL &&
           acquisition->state == EL_ACQUISITION_ENQUEUED) {
      leave_wait(queue, acquisition, err, out);
    }
  }
}

static void close_all(el_local_queue *queue, const el_local_event *event,
                      el_local_actions *out) {
  el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    el_acquisition *acquisition;
    while ((acquisition = TAILQ_FIRST(&entry->acquisitions)) != NULL) {
      if (acquisition->state == EL_ACQUISITION_HOLDING) {
        lose(queue, acquisition, event->loss, out);
      } else {
        fail(queue, acquisition, event->err, out);
      }
    }
    stop_lingering(entry, out);
    stop_watch(entry, out);
  }
  fail_waiting(queue, event->err, out);
}

/* ---- step ---- */

static void apply(el_local_queue *queue, const el_local_event *event,
                  const el_local_context *context, el_local_actions *out) {
  switch (event->kind) {
    case EL_LOCAL_ON_JOIN:
      on_join(queue, event->acquisition, out);
      break;
    case EL_LOCAL_ON_LEAVE:
      on_leave(queue, event, context, out);
      break;
    case EL_LOCAL_ON_MAX_HOLD:
      on_max_hold(queue, event->acquisition, context, out);
      break;
    case EL_LOCAL_ON_DOWNGRADED:
      if (event->acquisition->state == EL_ACQUISITION_HOLDING) {
        event->acquisition->entry->is_downgraded = true;
      }
      break;
    /* After a report of an entry, the caller settles the queue later. */
    case EL_LOCAL_ON_GRANTED:
      on_granted(queue, event->entry, context, out);
      return;
    case EL_LOCAL_ON_FAILED:
      fail_acquisitions(queue, event->entry, event->failure, out);
      return;
    case EL_LOCAL_ON_RESTART:
      restart(queue, event->entry);
      return;
    case EL_LOCAL_ON_LOST:
      lose_all(queue, event->entry, event->loss, out);
      return;
    case EL_LOCAL_ON_RELEASED:
      on_released(event->entry, event->ending, out);
      return;
    case EL_LOCAL_ON_CONTENDER:
      if (event->entry != NULL) {
        on_contender(event->entry, out);
      } else {
        end_lingering(queue, out);
      }
      break;
    case EL_LOCAL_ON_TIMER:
      on_timer(event->entry, out);
      break;
    case EL_LOCAL_ON_UNREACHABLE:
      fail_enqueued(queue, event->err, out);
      fail_waiting(queue, event->err, out);
      return;
    case EL_LOCAL_ON_LEASE_REFUSED:
      if (!el_local_queue_is_in_use(queue)) {
        fail_waiting(queue, NULL, out);
      }
      return;
    case EL_LOCAL_ON_CLOSE:
      close_all(queue, event, out);
      return;
    case EL_LOCAL_ON_SETTLE:
      break;
  }
  settle(queue, context, out);
}

void el_local_queue_step(el_local_queue *queue, const el_local_event *event,
                         const el_local_context *context,
                         el_local_actions *out) {
  size_t first = out->n;
  apply(queue, event, context, out);
  for (; first < out->n; first++) {
    out->list[first].queue = queue;
  }
}

/* ---- queries of the caller ---- */

bool el_local_entry_is_idle(const el_local_entry *entry) {
  return !has_acquisitions(entry) && entry->releasing == NULL &&
         !entry->is_lingering && el_entry_is_finished(entry->machine);
}

bool el_local_queue_has_waiters(const el_local_queue *queue) {
  return !TAILQ_EMPTY(&queue->waiting) || has_enqueued(queue);
}

bool el_local_queue_is_deleting(const el_local_queue *queue) {
  const el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    const el_entry *machine = entry->machine;
    if (!has_acquisitions(entry) && !entry->is_lingering &&
        !el_entry_can_start(machine) && machine->state != EL_ENTRY_LOCK_DELAY &&
        machine->state != EL_ENTRY_ENDED) {
      return true;
    }
  }
  return false;
}

bool el_local_queue_is_in_use(const el_local_queue *queue) {
  const el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    if (has_acquisitions(entry)) return true;
  }
  return false;
}

static const char *check_entry(const el_local_queue *queue,
                               const el_local_entry *entry) {
  bool is_wanted = has_acquisitions(entry) || entry->is_lingering;
  if (entry->machine->is_wanted != is_wanted) {
    return is_wanted ? "an entry that is not wanted has acquisitions"
                     : "an entry without acquisitions is wanted";
  }
  if (entry->is_lingering && has_acquisitions(entry)) {
    return "an entry that lingers has acquisitions";
  }
  if (entry->is_lingering && entry->is_contended) {
    return "an entry lingers although it is contended";
  }
  if (entry->is_lingering && !TAILQ_EMPTY(&queue->waiting)) {
    return "an entry lingers although an acquisition waits";
  }
  return NULL;
}

const char *el_local_queue_check(const el_local_queue *queue,
                                 const el_local_context *context) {
  const el_acquisition *next = TAILQ_FIRST(&queue->waiting);
  const el_local_entry *entry;
  TAILQ_FOREACH(entry, &queue->entries, link) {
    const char *broken = check_entry(queue, entry);
    if (broken != NULL) return broken;
  }
  if (next == NULL || !context->has_lease || !may_start(queue) ||
      waits_for_delete(queue, next, context)) {
    return NULL;
  }
  return "an acquisition waits although an entry is free";
}
