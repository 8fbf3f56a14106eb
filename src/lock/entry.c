/* entry: one entry in the queue of a lock. */
#include "lock/entry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/times.h"
#include "protocol/conflict_matrix.h"
#include "protocol/retry.h"

/* ---- the frame of an event ---- */

static void begin(el_entry *entry) {
  assert(!entry->is_in_event);
  entry->is_in_event = true;
  entry->has_reported = false;
}

static void end(el_entry *entry) {
  entry->is_in_event = false;
  entry->session->entry_events->stepped(entry); /* may free |entry| */
}

/* Returns the functions for a report, which is the last act of the event. */
static const el_entry_events *report(el_entry *entry) {
  assert(entry->is_in_event && !entry->has_reported);
  entry->has_reported = true;
  return entry->session->entry_events;
}

/* ---- state ---- */

static void list_as_proving(el_entry *entry, bool is_proving) {
  if (is_proving && !entry->is_proving) {
    TAILQ_INSERT_TAIL(&entry->session->proving, entry, proving_link);
  } else if (!is_proving && entry->is_proving) {
    TAILQ_REMOVE(&entry->session->proving, entry, proving_link);
  }
  entry->is_proving = is_proving;
}

/* Moves the entry to |state|, and updates the lists of the session. A key that is not held yet is
 * listed for lease checks while its put is not confirmed, while its predecessor is not known, and
 * in PROVING, so that keepalives are proven although the grant takes long. */
static void set_state(el_entry *entry, el_entry_state state) {
  bool is_listed = state == EL_ENTRY_PROVING || state == EL_ENTRY_HELD ||
                   state == EL_ENTRY_ENQUEUING || state == EL_ENTRY_TRYING ||
                   (state == EL_ENTRY_WAITING && entry->predecessor.rev == 0);
  entry->state = state;
  list_as_proving(entry,
                  state == EL_ENTRY_PROVING || state == EL_ENTRY_CONFIRMING);
  if (is_listed) {
    el_session_add_key(entry->session, &entry->checked_key,
                       state == EL_ENTRY_HELD);
  } else {
    el_session_remove_key(entry->session, &entry->checked_key);
  }
}

static void set_rev(el_entry *entry, int64_t rev) {
  entry->rev = entry->checked_key.rev = rev;
}

static void set_timer(el_entry *entry, int64_t at_ms) {
  el_timers_set(entry->session->shared->timers, &entry->timer, at_ms);
}

static void stop_timer(el_entry *entry) {
  el_timers_stop(entry->session->shared->timers, &entry->timer);
}

static el_mode mode_of(const el_entry *entry) {
  return (el_mode)entry->keys.mode;
}

static void note_result(el_entry *entry, const el_error *err) {
  if (err->code == EL_OK) {
    free(entry->last_error);
    entry->last_error = NULL;
    return;
  }
  if (entry->last_error == NULL)
    entry->last_error = el_alloc(sizeof *entry->last_error);
  *entry->last_error = *err;
}

static int64_t proven_rev(const el_entry *entry, int64_t now_ms) {
  return el_session_proven_rev(entry->session, now_ms);
}

/* ---- requests ---- */

/* The request of an entry that is in flight. */
typedef struct el_sent {
  el_request request;
  el_entry *entry;
  el_entry_request what;
} el_sent;

static void on_answer(el_request *request, el_txn_answer *answer);

/* For each kind of request, the offset of its counter in el_stats. */
static const size_t counted_as[] = {
    [EL_REQUEST_TRY] = offsetof(el_stats, tries),
    [EL_REQUEST_ENQUEUE] = offsetof(el_stats, enqueues),
    [EL_REQUEST_READ] = offsetof(el_stats, looks),
    [EL_REQUEST_DELETE] = offsetof(el_stats, deletes),
};

/* Tells whether |what| is a background request. It is not if the entry is wanted, or if a waiter of
 * this client waits for the end of its key. Otherwise audit reads are, and requests after a failure
 * that counts (el_retry_next), but not the first retry while an unlock waits for the release. Other
 * requests are not, because other clients may wait for the key. */
static bool is_background(const el_entry *entry, const el_entry_request *what) {
  if (entry->is_wanted || entry->is_expedited) return false;
  return what->is_audit ||
         entry->failures > (entry->must_report_release ? 1 : 0);
}

/* Sends |what|. The state must be that in which the answer is awaited. */
static void send(el_entry *entry, const el_entry_request *what) {
  el_sent *out = el_alloc(sizeof *out);
  EL_UNINITIALIZED el_lock_txn built;
  bool writes = what->kind != EL_REQUEST_READ;
  assert(entry->sent == NULL);
  out->request.done = on_answer;
  out->request.is_background = is_background(entry, what);
  out->request.counted_as = counted_as[what->kind];
  out->request.is_enqueue =
      what->kind == EL_REQUEST_ENQUEUE || what->kind == EL_REQUEST_TRY;
  if (writes) out->request.lock_queue = el_keys_queue_hash(&entry->keys);
  out->request.is_unbatched = entry->keys.next != NULL && writes;
  out->entry = entry;
  out->what = *what;
  entry->sent = out;
  stop_timer(entry);
  el_lock_txn_build(&built, &entry->keys, what, entry->rev, entry->value);
  el_request_queue_send(entry->session->shared->requests, &out->request,
                        &built.txn);
}

/* Removes the request of the entry from the request queue, if it has not left: no waiter wants its
 * key any more, or its lease is gone. */
static void withdraw(el_entry *entry) {
  el_sent *sent = entry->sent;
  if (sent != NULL && el_request_queue_withdraw(
                          entry->session->shared->requests, &sent->request)) {
    entry->sent = NULL;
    free(sent);
  }
}

static void send_try(el_entry *entry) {
  el_entry_request what = {.kind = EL_REQUEST_TRY,
                           .bound_rev = entry->bound_rev};
  send(entry, &what);
}

static void send_enqueue(el_entry *entry) {
  el_entry_request what = {.kind = EL_REQUEST_ENQUEUE};
  send(entry, &what);
}

/* Sends a read. For a hold only the state of our own key matters. In the state RELEASING, the read
 * is about our key that an audit has found. */
static void send_read(el_entry *entry, bool is_serializable) {
  el_entry_request what = {.kind = EL_REQUEST_READ,
                           .is_serializable = is_serializable,
                           .is_own_only = entry->state == EL_ENTRY_HELD,
                           .is_audit = entry->state == EL_ENTRY_RELEASING};
  send(entry, &what);
}

/* Returns the milliseconds after which an entry that waits reads again if no event comes. */
static int64_t reread_ms(const el_entry *entry) {
  int64_t ttl_ms = entry->session->lease.ttl_ms;
  return ttl_ms > EL_REREAD_MS ? ttl_ms : EL_REREAD_MS;
}

/* Sends the read of an entry that has waited without an event for EL_FIRST_READ_MS, or for
 * reread_ms since the last read, or whose last read has failed. The read also asks for the value of
 * the holder's key. */
static void send_periodic_read(el_entry *entry) {
  el_entry_request what = {.kind = EL_REQUEST_READ,
                           .reads_holder = true,
                           .holder_index = entry->predecessor.name_index};
  entry->has_asked_holder = true;
  send(entry, &what);
}

/* Sends a request of the kind |kind| that lists the part |walk| of the queue. */
static void send_walk(el_entry *entry, el_request_kind kind,
                      const el_walk *walk) {
  el_entry_request what = {
      .kind = kind, .bound_rev = entry->bound_rev, .walk = *walk};
  send(entry, &what);
}

static void retry_later(el_entry *entry, const el_entry_answer *answer,
                        int64_t now_ms) {
  set_timer(entry,
            el_retry_next(&answer->outcome, now_ms, &entry->failures,
                          (uint64_t)entry->keys.lease + (uint64_t)entry->rev));
}

/* ---- watches ---- */

typedef struct el_key_watch {
  el_watch watch;
  el_entry *entry;
  struct el_key_watch *next;
  /* The store's revision when the watch was created or reported its last event; for a watch from
   * the cache, at least the revision at which the entry has seen the key. 0: the watch is not
   * created yet. 1: etcd has refused the watch. */
  int64_t seen_rev;
  char key[]; /* the key, or the prefix, that is watched */
} el_key_watch;

static void on_watch_event(el_watch *watch, const el_watch_event *event);

/* Returns the largest revision that the watches of the entry have seen. Returns 0 while a watch is
 * not created yet, so that the entry reads once after all are created, instead of once after each.
 * (If the last watch of a hold is refused, there is no such read. The lease checks of the session
 * then find what was missed.) */
static int64_t all_created_rev(const el_entry *entry) {
  const el_key_watch *watched = entry->watched;
  int64_t last = 0;
  for (; watched != NULL; watched = watched->next) {
    if (watched->seen_rev == 0) return 0;
    if (watched->seen_rev > last) last = watched->seen_rev;
  }
  return last;
}

static bool is_own_key(const el_entry *entry, el_bytes key) {
  const el_keys *own = &entry->keys;
  while (own != NULL && !el_bytes_are_equal(el_keys_own(own), key)) {
    own = own->next;
  }
  return own != NULL;
}

static void stop_watch(el_entry *entry) {
  el_key_watch *watched;
  while ((watched = entry->watched) != NULL) {
    entry->watched = watched->next;
    if (is_own_key(entry, watched->watch.key)) {
      el_watch_stop(entry->session->shared->watches, &watched->watch);
    } else {
      el_watch_cache_put(entry->session->watch_cache, &watched->watch,
                         watched->seen_rev);
    }
    free(watched);
  }
}

static void unwatch(el_entry *entry) {
  stop_watch(entry);
  entry->watch_rev = 0;
  entry->must_reread = false;
}

static el_key_watch *add_watch(el_entry *entry, el_bytes *key) {
  el_key_watch *watched = el_alloc(sizeof *watched + key->len);
  memcpy(watched->key, key->data, key->len);
  watched->watch.on_event = on_watch_event;
  watched->entry = entry;
  watched->next = entry->watched;
  entry->watched = watched;
  key->data = watched->key;
  return watched;
}

/* Watches all keys of a mode, which begin with |stem|. */
static void watch_mode(el_entry *entry, el_bytes stem) {
  el_key_watch *watched = add_watch(entry, &stem);
  el_watch_start_prefix(entry->session->shared->watches, &watched->watch, stem);
}

/* Watches |key|, which is not our own. If the watch cache has a watch of |key|, that is used. */
static void watch_key(el_entry *entry, el_bytes key) {
  el_key_watch *watched = add_watch(entry, &key);
  watched->seen_rev = el_watch_cache_take(
      entry->session->watch_cache, &watched->watch, key, entry->watch_rev);
  if (watched->seen_rev == 0) {
    el_watch_start(entry->session->shared->watches, &watched->watch, key);
  }
}

/* Watches |predecessor| instead of the keys watched before: for a semaphore all permits, for a
 * reader behind a writer also the marker of a downgrade. The entry knows their state at
 * |known_rev|. */
static void watch_predecessor(el_entry *entry, int64_t known_rev) {
  const el_queue_key *blocker = &entry->predecessor;
  char key[EL_KEY_SIZE];
  el_bytes name = el_keys_name(el_keys_at(&entry->keys, blocker->name_index));
  el_queue_key marker;
  stop_watch(entry);
  entry->has_waited = true;
  entry->watch_rev = known_rev;
  if (blocker->lease == 0) {
    watch_mode(entry,
               (el_bytes){key, el_key_write_prefix(key, name, blocker->mode)});
    return;
  }
  watch_key(entry, (el_bytes){key, el_key_write(key, name, blocker)});
  if (el_conflict_may_downgrade(&entry->keys, blocker, &marker)) {
    watch_key(entry, (el_bytes){key, el_key_write(key, name, &marker)});
  }
}

/* Watches our own keys. The hold knows their state at |watch_rev|. Returns false if they are
 * watched already. */
static bool watch_own(el_entry *entry) {
  if (entry->watched != NULL) return false;
  for (const el_keys *own = &entry->keys; own != NULL; own = own->next) {
    el_bytes key = el_keys_own(own);
    el_key_watch *watched = add_watch(entry, &key);
    el_watch_start(entry->session->shared->watches, &watched->watch, key);
  }
  return true;
}

/* ---- release ---- */

/* Takes the next step of a release, except during the lock delay: it deletes our key if the
 * create_revision of the key is known. No request may be in flight, because etcd may apply a delete
 * before an enqueue that was sent earlier, and the key would stay in the queue. The delete is
 * guarded by the create_revision, so that it cannot delete a later key of ours, however late it is
 * applied. If the session has ended, there is no later key of ours, and no audits follow that could
 * find a key. So a put of unknown outcome is then followed by a delete that is guarded by our
 * lease: it deletes the key if the put was applied. */
static void release_next(el_entry *entry) {
  el_entry_request what = {.kind = EL_REQUEST_DELETE, .guard_rev = entry->rev};
  if (entry->is_in_lock_delay) return; /* until on_timer */
  stop_timer(entry);
  if (entry->rev != 0 ||
      (entry->has_session_ended && entry->has_request_in_doubt)) {
    set_state(entry, EL_ENTRY_RELEASING);
    send(entry, &what);
  } else {
    set_state(entry, EL_ENTRY_IDLE);
  }
}

/* Ends a release, and reports how it has ended. */
static void end_release(el_entry *entry, bool was_found) {
  set_rev(entry, 0);
  entry->failures = 0;
  entry->must_report_release = entry->may_be_deleted = false;
  if (entry->has_session_ended) {
    set_state(entry, EL_ENTRY_ENDED);
  } else {
    release_next(entry);
  }
  report(entry)->released(entry, was_found ? EL_ENTRY_INTACT : EL_ENTRY_GONE);
}

/* Begins the release of a key that no caller wants any more. If a request is in flight, the release
 * continues after its answer. */
static void start_release(el_entry *entry) {
  entry->is_wanted = false;
  set_state(entry, EL_ENTRY_RELEASING);
  stop_timer(entry);
  unwatch(entry);
  withdraw(entry);
  if (entry->sent == NULL) release_next(entry);
}

/* Asks the session whether our lease is alive, because a key of ours is gone during the wait. If
 * the lease has ended, the wait begins again; if not, an admin has deleted the key. */
static void doubt_lease(el_entry *entry) {
  unwatch(entry);
  stop_timer(entry);
  set_state(entry, EL_ENTRY_CONFIRMING);
  entry->since_ms = el_now_ms();
  el_session_confirm(entry->session, entry->keys.lease);
}

/* Ends the hold or the wait, because a key of ours is gone, or is detached from our lease. */
static void lose_key(el_entry *entry, bool is_detached) {
  bool was_held = entry->state == EL_ENTRY_HELD;
  bool was_waiting =
      entry->state == EL_ENTRY_WAITING || entry->state == EL_ENTRY_PROVING;
  if (was_waiting && !is_detached) {
    doubt_lease(entry);
    return;
  }
  if (!is_detached && !el_mode_has_more_keys(mode_of(entry))) {
    set_rev(entry, 0);
  } /* else the key, our other keys, or the markers are still to be deleted */
  start_release(entry);
  if (was_held) {
    report(entry)->lost(entry,
                        is_detached ? EL_LOSS_REPLACED : EL_LOSS_DELETED);
  } else {
    report(entry)->failed(entry, EL_ENTRY_KEY_LOST);
  }
}

/* Ends a wait, deletes the key, and reports |why|. */
static void fail_wait(el_entry *entry, el_entry_failure why) {
  start_release(entry);
  report(entry)->failed(entry, why);
}

/* ---- start ---- */

static void start(el_entry *entry) {
  set_rev(entry, 0);
  entry->bound_rev = 1;
  entry->failures = 0;
  entry->must_report_release = entry->may_be_deleted = false;
  if (entry->is_try) {
    set_state(entry, EL_ENTRY_TRYING);
    send_try(entry);
  } else {
    set_state(entry, EL_ENTRY_ENQUEUING);
    send_enqueue(entry);
  }
}

void el_entry_acquire(el_entry *entry, bool try_once, el_bytes value) {
  begin(entry);
  assert(el_entry_can_start(entry));
  entry->value = value;
  entry->has_waited = entry->is_expedited = false;
  entry->is_wanted = true;
  entry->is_try = try_once;
  start(entry);
  end(entry);
}

/* ---- the place in the queue ---- */

/* Reads the queue (in a hold: our own key) now or, if a request is in flight, after its answer. An
 * event alone does not tell whether our key is first. */
static void read_soon(el_entry *entry, bool is_serializable) {
  if (entry->sent == NULL) {
    send_read(entry, is_serializable);
  } else {
    entry->must_reread = true;
  }
}

/* Reads if an event may have been missed. |rev| is the largest revision from which a watch of the
 * entry reports events; or, if a watch was created again at a member that is behind, the revision
 * of that member. The entry knows the queue at |watch_rev|. If both are equal, none was missed. */
static void check_missed(el_entry *entry, int64_t rev) {
  if (rev == entry->watch_rev) return;
  entry->watch_rev = rev;
  read_soon(entry, true);
}

/* Limits the number to UINT16_MAX: a number that is too small only costs an additional read. */
static void set_n_blockers(el_entry *entry, const el_entry_answer *answer) {
  entry->n_blockers = answer->n_blockers < UINT16_MAX
                          ? (uint16_t)answer->n_blockers
                          : UINT16_MAX;
}

static void wait_for_predecessor(el_entry *entry, const el_entry_answer *answer,
                                 int64_t now_ms) {
  if (entry->is_try) {
    fail_wait(entry, EL_ENTRY_LOCKED);
    return;
  }
  entry->predecessor = answer->predecessor;
  set_state(entry, EL_ENTRY_WAITING);
  set_n_blockers(entry, answer);
  entry->must_reread = entry->has_asked_holder = false;
  set_timer(entry, now_ms + EL_FIRST_READ_MS);
  /* other transactions of a batch have the same revision: they may come after this one */
  watch_predecessor(entry, mode_of(entry) == EL_MODE_PERMIT
                               ? answer->walk.rev
                               : answer->rev - answer->is_batched);
  /* a cached watch may go on from a later revision */
  if (all_created_rev(entry) > entry->watch_rev) {
    check_missed(entry, all_created_rev(entry));
  }
}

/* Tells the session that a quorum has seen our key: |answer| shows it. */
static void report_sight(const el_entry *entry, const el_entry_answer *answer) {
  el_sight sight = {.sent_ms = answer->outcome.sent_ms,
                    .member = answer->member,
                    .term = answer->term,
                    .rev = answer->rev};
  el_session_add_sight(entry->session, &sight);
}

/* |answer| shows our key and no older key that blocks it. The lock is granted when the session has
 * proven that its lease is alive. */
static void on_first_in_queue(el_entry *entry, const el_entry_answer *answer,
                              int64_t now_ms) {
  unwatch(entry);
  set_state(entry, EL_ENTRY_PROVING);
  entry->predecessor = (el_queue_key){0};
  entry->since_ms = now_ms;
  entry->watch_rev = answer->rev;
  entry->failures = 0;
  stop_timer(entry);
  if (!answer->is_serializable) report_sight(entry, answer);
}

/* ---- the answer to the request in flight ---- */

/* Handles the failure of an enqueue or a try, whose outcome may be unknown. A repeat is harmless,
 * because it puts our key only if the key does not exist. If the caller gives up, and the key is
 * put later, an audit of the session finds it. */
static void on_put_failed(el_entry *entry, const el_entry_answer *answer,
                          int64_t now_ms) {
  if (!answer->outcome.is_definite) {
    el_session_put_in_doubt(entry->session, entry->keys.lease);
  }
  if (!entry->is_wanted) {
    release_next(entry);
  } else if (answer->outcome.is_retriable) {
    retry_later(entry, answer, now_ms);
  } else {
    fail_wait(entry, EL_ENTRY_REFUSED);
  }
}

static void on_enqueue_answer(el_entry *entry, const el_entry_answer *answer,
                              int64_t now_ms) {
  set_rev(entry, answer->own.rev);
  entry->failures = 0;
  if (!entry->is_wanted) {
    release_next(entry);
  } else if (answer->is_truncated) {
    entry->predecessor = (el_queue_key){0};
    set_state(entry, EL_ENTRY_WAITING);
    send_walk(entry, EL_REQUEST_READ, &answer->walk);
  } else if (answer->predecessor.rev != 0) {
    report_sight(entry, answer);
    wait_for_predecessor(entry, answer, now_ms);
  } else {
    on_first_in_queue(entry, answer, now_ms);
  }
}

/* The first try, with |bound_rev| 1, succeeds if no key is in the ranges that it compares. If these
 * have only keys that do not block ours, the |bound_rev| of the second try is above the
 * create_revisions of all these keys: it fails only if another key was put since. Frequent writes
 * below the name could make further tries fail for ever. So after the second try the entry
 * enqueues, and leaves the queue if it is not first. */
static void on_try_answer(el_entry *entry, const el_entry_answer *answer,
                          int64_t now_ms) {
  if (answer->is_put) {
    on_enqueue_answer(entry, answer, now_ms);
    return;
  }
  set_rev(entry, answer->own.rev);
  entry->failures = 0;
  if (!entry->is_wanted) {
    release_next(entry);
  } else if (answer->is_locked) {
    fail_wait(entry, EL_ENTRY_LOCKED);
  } else if (answer->is_truncated && entry->bound_rev == 1) {
    send_walk(entry, EL_REQUEST_TRY, &answer->walk);
  } else if (answer->is_partial) {
    fail_wait(entry, EL_ENTRY_KEY_LOST);
  } else if (answer->own.rev != 0 && !answer->is_truncated) {
    on_first_in_queue(entry, answer, now_ms);
  } else if (entry->bound_rev == 1) {
    entry->bound_rev = answer->walk.rev + 1;
    send_try(entry);
  } else {
    set_state(entry, EL_ENTRY_ENQUEUING);
    send_enqueue(entry);
  }
}

/* Tells whether |read| shows that our key still exists. A serializable read shows that only if its
 * revision is not below that of a fresh proof of our lease. Otherwise the member that answered may
 * be far behind: its state shows that the predecessor is gone, but not that our own key has gone
 * since. */
static bool is_recent_enough(const el_entry *entry, const el_entry_answer *read,
                             int64_t now_ms) {
  int64_t proven = proven_rev(entry, now_ms);
  return !read->is_serializable || (proven != 0 && read->rev >= proven);
}

static bool is_stale(const el_entry *entry, const el_entry_answer *answer) {
  return answer->is_serializable &&
         (answer->rev < entry->rev || answer->rev < entry->watch_rev);
}

/* No key that is put later is older than ours. So if a serializable read shows no older key that
 * blocks ours, that is final, provided that its revision is not below that of our key. To know that
 * our own key exists takes a linearizable read, or a fresh proof of the lease: while the lease is
 * alive, only an admin can delete the key, and that could only have happened after the proof. */
static void on_queue_read(el_entry *entry, const el_entry_answer *answer,
                          int64_t now_ms) {
  if (answer->is_truncated) {
    send_walk(entry, EL_REQUEST_READ, &answer->walk);
  } else if (answer->predecessor.rev != 0
                 ? entry->must_reread
                 : !is_recent_enough(entry, answer, now_ms)) {
    /* Events that came during the read do not matter if no older key blocks ours. If they did, the
     * keys of a busy semaphore, which come and go all the time, would keep a waiter from its
     * permit. */
    entry->must_reread = false;
    send_read(entry, false);
  } else if (answer->predecessor.rev == 0) {
    on_first_in_queue(entry, answer, now_ms);
  } else if (el_queue_keys_are_equal(&answer->predecessor,
                                     &entry->predecessor)) {
    set_n_blockers(entry, answer);
    set_timer(entry, now_ms + (entry->has_asked_holder ? reread_ms(entry)
                                                       : EL_FIRST_READ_MS));
  } else {
    wait_for_predecessor(entry, answer, now_ms);
  }
}

static void on_key_read(el_entry *entry, const el_entry_answer *answer,
                        int64_t now_ms) {
  if (is_stale(entry, answer)) {
    send_read(entry, false);
  } else if (answer->own.rev != entry->rev || answer->is_partial) {
    lose_key(entry, false);
  } else if (answer->own.lease != entry->keys.lease) {
    lose_key(entry, true);
  } else if (entry->state == EL_ENTRY_WAITING) {
    on_queue_read(entry, answer, now_ms);
  } else if (entry->must_reread) {
    entry->must_reread = false;
    send_read(entry, false);
  }
}

/* The read was sent before the release began, or for a key that an audit has found. If it fails,
 * the next audit finds that key again. */
static void on_read_releasing(el_entry *entry, const el_entry_answer *answer) {
  if (entry->rev == 0) {
    set_rev(entry, answer->own.rev);
    if (!answer->outcome.is_done) entry->has_request_in_doubt = true;
  }
  release_next(entry);
}

static void on_read_answer(el_entry *entry, const el_entry_answer *answer,
                           int64_t now_ms) {
  switch (entry->state) {
    case EL_ENTRY_RELEASING:
      on_read_releasing(entry, answer);
      return;
    case EL_ENTRY_WAITING:
    case EL_ENTRY_HELD:
      break;
    default:
      assert(!"a read was answered in a state that sends none");
      return;
  }
  if (!answer->outcome.is_done && answer->outcome.is_retriable) {
    retry_later(entry, answer, now_ms);
  } else if (!answer->outcome.is_done && entry->state == EL_ENTRY_WAITING) {
    fail_wait(entry, EL_ENTRY_REFUSED);
  } else if (answer->outcome.is_done) {
    entry->failures = 0;
    on_key_read(entry, answer, now_ms);
  } /* else the session's proofs decide whether the hold goes on */
}

static void on_delete_failed(el_entry *entry, const el_entry_answer *answer,
                             int64_t now_ms) {
  bool is_refused = el_outcome_is_final(&answer->outcome);
  bool must_report =
      entry->must_report_release && is_refused && answer->outcome.is_definite;
  if (!answer->outcome.is_definite) {
    entry->may_be_deleted = true;
  }
  if (is_refused && entry->has_session_ended) {
    set_state(entry, EL_ENTRY_ENDED);
  } else {
    retry_later(entry, answer, now_ms);
  }
  if (must_report) {
    /* report it once; the key is deleted with the lease at the latest */
    entry->must_report_release = false;
    report(entry)->released(entry, EL_ENTRY_NOT_DELETED);
  }
}

/* A delete is repeated until its outcome is known, because a key that stays blocks other clients.
 * If it does not find the key after an attempt of unknown outcome, that attempt has deleted the
 * key, provided that the lease was alive until then. If the lease was not alive, the key may have
 * been gone before our delete, and another client may have held the lock during our hold. */
static void on_delete_answer(el_entry *entry, const el_entry_answer *answer,
                             int64_t now_ms) {
  if (!answer->outcome.is_done) {
    on_delete_failed(entry, answer, now_ms);
  } else if (answer->is_partial) {
    end_release(entry, false);
  } else if (entry->must_report_release && !answer->is_deleted &&
             entry->may_be_deleted && !entry->has_session_ended) {
    set_state(entry, EL_ENTRY_CONFIRMING);
    entry->since_ms = now_ms;
    el_session_confirm(entry->session, entry->keys.lease);
  } else {
    end_release(entry, answer->is_deleted || (entry->may_be_deleted &&
                                              !entry->has_lease_ended_early));
  }
}

static void on_request_answer(el_entry *entry, el_request_kind kind,
                              const el_entry_answer *answer, int64_t now_ms) {
  if (kind != EL_REQUEST_READ && !answer->outcome.is_done &&
      !answer->outcome.is_definite) {
    entry->has_request_in_doubt = true;
  }
  if (entry->state == EL_ENTRY_ENDED) return;
  if (answer->is_too_large && entry->is_wanted) {
    /* etcd has applied the request, so an enqueue or a try now finds our key if it was put */
    send_walk(entry, kind, &answer->walk);
    return;
  }
  switch (kind) {
    case EL_REQUEST_TRY:
    case EL_REQUEST_ENQUEUE:
      if (!answer->outcome.is_done) {
        on_put_failed(entry, answer, now_ms);
      } else if (kind == EL_REQUEST_TRY) {
        on_try_answer(entry, answer, now_ms);
      } else {
        on_enqueue_answer(entry, answer, now_ms);
      }
      return;
    case EL_REQUEST_READ:
      on_read_answer(entry, answer, now_ms);
      return;
    case EL_REQUEST_DELETE:
      on_delete_answer(entry, answer, now_ms);
      return;
  }
}

/* Handles the answer that the lease does not exist. The key was not put, so the failure is
 * definite. The session ends for the same reason, and the waiter starts again with the next
 * lease. */
static void tell_lease_gone(const el_entry *entry, const el_error *err,
                            el_entry_answer *seen) {
  seen->outcome.is_definite = seen->outcome.is_retriable = true;
  el_session_lease_gone(entry->session, entry->keys.lease, err);
}

/* Gives our key another name, because user data has its name. The key was not put, so the failure
 * is definite, and the request is soon repeated. */
static void change_name(el_entry *entry, el_entry_answer *seen) {
  entry->slot = entry->session->entry_events->pick_slot(entry);
  el_keys_set_slot(&entry->keys, entry->slot);
  *seen =
      (el_entry_answer){.outcome = {.is_definite = true, .is_retriable = true}};
}

static void tell_seen_keys(el_entry *entry, const el_entry_request *what,
                           const el_txn_answer *answer) {
  const el_entry_events *events = entry->session->entry_events;
  uint16_t permits;
  el_bytes label = el_lock_txn_holder_value(&entry->keys, what, answer);
  if (label.len > 0) events->saw_key(entry, 0, label);
  if (el_lock_txn_other_permits(&entry->keys, what, answer, &permits, &label)) {
    events->saw_key(entry, permits, label);
  }
}

static void on_answer(el_request *request, el_txn_answer *answer) {
  el_sent *out = EL_CONTAINER_OF(request, el_sent, request);
  el_entry *entry = out->entry;
  el_request_kind kind = out->what.kind;
  el_entry_answer seen;
  entry->sent = NULL;
  if (answer == NULL) { /* the client stops */
    free(out);
    return;
  }
  el_lock_txn_read(&entry->keys, &out->what, entry->rev, entry->value, answer,
                   &seen);
  begin(entry);
  note_result(entry, &answer->err);
  if (answer->err.is_lease_gone) tell_lease_gone(entry, &answer->err, &seen);
  if (seen.outcome.is_done) tell_seen_keys(entry, &out->what, answer);
  if (seen.is_name_taken) change_name(entry, &seen);
  el_txn_answer_free(answer);
  free(out);
  on_request_answer(entry, kind, &seen, el_now_ms());
  end(entry);
}

/* ---- events of watches ---- */

static void on_watch_created(el_key_watch *watched, int64_t rev) {
  el_entry *entry = watched->entry;
  /* the watch was created again, on a member that is behind */
  bool is_behind = rev < watched->seen_rev;
  EL_COUNT(&entry->session->shared->counters, watches, 1);
  watched->seen_rev = rev;
  if (!is_behind) rev = all_created_rev(entry);
  if (rev != 0) check_missed(entry, rev);
}

/* How a watched key has changed. */
typedef enum key_change {
  KEY_PUT, /* it was put, and is not detached */
  /* it was put, and is not attached to the lease that it contains */
  KEY_DETACHED,
  KEY_DELETED
} key_change;

static key_change change_of(const el_watch_event *event) {
  if (event->kind == EL_WATCH_DELETED) return KEY_DELETED;
  return el_key_is_detached(event->key, event->lease) ? KEY_DETACHED : KEY_PUT;
}

static void on_key_changed(el_key_watch *watched, const el_watch_event *event) {
  el_entry *entry = watched->entry;
  key_change change = change_of(event);
  /* The entry has read a later state: the watch comes from the cache. */
  if (event->rev < watched->seen_rev) return;
  watched->seen_rev = event->rev;
  if (event->rev > entry->watch_rev && entry->state == EL_ENTRY_WAITING) {
    entry->watch_rev = event->rev;
  }
  if (entry->state == EL_ENTRY_HELD) {
    /* A restored member may replay the deletion of an earlier key (etcd issue 15271). */
    if (event->rev > entry->rev && change != KEY_PUT) {
      lose_key(entry, change == KEY_DETACHED);
    }
  } else if (change != KEY_PUT && entry->n_blockers > 1 &&
             entry->sent == NULL) {
    /* not while a read is in flight: its answer may or may not count this key */
    entry->n_blockers--;
  } else if (change != KEY_PUT || el_conflict_reads_markers(mode_of(entry))) {
    /* a put may be the marker of a writer's downgrade */
    read_soon(entry, proven_rev(entry, el_now_ms()) != 0);
  }
}

/* The user may not watch the key. */
static void on_watch_refused(el_key_watch *watched, const el_error *err) {
  el_entry *entry = watched->entry;
  watched->seen_rev = 1;
  note_result(entry, err);
  if (entry->state == EL_ENTRY_WAITING) fail_wait(entry, EL_ENTRY_REFUSED);
}

static void on_watch_event(el_watch *watch, const el_watch_event *event) {
  el_key_watch *watched = EL_CONTAINER_OF(watch, el_key_watch, watch);
  el_entry *entry = watched->entry;
  begin(entry);
  switch (event->kind) {
    case EL_WATCH_CREATED:
      on_watch_created(watched, event->rev);
      break;
    case EL_WATCH_DELETED:
    case EL_WATCH_PUT:
      on_key_changed(watched, event);
      break;
    case EL_WATCH_REFUSED:
      on_watch_refused(watched, &event->err);
      break;
  }
  end(entry);
}

/* ---- the timer ---- */

static void on_due(el_entry *entry) {
  switch (entry->state) {
    case EL_ENTRY_TRYING:
      send_try(entry);
      return;
    case EL_ENTRY_ENQUEUING:
      send_enqueue(entry);
      return;
    case EL_ENTRY_HELD:
      if (!watch_own(entry)) send_read(entry, false);
      return;
    case EL_ENTRY_WAITING:
      send_periodic_read(entry);
      return;
    case EL_ENTRY_RELEASING:
      release_next(entry);
      return;
    case EL_ENTRY_IDLE:
    case EL_ENTRY_PROVING:
    case EL_ENTRY_CONFIRMING:
    case EL_ENTRY_ENDED:
      return;
  }
}

static void on_timer(el_timer *timer) {
  el_entry *entry = EL_CONTAINER_OF(timer, el_entry, timer);
  begin(entry);
  /* no other timer is set during the lock delay */
  entry->is_in_lock_delay = false;
  if (entry->sent == NULL) on_due(entry);
  end(entry);
}

/* ---- events of the local queue ---- */

void el_entry_release(el_entry *entry) {
  begin(entry);
  switch (entry->state) {
    case EL_ENTRY_TRYING:
    case EL_ENTRY_ENQUEUING:
    case EL_ENTRY_WAITING:
    case EL_ENTRY_PROVING:
      start_release(entry);
      break;
    case EL_ENTRY_CONFIRMING: /* not wanted: it is being released already */
      if (entry->is_wanted) start_release(entry);
      break;
    case EL_ENTRY_HELD:
      entry->must_report_release = true;
      start_release(entry);
      break;
    case EL_ENTRY_IDLE:
    case EL_ENTRY_RELEASING:
    case EL_ENTRY_ENDED:
      break;
  }
  end(entry);
}

void el_entry_end_max_hold(el_entry *entry) {
  begin(entry);
  if (entry->state == EL_ENTRY_HELD) {
    start_release(entry);
    report(entry)->lost(entry, EL_LOSS_MAX_HOLD);
  }
  end(entry);
}

/* The key stays for the lock delay, as after a crash: see keep_for_lock_delay in session.c. */
void el_entry_expire(el_entry *entry) {
  begin(entry);
  if (entry->state == EL_ENTRY_HELD) {
    int64_t stay_ms = el_session_stay_ms(entry->session);
    el_session_check_expiry(entry->session);
    entry->is_in_lock_delay = stay_ms != 0;
    start_release(entry);
    if (entry->is_in_lock_delay) set_timer(entry, el_now_ms() + stay_ms);
    report(entry)->lost(entry, EL_LOSS_EXPIRED);
  }
  end(entry);
}

void el_entry_watch_own_key(el_entry *entry) {
  if (entry->state == EL_ENTRY_HELD) watch_own(entry);
}

void el_entry_expedite(el_entry *entry) {
  entry->is_expedited = true;
  if (entry->sent != NULL) {
    el_request_queue_expedite(entry->session->shared->requests,
                              &entry->sent->request);
  }
}

/* ---- events of the session, and of other requests ---- */

/* An IDLE entry reads its key, to delete it. In another state it deals with its key anyway. */
void el_entry_find_key(el_entry *entry) {
  begin(entry);
  if (entry->state == EL_ENTRY_IDLE) {
    set_state(entry, EL_ENTRY_RELEASING);
    send_read(entry, false);
  }
  end(entry);
}

/* Ignores an earlier key of this entry, which had another create_revision. */
void el_entry_lose_key(el_entry *entry, int64_t rev, bool is_detached) {
  begin(entry);
  if (rev == entry->rev &&
      (entry->state == EL_ENTRY_HELD || entry->state == EL_ENTRY_PROVING)) {
    lose_key(entry, is_detached);
  }
  end(entry);
}

/* If a check has found the key of a PROVING entry, no older key can have come since. */
void el_entry_key_checked(el_checked_key *key, bool is_found,
                          bool is_detached) {
  el_entry *entry = EL_CONTAINER_OF(key, el_entry, checked_key);
  if (!is_found) {
    el_entry_lose_key(entry, key->rev, is_detached);
  } else if (entry->state == EL_ENTRY_PROVING) {
    entry->since_ms = el_now_ms();
  }
}

static void on_lease_proven(el_entry *entry, int64_t now_ms) {
  begin(entry);
  if (now_ms < entry->since_ms + EL_FRESH_PROOF_MS) {
    set_state(entry, EL_ENTRY_HELD);
    set_timer(entry, now_ms + EL_WATCH_HOLD_MS);
    report(entry)->granted(entry);
  } else {
    /* An admin may have deleted our key since: read again. */
    set_state(entry, EL_ENTRY_WAITING);
    send_read(entry, false);
  }
  end(entry);
}

static void on_lease_confirmed(el_entry *entry) {
  begin(entry);
  if (entry->is_wanted) {
    lose_key(entry, false);
  } else {
    end_release(entry, true);
  }
  end(entry);
}

void el_entry_pass_on_proof(el_session *session) {
  int64_t now_ms = el_now_ms(), renewed_ms;
  bool is_proven;
  el_entry *entry, *next;
  if (TAILQ_EMPTY(&session->proving)) return;
  is_proven = el_session_is_proven(session, now_ms);
  renewed_ms = el_session_renewal_sent_ms(session);
  for (entry = TAILQ_FIRST(&session->proving); entry != NULL; entry = next) {
    next = TAILQ_NEXT(entry, proving_link);
    if (entry->state == EL_ENTRY_PROVING) {
      if (is_proven) on_lease_proven(entry, now_ms);
    } else if (entry->state == EL_ENTRY_CONFIRMING &&
               renewed_ms >= entry->since_ms) {
      on_lease_confirmed(entry);
    }
  }
}

/* The session is closed, but leaves its lease alive for the key of a lost hold. The key of this
 * entry would block other clients for as long, so the entry deletes it. */
static void on_left_to_expire(el_entry *entry) {
  entry->has_session_ended = true;
  entry->is_wanted = false;
  if (entry->state != EL_ENTRY_RELEASING) start_release(entry);
}

/* Tells whether the end of the session leaves a key in etcd that no caller wants. */
static bool must_delete_key(const el_entry *entry, el_session_end how) {
  return how == EL_SESSION_END_LEFT_TO_EXPIRE && !entry->has_session_ended &&
         !entry->is_in_lock_delay &&
         (entry->state != EL_ENTRY_CONFIRMING || entry->is_wanted) &&
         entry->state != EL_ENTRY_ENDED;
}

static void end_entry(el_entry *entry, el_session_end how) {
  el_entry_state was = entry->state;
  bool was_wanted = entry->is_wanted;
  entry->is_wanted = false;
  set_state(entry, EL_ENTRY_ENDED);
  stop_timer(entry);
  unwatch(entry);
  withdraw(entry);
  if (was == EL_ENTRY_HELD) {
    report(entry)->lost(entry, EL_LOSS_REVOKED);
  } else if (was_wanted) {
    report(entry)->must_restart(entry);
  } else if (was == EL_ENTRY_CONFIRMING) {
    report(entry)->released(entry, how != EL_SESSION_END_EARLY ? EL_ENTRY_INTACT
                                                               : EL_ENTRY_GONE);
  }
}

/* A release that a holder waits for goes on after the end of the session, because only the answer
 * to the delete tells whether the key still existed. If a second event of this kind comes, the
 * entry ends. */
void el_entry_end_session(el_entry *entry, el_session_end how) {
  begin(entry);
  if (must_delete_key(entry, how)) {
    on_left_to_expire(entry);
  } else if (entry->state == EL_ENTRY_RELEASING && entry->must_report_release &&
             !entry->has_session_ended) {
    entry->has_session_ended = true;
    entry->has_lease_ended_early = how == EL_SESSION_END_EARLY;
  } else {
    end_entry(entry, how);
  }
  end(entry);
}

/* ---- queries ---- */

bool el_entry_can_start(const el_entry *entry) {
  return entry->state == EL_ENTRY_IDLE;
}

bool el_entry_is_finished(const el_entry *entry) {
  return entry->sent == NULL &&
         (entry->state == EL_ENTRY_IDLE || entry->state == EL_ENTRY_ENDED);
}

bool el_entry_is_definite(const el_entry *entry) {
  return !entry->has_request_in_doubt;
}

/* ---- life ---- */

void el_entry_init(el_entry *entry, el_session *session, el_bytes name,
                   const el_queue_key *queue_key) {
  el_queue_key own = *queue_key;
  own.lease = session->lease.id;
  entry->session = session;
  entry->slot = own.slot;
  el_keys_init(&entry->keys, name, &own);
  entry->timer.on_due = on_timer;
  entry->checked_key.keys = &entry->keys;
}

void el_entry_destroy(el_entry *entry) {
  stop_timer(entry);
  stop_watch(entry);
  list_as_proving(entry, false);
  el_session_remove_key(entry->session, &entry->checked_key);
  el_keys_destroy(&entry->keys);
  free(entry->last_error);
}

size_t el_entry_watch_size(void) { return sizeof(el_key_watch); }
