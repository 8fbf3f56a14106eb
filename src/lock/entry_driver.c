/* entry_driver: carries out the actions of one entry. */
#include "lock/entry_driver.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "protocol/lock_txn.h"

static void step(el_entry_driver *driver, el_entry_actions *actions);

/* ---- requests ---- */

/* The request of an entry that is in flight. */
typedef struct el_sent {
  el_request request;
  el_entry_driver *driver;
  el_entry_action action;
} el_sent;

/* For each kind of request, the offset of its counter in el_stats. */
static const size_t counted_as[] = {
    [EL_REQUEST_TRY] = offsetof(el_stats, tries),
    [EL_REQUEST_ENQUEUE] = offsetof(el_stats, enqueues),
    [EL_REQUEST_READ] = offsetof(el_stats, looks),
    [EL_REQUEST_DELETE] = offsetof(el_stats, deletes),
};

static void note_result(el_entry_driver *driver, const el_error *err) {
  if (err->code == EL_OK) {
    free(driver->last_error);
    driver->last_error = NULL;
    return;
  }
  if (driver->last_error == NULL)
    driver->last_error = el_alloc(sizeof *driver->last_error);
  *driver->last_error = *err;
}

/* Handles the answer that the lease does not exist. The key was not put, so the failure is
 * definite. The session ends for the same reason, and the waiter starts again with the next
 * lease. */
static void tell_lease_gone(el_entry_driver *driver, const el_error *err,
                            el_entry_answer *seen) {
  seen->outcome.is_definite = seen->outcome.is_retriable = true;
  el_session_driver_lease_gone(driver->session->driver, driver->keys.lease,
                               err);
}

/* Gives our key another name, because user data has its name. The key was not put, so the failure
 * is definite, and the request is soon repeated. */
static void change_name(el_entry_driver *driver, el_entry_answer *seen) {
  driver->slot = driver->session->entry_events->pick_slot(driver);
  el_keys_set_slot(&driver->keys, driver->slot);
  *seen =
      (el_entry_answer){.outcome = {.is_definite = true, .is_retriable = true}};
}

static void tell_holder(el_entry_driver *driver, const el_entry_action *action,
                        const el_txn_answer *answer) {
  el_bytes label = el_lock_txn_holder_value(&driver->keys, action, answer);
  if (label.len > 0) driver->session->entry_events->saw_holder(driver, label);
}

static void tell_other_permits(el_entry_driver *driver,
                               const el_entry_action *action,
                               const el_txn_answer *answer) {
  uint16_t permits;
  el_bytes label;
  if (el_lock_txn_other_permits(&driver->keys, action, answer, &permits,
                                &label)) {
    driver->session->entry_events->saw_other_permits(driver, permits, label);
  }
}

static int64_t proven_rev(const el_entry_driver *driver, int64_t now_ms) {
  return el_session_driver_proven_rev(driver->session->driver, now_ms);
}

static void on_answer(el_request *request, el_txn_answer *answer) {
  EL_UNINITIALIZED el_entry_actions actions;
  el_sent *out = EL_CONTAINER_OF(request, el_sent, request);
  el_entry_driver *driver = out->driver;
  el_entry_answer seen;
  int64_t now_ms = el_now_ms();
  driver->sent = NULL;
  if (answer == NULL) { /* the client stops */
    driver->entry.in_flight = EL_REQUEST_NONE;
    free(out);
    return;
  }
  el_lock_txn_read(&driver->keys, &out->action, driver->entry.rev,
                   driver->value, answer, &seen);
  note_result(driver, &answer->err);
  if (answer->err.is_lease_gone) {
    tell_lease_gone(driver, &answer->err, &seen);
  }
  if (seen.outcome.is_done) {
    tell_holder(driver, &out->action, answer);
    tell_other_permits(driver, &out->action, answer);
  }
  if (seen.is_name_taken) change_name(driver, &seen);
  el_txn_answer_free(answer);
  free(out);
  seen.proven_rev = proven_rev(driver, now_ms);
  el_entry_answered(&driver->entry, &seen, now_ms, &actions);
  step(driver, &actions);
}

/* Tells whether the next request of the entry is a background request. Audit reads and retries are,
 * unless a caller or another waiter of this client needs the entry. If an unlock waits for the
 * release, its first retry is a foreground request, too. The first delete always is one, because
 * other clients may wait for the key. */
static bool is_background(const el_entry_driver *driver) {
  const el_entry *entry = &driver->entry;
  if (entry->is_wanted || driver->is_expedited) return false;
  return entry->state == EL_ENTRY_AUDITING ||
         entry->failures > (driver->is_release_awaited ? 1 : 0);
}

static void send(el_entry_driver *driver, const el_entry_action *action) {
  el_sent *out = el_alloc(sizeof *out);
  EL_UNINITIALIZED el_lock_txn built;
  out->request.done = on_answer;
  out->request.is_background = is_background(driver);
  out->request.counted_as = counted_as[action->request];
  out->request.is_enqueue = action->request == EL_REQUEST_ENQUEUE ||
                            action->request == EL_REQUEST_TRY;
  if (action->request != EL_REQUEST_READ) {
    out->request.lock_queue = el_keys_queue_hash(&driver->keys);
  }
  out->request.is_unbatched =
      driver->keys.next != NULL && action->request != EL_REQUEST_READ;
  out->driver = driver;
  out->action = *action;
  driver->sent = out;
  el_lock_txn_build(&built, &driver->keys, action, driver->entry.rev,
                    driver->value);
  el_request_queue_send(driver->session->shared->requests, &out->request,
                        &built.txn);
}

/* ---- watches ---- */

typedef struct el_key_watch {
  el_watch watch;
  el_entry_driver *driver;
  struct el_key_watch *next;
  /* The store's revision when the watch was created or reported its last event. 0: the watch is not
   * created yet. 1: etcd has refused the watch. */
  int64_t seen_rev;
  char key[]; /* the key, or the prefix, that is watched */
} el_key_watch;

/* all_created_rev returns the largest revision that the watches of the entry have seen. It returns
 * 0 while a watch is not created yet, so that the entry reads once after all are created, instead
 * of once after each. (If the last watch is refused, there is no such read. The periodic read of
 * the entry then finds what was missed.) */
static int64_t all_created_rev(const el_entry_driver *driver) {
  const el_key_watch *watched = driver->watched;
  int64_t last = 0;
  for (; watched != NULL; watched = watched->next) {
    if (watched->seen_rev == 0) return 0;
    if (watched->seen_rev > last) last = watched->seen_rev;
  }
  return last;
}

static void on_watch_created(el_key_watch *watched, int64_t rev) {
  EL_UNINITIALIZED el_entry_actions actions;
  el_entry_driver *driver = watched->driver;
  /* the watch was created again, on a member that is behind */
  bool is_behind = rev < watched->seen_rev;
  EL_COUNT(&driver->session->shared->counters, watches, 1);
  watched->seen_rev = rev;
  if (!is_behind) rev = all_created_rev(driver);
  if (rev == 0) return;
  el_entry_watch_created(&driver->entry, rev, &actions);
  step(driver, &actions);
}

static void on_key_changed(el_key_watch *watched, const el_watch_event *event) {
  EL_UNINITIALIZED el_entry_actions actions;
  el_entry_driver *driver = watched->driver;
  el_key_change change = EL_KEY_PUT;
  /* The watch was in the cache before, and the entry has already read a later state. */
  if (event->rev < watched->seen_rev) return;
  watched->seen_rev = event->rev;
  if (event->kind == EL_WATCH_DELETED) {
    change = EL_KEY_DELETED;
  } else if (el_key_is_detached(event->key, event->lease)) {
    change = EL_KEY_DETACHED;
  }
  el_entry_key_changed(&driver->entry, event->rev, change,
                       proven_rev(driver, el_now_ms()) != 0, &actions);
  step(driver, &actions);
}

static void on_watch_event(el_watch *watch, const el_watch_event *event) {
  el_key_watch *watched = EL_CONTAINER_OF(watch, el_key_watch, watch);
  switch (event->kind) {
    case EL_WATCH_CREATED:
      on_watch_created(watched, event->rev);
      return;
    case EL_WATCH_DELETED:
    case EL_WATCH_PUT:
      on_key_changed(watched, event);
      return;
    case EL_WATCH_REFUSED:
      watched->seen_rev = 1;
      note_result(watched->driver, &event->err);
      el_entry_driver_signal(watched->driver, EL_ENTRY_ON_WATCH_REFUSED);
      return;
  }
}

static bool is_own_key(const el_entry_driver *driver, el_bytes key) {
  const el_keys *own = &driver->keys;
  while (own != NULL && !el_bytes_are_equal(el_keys_own(own), key)) {
    own = own->next;
  }
  return own != NULL;
}

static void stop_watch(el_entry_driver *driver) {
  el_key_watch *watched;
  while ((watched = driver->watched) != NULL) {
    driver->watched = watched->next;
    if (is_own_key(driver, watched->watch.key)) {
      el_watch_stop(driver->session->shared->watches, &watched->watch);
    } else {
      el_watch_cache_put(driver->session->watch_cache, &watched->watch,
                         watched->seen_rev);
    }
    free(watched);
  }
}

static el_key_watch *add_watch(el_entry_driver *driver, el_bytes *key) {
  el_key_watch *watched = el_alloc(sizeof *watched + key->len);
  memcpy(watched->key, key->data, key->len);
  watched->watch.on_event = on_watch_event;
  watched->driver = driver;
  watched->next = driver->watched;
  driver->watched = watched;
  key->data = watched->key;
  return watched;
}

static void watch_own(el_entry_driver *driver, el_bytes key) {
  el_key_watch *watched = add_watch(driver, &key);
  el_watch_start(driver->session->shared->watches, &watched->watch, key);
}

static void watch_mode(el_entry_driver *driver, el_bytes stem) {
  el_key_watch *watched = add_watch(driver, &stem);
  el_watch_start_prefix(driver->session->shared->watches, &watched->watch,
                        stem);
}

/* watch_key watches |key|, a key of another client. The entry knows the state of |key| at the
 * revision |driver|->entry.watch_rev. If the watch cache has a watch of |key|, that watch is
 * used. */
static void watch_key(el_entry_driver *driver, el_bytes key) {
  el_key_watch *watched = add_watch(driver, &key);
  watched->seen_rev =
      el_watch_cache_take(driver->session->watch_cache, &watched->watch, key,
                          driver->entry.watch_rev);
  if (watched->seen_rev == 0) {
    el_watch_start(driver->session->shared->watches, &watched->watch, key);
  }
}

static void watch_blocker(el_entry_driver *driver,
                          const el_queue_key *blocker) {
  char key[EL_KEY_SIZE];
  el_bytes name = el_keys_name(el_keys_at(&driver->keys, blocker->name_index));
  el_queue_key marker;
  if (blocker->lease == 0) {
    watch_mode(driver,
               (el_bytes){key, el_key_write_prefix(key, name, blocker->mode)});
    return;
  }
  watch_key(driver, (el_bytes){key, el_key_write(key, name, blocker)});
  if (el_conflict_may_downgrade(&driver->keys, blocker, &marker)) {
    watch_key(driver, (el_bytes){key, el_key_write(key, name, &marker)});
  }
}

static void start_watch(el_entry_driver *driver, const el_queue_key *blocker) {
  stop_watch(driver);
  driver->has_waited =
      driver->has_waited || driver->entry.state == EL_ENTRY_WAITING;
  if (blocker->rev != 0) {
    watch_blocker(driver, blocker);
    return;
  }
  for (const el_keys *own = &driver->keys; own != NULL; own = own->next) {
    watch_own(driver, el_keys_own(own));
  }
}

/* ---- steps ---- */

static void carry_out(el_entry_driver *driver, const el_entry_action *action) {
  switch (action->kind) {
    case EL_ENTRY_SEND_REQUEST:
      send(driver, action);
      return;
    case EL_ENTRY_START_WATCH:
      start_watch(driver, &action->key);
      return;
    case EL_ENTRY_STOP_WATCH:
      stop_watch(driver);
      return;
    case EL_ENTRY_REPORT_PUT_IN_DOUBT:
      el_session_driver_signal(driver->session->driver, driver->keys.lease,
                               EL_SESSION_ON_PUT_IN_DOUBT);
      return;
    case EL_ENTRY_CONFIRM_LEASE:
      el_session_driver_signal(driver->session->driver, driver->keys.lease,
                               EL_SESSION_ON_CONFIRM);
      return;
    case EL_ENTRY_REPORT_SIGHT:
      el_session_driver_add_sight(driver->session->driver, &action->sight);
      return;
    default:
      driver->session->entry_events->reported(driver, action);
  }
}

static void note_proving(el_entry_driver *driver, bool is_entry_proving) {
  if (is_entry_proving && !driver->is_proving) {
    TAILQ_INSERT_TAIL(&driver->session->proving, driver, proving_link);
  } else if (!is_entry_proving && driver->is_proving) {
    TAILQ_REMOVE(&driver->session->proving, driver, proving_link);
  }
  driver->is_proving = is_entry_proving;
}

/* note_state updates the lists and the timer of the entry after a step. It must run before the
 * actions of the step are carried out, because an action may start a lease check, and that may read
 * the key of this entry. */
static void note_state(el_entry_driver *driver) {
  const el_entry *entry = &driver->entry;
  bool is_entry_proving = entry->state == EL_ENTRY_PROVING;
  bool is_held = entry->state == EL_ENTRY_HELD;
  /* A key is listed before its grant, and while its put is in flight, so that keepalives are proven
   * while the grant takes long. */
  bool is_listed =
      is_entry_proving || is_held || entry->state == EL_ENTRY_ENQUEUING ||
      entry->state == EL_ENTRY_TRYING ||
      (entry->state == EL_ENTRY_WAITING && entry->predecessor.rev == 0);
  note_proving(driver, is_entry_proving || entry->state == EL_ENTRY_CONFIRMING);
  if (is_listed) {
    driver->checked_key.rev = entry->rev;
    el_session_driver_add_key(driver->session->driver, &driver->checked_key,
                              is_held);
  } else {
    el_session_driver_remove_key(driver->session->driver, &driver->checked_key);
  }
  if (entry->wake_at != 0) {
    el_timers_set(driver->session->shared->timers, &driver->timer,
                  entry->wake_at);
  } else {
    el_timers_stop(driver->session->shared->timers, &driver->timer);
  }
}

/* has_missed tells whether the watched key may have changed without an event: between the last read
 * of the entry and the revision from which the cached watch reports to the entry. */
static bool has_missed(const el_entry_driver *driver) {
  const el_entry *entry = &driver->entry;
  return entry->state == EL_ENTRY_WAITING && entry->is_watching &&
         all_created_rev(driver) > entry->watch_rev;
}

static void carry_out_all(el_entry_driver *driver,
                          const el_entry_actions *actions) {
  note_state(driver);
  for (int i = 0; i < actions->n; i++) {
    carry_out(driver, &actions->list[i]);
  }
}

/* withdraw removes the request of the entry from the request queue, if it has not left and is not
 * needed any more. Such a request would put a key that no waiter wants, or use a lease that is
 * gone. Returns whether a request was removed. */
static bool withdraw(el_entry_driver *driver) {
  el_sent *sent = driver->sent;
  el_entry_state state = driver->entry.state;
  bool is_obsolete =
      state == EL_ENTRY_ENDED || (state == EL_ENTRY_RELEASING && sent != NULL &&
                                  sent->action.request != EL_REQUEST_DELETE);
  if (!is_obsolete || sent == NULL ||
      !el_request_queue_withdraw(driver->session->shared->requests,
                                 &sent->request)) {
    return false;
  }
  driver->sent = NULL;
  free(sent);
  return true;
}

/* step completes a step of the entry, which has filled |actions|. */
static void step(el_entry_driver *driver, el_entry_actions *actions) {
  static const el_entry_answer withdrawn = {
      .outcome = {.is_definite = true, .is_retriable = true}};
  carry_out_all(driver, actions);
  while (withdraw(driver)) {
    el_entry_answered(&driver->entry, &withdrawn, el_now_ms(), actions);
    carry_out_all(driver, actions);
  }
  if (has_missed(driver)) {
    el_entry_watch_created(&driver->entry, all_created_rev(driver), actions);
    carry_out_all(driver, actions);
  }
  driver->session->entry_events->stepped(driver); /* may free |driver| */
}

void el_entry_driver_signal(el_entry_driver *driver, el_entry_signal signal) {
  EL_UNINITIALIZED el_entry_actions actions;
  el_entry_step(&driver->entry, signal, el_now_ms(), &actions);
  step(driver, &actions);
}

void el_entry_driver_start(el_entry_driver *driver, bool try_once,
                           el_bytes value) {
  driver->value = value;
  driver->has_waited = driver->is_release_awaited = driver->is_expedited =
      false;
  /* a background read, which a caller needs now */
  if (driver->sent != NULL) {
    el_request_queue_expedite(driver->session->shared->requests,
                              &driver->sent->request);
  }
  el_entry_driver_signal(driver,
                         try_once ? EL_ENTRY_ON_TRY : EL_ENTRY_ON_ACQUIRE);
}

void el_entry_driver_expedite(el_entry_driver *driver) {
  driver->is_expedited = true;
  if (driver->sent != NULL) {
    el_request_queue_expedite(driver->session->shared->requests,
                              &driver->sent->request);
  }
}

void el_entry_driver_end_session(el_entry_driver *driver, el_session_end end) {
  EL_UNINITIALIZED el_entry_actions actions;
  el_entry_session_ended(&driver->entry, end, &actions);
  step(driver, &actions);
}

static void on_timer(el_timer *timer) {
  el_entry_driver_signal(EL_CONTAINER_OF(timer, el_entry_driver, timer),
                         EL_ENTRY_ON_TIMER);
}

void el_entry_driver_key_gone(el_entry_driver *driver, int64_t rev,
                              bool detached) {
  EL_UNINITIALIZED el_entry_actions actions;
  el_entry_key_gone(&driver->entry, rev, detached, &actions);
  step(driver, &actions);
}

void el_entry_driver_key_checked(el_checked_key *key, bool is_found,
                                 bool is_detached) {
  el_entry_driver *driver = EL_CONTAINER_OF(key, el_entry_driver, checked_key);
  if (is_found) {
    el_entry_driver_signal(driver, EL_ENTRY_ON_KEY_SEEN);
  } else {
    el_entry_driver_key_gone(driver, key->rev, is_detached);
  }
}

void el_client_session_settle_proving(el_client_session *session) {
  bool is_proven;
  int64_t renewed_ms;
  el_entry_driver *driver, *next;
  if (TAILQ_EMPTY(&session->proving)) return;
  is_proven = el_session_driver_is_proven(session->driver, el_now_ms());
  renewed_ms = el_session_driver_renewal_sent_ms(session->driver);
  for (driver = TAILQ_FIRST(&session->proving); driver != NULL; driver = next) {
    next = TAILQ_NEXT(driver, proving_link);
    if (driver->entry.state == EL_ENTRY_PROVING) {
      if (is_proven) el_entry_driver_signal(driver, EL_ENTRY_ON_LEASE_PROVEN);
    } else if (renewed_ms >= driver->entry.since_ms) {
      el_entry_driver_signal(driver, EL_ENTRY_ON_LEASE_CONFIRMED);
    }
  }
}

/* ---- life ---- */

void el_entry_driver_init(el_entry_driver *driver, el_client_session *session,
                          el_bytes name, const el_queue_key *queue_key) {
  el_queue_key own = *queue_key;
  own.lease = el_session_driver_lease(session->driver);
  driver->session = session;
  driver->slot = own.slot;
  el_entry_init(&driver->entry, own.mode,
                el_session_driver_session(session->driver));
  el_keys_init(&driver->keys, name, &own);
  driver->timer.on_due = on_timer;
  driver->checked_key.keys = &driver->keys;
}

void el_entry_driver_destroy(el_entry_driver *driver) {
  el_timers_stop(driver->session->shared->timers, &driver->timer);
  stop_watch(driver);
  note_proving(driver, false);
  el_session_driver_remove_key(driver->session->driver, &driver->checked_key);
  el_keys_destroy(&driver->keys);
  free(driver->last_error);
}

size_t el_entry_driver_watch_size(void) { return sizeof(el_key_watch); }
