/* entry: one entry in the queue of a lock, as a pure step function. */
#include "protocol/entry.h"

#include <assert.h>
#include <string.h>

#include "protocol/conflict_matrix.h"
#include "base/times.h"
#include "protocol/retry.h"

const struct el_loss_names el_losses[] = {
    [EL_LOSS_EXPIRED] = {"expired", "the lease was not proven alive in time"},
    [EL_LOSS_REVOKED] = {"revoked", "the lease ended in etcd"},
    [EL_LOSS_DELETED] = {"deleted", "the key was deleted"},
    [EL_LOSS_REPLACED] = {"replaced", "the key was overwritten"},
    [EL_LOSS_MAX_HOLD] = {"max_hold", "max_hold has passed"},
    [EL_LOSS_CLUSTER] = {"cluster_changed",
                         "another cluster answers, or an earlier state of this "
                         "one"},
    [EL_LOSS_CLOSED] = {"closed", "the client was closed"},
};

void el_entry_init(el_entry *entry, el_mode mode, const el_session *session) {
  memset(entry, 0, sizeof *entry);
  entry->mode = mode;
  entry->lease = session->id;
  entry->reread_ms =
      session->ttl_ms > EL_REREAD_MS ? (int32_t)session->ttl_ms : EL_REREAD_MS;
  entry->lock_delay_ms = (int32_t)session->lock_delay_ms;
}

bool el_entry_can_start(const el_entry *entry) {
  return !entry->is_wanted &&
         (entry->state == EL_ENTRY_IDLE || entry->state == EL_ENTRY_AUDITING);
}

bool el_entry_is_finished(const el_entry *entry) {
  return entry->in_flight == EL_REQUEST_NONE &&
         (entry->state == EL_ENTRY_IDLE || entry->state == EL_ENTRY_ENDED);
}

bool el_entry_is_definite(const el_entry *entry) {
  return !entry->has_request_in_doubt;
}

/* ---- actions ---- */

static el_entry_action *push(el_entry_actions *out, int kind) {
  el_entry_action *action = &out->list[out->n++];
  assert(out->n <= EL_ENTRY_ACTIONS_MAX);
  memset(action, 0, sizeof *action);
  action->kind = kind;
  return action;
}

static el_entry_action *send(el_entry *entry, el_entry_actions *out,
                             el_request_kind request) {
  el_entry_action *action = push(out, EL_ENTRY_SEND_REQUEST);
  assert(entry->in_flight == EL_REQUEST_NONE);
  entry->in_flight = request;
  entry->wake_at = 0;
  action->request = request;
  return action;
}

/* Sends a read. For a hold only the state of our own key matters. */
static void send_read(el_entry *entry, el_entry_actions *out,
                      bool is_serializable) {
  el_entry_action *action = send(entry, out, EL_REQUEST_READ);
  action->is_serializable = is_serializable;
  action->is_own_only = entry->state == EL_ENTRY_HELD;
  action->is_audit = entry->state == EL_ENTRY_AUDITING;
}

/* Sends the read of an entry that has waited for EL_FIRST_READ_MS, or again for |reread_ms|,
 * without an event. The answer also contains the value of the holder's key. */
static void send_periodic_read(el_entry *entry, el_entry_actions *out) {
  el_entry_action *action = send(entry, out, EL_REQUEST_READ);
  action->reads_holder = true;
  action->key = entry->predecessor;
  entry->has_asked_holder = true;
}

static void send_try(el_entry *entry, el_entry_actions *out) {
  send(entry, out, EL_REQUEST_TRY)->bound_rev = entry->bound_rev;
}

/* Sends a |request| that lists the part |walk| of the queue. */
static void send_walk(el_entry *entry, el_entry_actions *out,
                      el_request_kind request, const el_walk *walk) {
  el_entry_action *action = send(entry, out, request);
  action->bound_rev = entry->bound_rev;
  action->walk = *walk;
}

static void watch(el_entry *entry, el_entry_actions *out, el_queue_key key,
                  int64_t known_rev) {
  push(out, EL_ENTRY_START_WATCH)->key = key;
  entry->is_watching = true;
  entry->watch_rev = known_rev;
}

static void unwatch(el_entry *entry, el_entry_actions *out) {
  if (entry->is_watching) {
    push(out, EL_ENTRY_STOP_WATCH);
  }
  entry->is_watching = false;
  entry->watch_rev = 0;
  entry->must_reread = false;
}

static void retry_later(el_entry *entry, const el_entry_answer *answer,
                        int64_t now_ms) {
  entry->wake_at = el_retry_next(&answer->outcome, now_ms, &entry->failures,
                                 (uint64_t)entry->lease + (uint64_t)entry->rev);
}

/* ---- release ---- */

/* Takes the next step of a release: it deletes our key if the create_revision of the key is known.
 * No request may be in flight, because etcd may apply a delete before an enqueue that was sent
 * earlier, and the key would stay in the queue. The delete is guarded by the create_revision, so
 * that it cannot delete a later key of ours, however late it is applied. If the session has ended,
 * there is no later key, and no audit will find one that is put late. Then a delete that
 * is guarded by our lease follows a put of unknown outcome: etcd decides it after the put, if it
 * decides the put at all. */
static void release_next(el_entry *entry, el_entry_actions *out) {
  bool may_exist = entry->has_session_ended && entry->has_request_in_doubt;
  entry->wake_at = 0;
  if (entry->rev != 0 || may_exist) {
    entry->state = EL_ENTRY_RELEASING;
    send(entry, out, EL_REQUEST_DELETE)->guard_rev = entry->rev;
  } else {
    entry->state = EL_ENTRY_IDLE;
  }
}

/* Reports the end of a release. |is_found|: the key existed until our delete. */
static void end_release(el_entry *entry, bool is_found, el_entry_actions *out) {
  push(out, EL_ENTRY_REPORT_RELEASED)->is_found = is_found;
  entry->rev = 0;
  entry->failures = 0;
  entry->must_report_release = entry->may_be_deleted = false;
  if (entry->has_session_ended) {
    entry->state = EL_ENTRY_ENDED;
  } else {
    release_next(entry, out);
  }
}

/* Begins the release of a key that no caller wants any more. If a request is in flight, the release
 * continues after its answer. */
static void start_release(el_entry *entry, el_entry_actions *out) {
  entry->is_wanted = false;
  entry->state = EL_ENTRY_RELEASING;
  entry->wake_at = 0;
  unwatch(entry, out);
  if (entry->in_flight == EL_REQUEST_NONE) {
    release_next(entry, out);
  }
}

static void report_lost(el_loss loss, el_entry_actions *out) {
  push(out, EL_ENTRY_REPORT_LOST)->loss = loss;
}

/* Ends the hold or the wait, because our first key is gone, or is detached from our lease. */
static void lose_key(el_entry *entry, bool is_detached, el_entry_actions *out) {
  if (entry->state == EL_ENTRY_HELD) {
    report_lost(is_detached ? EL_LOSS_REPLACED : EL_LOSS_DELETED, out);
  } else {
    push(out, EL_ENTRY_REPORT_KEY_LOST);
  }
  if (!is_detached && !el_mode_has_more_keys(entry->mode)) {
    entry->rev = 0;
  } /* else the key, our other keys, or the markers are still to be deleted */
  start_release(entry, out);
}

/* Reports the end of a wait with the action kind |report|, and deletes the key. */
static void fail_wait(el_entry *entry, int report, el_entry_actions *out) {
  push(out, report);
  start_release(entry, out);
}

/* ---- start ---- */

static void start(el_entry *entry, el_entry_actions *out) {
  entry->rev = 0;
  entry->bound_rev = 1;
  entry->failures = 0;
  entry->must_report_release = entry->may_be_deleted = false;
  if (entry->is_try) {
    entry->state = EL_ENTRY_TRYING;
    send_try(entry, out);
  } else {
    entry->state = EL_ENTRY_ENQUEUING;
    send(entry, out, EL_REQUEST_ENQUEUE);
  }
}

/* ---- the answer to the request in flight ---- */

/* Limits the number to UINT16_MAX: a number that is too small only costs an additional read. */
static void set_n_blockers(el_entry *entry, const el_entry_answer *answer) {
  entry->n_blockers = answer->n_blockers < UINT16_MAX
                          ? (uint16_t)answer->n_blockers
                          : UINT16_MAX;
}

static void wait_for_predecessor(el_entry *entry, const el_entry_answer *answer,
                                 int64_t now_ms, el_entry_actions *out) {
  if (entry->is_try) {
    fail_wait(entry, EL_ENTRY_REPORT_LOCKED, out);
    return;
  }
  entry->state = EL_ENTRY_WAITING;
  entry->predecessor = answer->predecessor;
  set_n_blockers(entry, answer);
  entry->must_reread = false;
  watch(entry, out, answer->predecessor,
        entry->mode == EL_MODE_PERMIT ? answer->walk.rev
                                      : answer->rev - answer->is_batched);
  entry->has_asked_holder = false;
  entry->wake_at = now_ms + EL_FIRST_READ_MS;
}

/* Reports |answer|, to a request in which a quorum has seen our key. */
static void report_sight(const el_entry_answer *answer, el_entry_actions *out) {
  push(out, EL_ENTRY_REPORT_SIGHT)->sight =
      (el_sight){.sent_ms = answer->outcome.sent_ms,
                 .member = answer->member,
                 .term = answer->term,
                 .rev = answer->rev};
}

/* |answer| shows our key and no older key that blocks it. The lock is granted when the session has
 * proven that its lease is alive. */
static void on_first_in_queue(el_entry *entry, const el_entry_answer *answer,
                              int64_t now_ms, el_entry_actions *out) {
  unwatch(entry, out);
  entry->state = EL_ENTRY_PROVING;
  entry->predecessor = (el_queue_key){0};
  entry->since_ms = now_ms;
  entry->watch_rev = answer->rev;
  entry->failures = 0;
  entry->wake_at = 0;
  if (!answer->is_serializable) report_sight(answer, out);
}

/* Handles the failure of an enqueue or a try, whose outcome may be unknown. A repeat is harmless,
 * because it puts our key only if the key does not exist. If the caller gives up, and the key is
 * put later, an audit of the session finds it. */
static void on_put_failed(el_entry *entry, const el_entry_answer *answer,
                          int64_t now_ms, el_entry_actions *out) {
  if (!answer->outcome.is_definite) {
    push(out, EL_ENTRY_REPORT_PUT_IN_DOUBT);
  }
  if (!entry->is_wanted) {
    release_next(entry, out);
  } else if (answer->outcome.is_retriable) {
    retry_later(entry, answer, now_ms);
  } else {
    fail_wait(entry, EL_ENTRY_REPORT_REFUSED, out);
  }
}

static void on_enqueue_answer(el_entry *entry, const el_entry_answer *answer,
                              int64_t now_ms, el_entry_actions *out) {
  entry->rev = answer->own.rev;
  entry->failures = 0;
  if (!entry->is_wanted) {
    release_next(entry, out);
  } else if (answer->is_truncated) {
    entry->state = EL_ENTRY_WAITING;
    entry->predecessor = (el_queue_key){0};
    send_walk(entry, out, EL_REQUEST_READ, &answer->walk);
  } else if (answer->predecessor.rev != 0) {
    report_sight(answer, out);
    wait_for_predecessor(entry, answer, now_ms, out);
  } else {
    on_first_in_queue(entry, answer, now_ms, out);
  }
}

/* The first try, with |bound_rev| 1, succeeds if no key is in the ranges that it compares. If these
 * have only keys that do not block ours, the |bound_rev| of the second try is above all keys that
 * exist now: it fails only if another key was put since. Frequent writes below the name could make
 * further tries fail for ever. So after the second try the entry enqueues, and leaves the queue if
 * it is not first. */
static void on_try_answer(el_entry *entry, const el_entry_answer *answer,
                          int64_t now_ms, el_entry_actions *out) {
  if (answer->is_put) {
    on_enqueue_answer(entry, answer, now_ms, out);
    return;
  }
  entry->rev = answer->own.rev;
  entry->failures = 0;
  if (!entry->is_wanted) {
    release_next(entry, out);
  } else if (answer->is_locked) {
    fail_wait(entry, EL_ENTRY_REPORT_LOCKED, out);
  } else if (answer->is_truncated && entry->bound_rev == 1) {
    send_walk(entry, out, EL_REQUEST_TRY, &answer->walk);
  } else if (answer->is_partial) {
    fail_wait(entry, EL_ENTRY_REPORT_KEY_LOST, out);
  } else if (answer->own.rev != 0 && !answer->is_truncated) {
    on_first_in_queue(entry, answer, now_ms, out);
  } else if (entry->bound_rev == 1) {
    entry->bound_rev = answer->walk.rev + 1;
    send_try(entry, out);
  } else {
    entry->state = EL_ENTRY_ENQUEUING;
    send(entry, out, EL_REQUEST_ENQUEUE);
  }
}

/* Tells whether |read| shows that our key still exists. A serializable read does so only if its
 * revision is not below that of a fresh proof of our lease. Otherwise the member that answered may
 * be far behind: its state shows that the predecessor is gone, but not that our own key has gone
 * since. */
static bool is_recent_enough(const el_entry_answer *read) {
  return !read->is_serializable ||
         (read->proven_rev != 0 && read->rev >= read->proven_rev);
}

static bool is_stale(const el_entry *entry, const el_entry_answer *answer) {
  return answer->is_serializable &&
         (answer->rev < entry->rev || answer->rev < entry->watch_rev);
}

/* No key that is put later is older than ours. So if a serializable read shows no older key, that
 * is final, provided that its revision is not below that of our key. To know that our own key
 * exists takes a linearizable read, or a fresh proof of the lease: while the lease is alive, only
 * an operator can delete the key, and that could only have happened after the proof. */
static void on_queue_read(el_entry *entry, const el_entry_answer *answer,
                          int64_t now_ms, el_entry_actions *out) {
  if (answer->is_truncated) {
    send_walk(entry, out, EL_REQUEST_READ, &answer->walk);
  } else if (answer->predecessor.rev != 0 ? entry->must_reread
                                          : !is_recent_enough(answer)) {
    /* Events that came during the read do not matter if no key is older than ours. If they did, the
     * keys of a busy semaphore, which come and go all the time, would keep a waiter from its
     * permit. */
    entry->must_reread = false;
    send_read(entry, out, false);
  } else if (answer->predecessor.rev == 0) {
    on_first_in_queue(entry, answer, now_ms, out);
  } else if (el_queue_keys_are_equal(&answer->predecessor,
                                     &entry->predecessor)) {
    set_n_blockers(entry, answer);
    entry->wake_at = now_ms + (entry->has_asked_holder ? entry->reread_ms
                                                       : EL_FIRST_READ_MS);
  } else {
    wait_for_predecessor(entry, answer, now_ms, out);
  }
}

static void on_key_read(el_entry *entry, const el_entry_answer *answer,
                        int64_t now_ms, el_entry_actions *out) {
  if (is_stale(entry, answer)) {
    send_read(entry, out, false);
  } else if (answer->own.rev != entry->rev || answer->is_partial) {
    lose_key(entry, false, out);
  } else if (answer->own.lease != entry->lease) {
    lose_key(entry, true, out);
  } else if (entry->state == EL_ENTRY_WAITING) {
    on_queue_read(entry, answer, now_ms, out);
  } else if (entry->must_reread) {
    entry->must_reread = false;
    send_read(entry, out, false);
  }
}

static void on_read_auditing(el_entry *entry, const el_entry_answer *answer,
                             int64_t now_ms, el_entry_actions *out) {
  if (entry->is_wanted) {
    start(entry, out);
  } else if (!answer->outcome.is_done && answer->outcome.is_retriable) {
    retry_later(entry, answer, now_ms);
  } else {
    /* 0: the key does not exist, or the read was refused */
    entry->rev = answer->own.rev;
    entry->failures = 0;
    release_next(entry, out);
  }
}

static void on_read_answer(el_entry *entry, const el_entry_answer *answer,
                           int64_t now_ms, el_entry_actions *out) {
  switch (entry->state) {
    case EL_ENTRY_AUDITING:
      on_read_auditing(entry, answer, now_ms, out);
      return;
    case EL_ENTRY_RELEASING:
      release_next(entry, out);
      return;
    case EL_ENTRY_LOCK_DELAY:
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
    fail_wait(entry, EL_ENTRY_REPORT_REFUSED, out);
  } else if (!answer->outcome.is_done) {
    /* the read was refused; the session's proofs decide whether the hold goes on */
    entry->wake_at = 0;
  } else {
    entry->failures = 0;
    on_key_read(entry, answer, now_ms, out);
  }
}

static void on_delete_failed(el_entry *entry, const el_entry_answer *answer,
                             int64_t now_ms, el_entry_actions *out) {
  bool is_refused = el_outcome_is_final(&answer->outcome);
  if (!answer->outcome.is_definite) {
    entry->may_be_deleted = true;
  } else if (is_refused && entry->must_report_release) {
    /* report it once; the key is deleted with the lease at the latest */
    entry->must_report_release = false;
    push(out, EL_ENTRY_REPORT_REFUSED);
  }
  if (is_refused && entry->has_session_ended) {
    entry->state = EL_ENTRY_ENDED;
  } else {
    retry_later(entry, answer, now_ms);
  }
}

/* A delete is repeated until its outcome is known, because a key that stays blocks other clients.
 * If it does not find the key after an attempt of unknown outcome, that attempt has deleted the
 * key, provided that the lease was alive until then. If the lease was not alive, the key may have
 * been gone before our delete, and another client may have held the lock during our hold. */
static void on_delete_answer(el_entry *entry, const el_entry_answer *answer,
                             int64_t now_ms, el_entry_actions *out) {
  if (!answer->outcome.is_done) {
    on_delete_failed(entry, answer, now_ms, out);
  } else if (answer->is_partial) {
    end_release(entry, false, out);
  } else if (entry->must_report_release && !answer->is_deleted &&
             entry->may_be_deleted && !entry->has_session_ended) {
    entry->state = EL_ENTRY_CONFIRMING;
    entry->since_ms = now_ms;
    push(out, EL_ENTRY_CONFIRM_LEASE);
  } else {
    end_release(entry,
                answer->is_deleted ||
                    (entry->may_be_deleted && !entry->has_lease_ended_early),
                out);
  }
}

void el_entry_answered(el_entry *entry, const el_entry_answer *answer,
                       int64_t now_ms, el_entry_actions *out) {
  el_request_kind request = entry->in_flight;
  out->n = 0;
  entry->in_flight = EL_REQUEST_NONE;
  if (request != EL_REQUEST_READ && !answer->outcome.is_done &&
      !answer->outcome.is_definite) {
    entry->has_request_in_doubt = true;
  }
  if (entry->state == EL_ENTRY_ENDED) return;
  if (answer->is_too_large && entry->is_wanted) {
    /* etcd has applied the request, so an enqueue or a try now finds our key if it was put */
    send_walk(entry, out, request, &answer->walk);
    return;
  }
  switch (request) {
    case EL_REQUEST_TRY:
    case EL_REQUEST_ENQUEUE:
      if (!answer->outcome.is_done) {
        on_put_failed(entry, answer, now_ms, out);
      } else if (request == EL_REQUEST_TRY) {
        on_try_answer(entry, answer, now_ms, out);
      } else {
        on_enqueue_answer(entry, answer, now_ms, out);
      }
      return;
    case EL_REQUEST_READ:
      on_read_answer(entry, answer, now_ms, out);
      return;
    case EL_REQUEST_DELETE:
      on_delete_answer(entry, answer, now_ms, out);
      return;
    case EL_REQUEST_NONE:
      assert(!"an answer to no request");
  }
}

/* ---- other events ---- */

static void on_acquire(el_entry *entry, bool trying, el_entry_actions *out) {
  assert(el_entry_can_start(entry));
  entry->is_wanted = true;
  entry->is_try = trying;
  if (entry->in_flight == EL_REQUEST_NONE) {
    start(entry, out);
  } /* else start after the answer to the read of AUDITING */
}

/* Watches the key of a hold. False: it is watched already. */
static bool watch_own_key(el_entry *entry, el_entry_actions *out) {
  if (entry->is_watching) return false;
  watch(entry, out, (el_queue_key){0}, entry->watch_rev);
  return true;
}

static void on_timer(el_entry *entry, el_entry_actions *out) {
  entry->wake_at = 0;
  if (entry->in_flight != EL_REQUEST_NONE &&
      entry->state != EL_ENTRY_LOCK_DELAY) {
    return;
  }
  switch (entry->state) {
    case EL_ENTRY_TRYING:
      send_try(entry, out);
      return;
    case EL_ENTRY_ENQUEUING:
      send(entry, out, EL_REQUEST_ENQUEUE);
      return;
    case EL_ENTRY_HELD:
      if (watch_own_key(entry, out)) return;
      /* fall through */
    case EL_ENTRY_AUDITING:
      send_read(entry, out, false);
      return;
    case EL_ENTRY_WAITING:
      send_periodic_read(entry, out);
      return;
    case EL_ENTRY_RELEASING:
      release_next(entry, out);
      return;
    case EL_ENTRY_LOCK_DELAY:
      start_release(entry, out);
      return;
    case EL_ENTRY_IDLE:
    case EL_ENTRY_PROVING:
    case EL_ENTRY_CONFIRMING:
    case EL_ENTRY_ENDED:
      return;
  }
}

/* Reads the queue now or, if a request is in flight, after its answer. An event alone does not tell
 * whether our key is first. */
static void read_soon(el_entry *entry, bool is_serializable,
                      el_entry_actions *out) {
  if (entry->in_flight == EL_REQUEST_NONE) {
    send_read(entry, out, is_serializable);
  } else {
    entry->must_reread = true;
  }
}

/* If the watch was created at the revision of the answer that led to it, no event was missed. At
 * any other revision the entry reads: between the answer and a later revision an event may have
 * been missed, and an earlier revision is that of a member that is behind, or of another store. */
void el_entry_watch_created(el_entry *entry, int64_t rev,
                            el_entry_actions *out) {
  out->n = 0;
  if (!entry->is_watching || rev == entry->watch_rev) return;
  entry->watch_rev = rev;
  read_soon(entry, true, out);
}

void el_entry_key_changed(el_entry *entry, int64_t rev, el_key_change change,
                          bool is_proven, el_entry_actions *out) {
  out->n = 0;
  if (!entry->is_watching) return;
  if (rev > entry->watch_rev && entry->state == EL_ENTRY_WAITING) {
    entry->watch_rev = rev;
  }
  if (entry->state == EL_ENTRY_HELD) {
    /* A restored member may replay the deletion of an earlier key (etcd issue 15271). */
    if (rev > entry->rev && change != EL_KEY_PUT) {
      lose_key(entry, change == EL_KEY_DETACHED, out);
    }
  } else if (change != EL_KEY_PUT && entry->n_blockers > 1 &&
             entry->in_flight == EL_REQUEST_NONE) {
    /* not while a read is in flight: its answer may or may not count this key */
    entry->n_blockers--;
  } else if (change != EL_KEY_PUT || entry->mode == EL_MODE_READ) {
    /* to a reader, a put may be the marker of a writer's downgrade */
    read_soon(entry, is_proven, out);
  }
}

static void on_lease_proven(el_entry *entry, int64_t now_ms,
                            el_entry_actions *out) {
  if (entry->state != EL_ENTRY_PROVING) return;
  if (now_ms < entry->since_ms + EL_FRESH_PROOF_MS) {
    entry->state = EL_ENTRY_HELD;
    entry->wake_at = now_ms + EL_WATCH_HOLD_MS;
    push(out, EL_ENTRY_REPORT_GRANTED)->key.rev = entry->rev;
  } else {
    /* An admin may have deleted our key since: read again. */
    entry->state = EL_ENTRY_WAITING;
    send_read(entry, out, false);
  }
}

/* Ignores an earlier key of this entry, which had another create_revision. */
void el_entry_key_gone(el_entry *entry, int64_t rev, bool is_detached,
                       el_entry_actions *out) {
  out->n = 0;
  if (rev == entry->rev &&
      (entry->state == EL_ENTRY_HELD || entry->state == EL_ENTRY_PROVING)) {
    lose_key(entry, is_detached, out);
  }
}

/* Reads the key that an audit has found, to delete it. In all states but IDLE our key is expected
 * to exist. */
static void on_key_found(el_entry *entry, el_entry_actions *out) {
  if (entry->state == EL_ENTRY_IDLE && entry->in_flight == EL_REQUEST_NONE) {
    entry->state = EL_ENTRY_AUDITING;
    send_read(entry, out, false);
  }
}

static void on_max_hold(el_entry *entry, el_entry_actions *out) {
  if (entry->state != EL_ENTRY_HELD) return;
  report_lost(EL_LOSS_MAX_HOLD, out);
  start_release(entry, out);
}

/* The holder may not know yet that its hold has expired, and its last writes may be in flight. So
 * the lock is not granted again before the lock delay is over, as after a crash. */
static void on_expired(el_entry *entry, int64_t now_ms, el_entry_actions *out) {
  if (entry->state != EL_ENTRY_HELD) return;
  report_lost(EL_LOSS_EXPIRED, out);
  if (entry->lock_delay_ms == 0) {
    start_release(entry, out);
    return;
  }
  unwatch(entry, out);
  entry->state = EL_ENTRY_LOCK_DELAY;
  entry->is_wanted = false;
  entry->wake_at = now_ms + entry->lock_delay_ms;
}

static void on_release(el_entry *entry, el_entry_actions *out) {
  switch (entry->state) {
    case EL_ENTRY_AUDITING:
      entry->is_wanted = false;
      return;
    case EL_ENTRY_TRYING:
    case EL_ENTRY_ENQUEUING:
    case EL_ENTRY_WAITING:
    case EL_ENTRY_PROVING:
      start_release(entry, out);
      return;
    case EL_ENTRY_HELD:
      entry->must_report_release = true;
      start_release(entry, out);
      return;
    case EL_ENTRY_IDLE:
    case EL_ENTRY_LOCK_DELAY:
    case EL_ENTRY_RELEASING:
    case EL_ENTRY_CONFIRMING:
    case EL_ENTRY_ENDED:
      return;
  }
}

/* The session is closed, but leaves its lease alive for the key of a lost hold. The key of this
 * entry would block other clients for as long, and no caller wants it. So the entry deletes its
 * key. In AUDITING, the answer to the read that is in progress leads to the delete. */
static void on_left_to_expire(el_entry *entry, el_entry_actions *out) {
  entry->has_session_ended = true;
  entry->is_wanted = false;
  if (entry->state != EL_ENTRY_RELEASING && entry->state != EL_ENTRY_AUDITING) {
    start_release(entry, out);
  }
}

/* Tells whether |end| of the session leaves a key in etcd that no caller wants. */
static bool must_delete_key(const el_entry *entry, el_session_end end) {
  return end == EL_SESSION_END_LEFT_TO_EXPIRE && !entry->has_session_ended &&
         entry->state != EL_ENTRY_LOCK_DELAY &&
         entry->state != EL_ENTRY_CONFIRMING && entry->state != EL_ENTRY_ENDED;
}

/* A release that a holder waits for goes on after the end of the session, because only the answer
 * to the delete tells whether the key still existed. If a second event of this kind comes, the
 * entry ends. */
void el_entry_session_ended(el_entry *entry, el_session_end end,
                            el_entry_actions *out) {
  out->n = 0;
  if (must_delete_key(entry, end)) {
    on_left_to_expire(entry, out);
    return;
  }
  if (entry->state == EL_ENTRY_RELEASING && entry->must_report_release &&
      !entry->has_session_ended) {
    entry->has_session_ended = true;
    entry->has_lease_ended_early = end == EL_SESSION_END_EARLY;
    return;
  }
  if (entry->state == EL_ENTRY_CONFIRMING) {
    push(out, EL_ENTRY_REPORT_RELEASED)->is_found = end != EL_SESSION_END_EARLY;
  } else if (entry->state == EL_ENTRY_HELD) {
    report_lost(EL_LOSS_REVOKED, out);
  } else if (entry->state == EL_ENTRY_WAITING ||
             entry->state == EL_ENTRY_PROVING) {
    push(out, EL_ENTRY_REPORT_KEY_LOST);
  } else if (entry->is_wanted) {
    push(out, EL_ENTRY_REPORT_RESTART);
  }
  unwatch(entry, out);
  entry->state = EL_ENTRY_ENDED;
  entry->is_wanted = false;
  entry->wake_at = 0;
}

void el_entry_step(el_entry *entry, el_entry_signal signal, int64_t now_ms,
                   el_entry_actions *out) {
  out->n = 0;
  switch (signal) {
    case EL_ENTRY_ON_ACQUIRE:
    case EL_ENTRY_ON_TRY:
      on_acquire(entry, signal == EL_ENTRY_ON_TRY, out);
      return;
    case EL_ENTRY_ON_RELEASE:
      on_release(entry, out);
      return;
    case EL_ENTRY_ON_WATCH_REFUSED:
      if (entry->state == EL_ENTRY_WAITING) {
        fail_wait(entry, EL_ENTRY_REPORT_REFUSED, out);
      }
      return;
    case EL_ENTRY_ON_LEASE_PROVEN:
      on_lease_proven(entry, now_ms, out);
      return;
    case EL_ENTRY_ON_KEY_SEEN:
      if (entry->state == EL_ENTRY_PROVING) entry->since_ms = now_ms;
      return;
    case EL_ENTRY_ON_EXPIRED:
      on_expired(entry, now_ms, out);
      return;
    case EL_ENTRY_ON_LEASE_CONFIRMED:
      if (entry->state == EL_ENTRY_CONFIRMING) {
        end_release(entry, true, out);
      }
      return;
    case EL_ENTRY_ON_MAX_HOLD:
      on_max_hold(entry, out);
      return;
    case EL_ENTRY_ON_HANDED_OFF:
      if (entry->state == EL_ENTRY_HELD) watch_own_key(entry, out);
      return;
    case EL_ENTRY_ON_KEY_FOUND:
      on_key_found(entry, out);
      return;
    case EL_ENTRY_ON_TIMER:
      on_timer(entry, out);
      return;
  }
}
