/* sim checks_local: invariants of the local queues of a peer and of the results that they
 * report. */
#include <inttypes.h>

#include "caller.h"
#include "checks.h"
#include "checks_others.h"
#include "clock.h"

/* ---- the queues ---- */

void checks_local_queues(world *wd, const sim_peer *pr) {
  for (int i = 0; i < pr->n_queues && !pr->closed; i++) {
    const peer_queue *queue = &pr->queues[i];
    el_local_context now;
    const char *broken;
    if (!queue->used) continue;
    now = queue_now(wd, pr, &queue->core);
    broken = el_local_queue_check(&queue->core, &now);
    if (broken != NULL) {
      world_violate(wd, "I5 progress", "p%d n%d: %s", pr->id, queue->id,
                    broken);
    }
  }
}

void checks_on_contender_watch(world *wd, const sim_peer *pr,
                               const peer_entry *at, bool begins) {
  if (begins == (at->contenders.id != 0)) {
    world_violate(wd, "I5 progress",
                  "p%d %s the watch for contenders of n%d twice", pr->id,
                  begins ? "begins" : "ends", at->key_id);
  }
}

void checks_on_forgotten(world *wd, const sim_peer *pr, const peer_entry *at) {
  if (at->contenders.id != 0 || at->wake_ms != 0) {
    world_violate(wd, "I4 no stray key",
                  "p%d frees n%d, but its query or watch is still active",
                  pr->id, at->key_id);
  }
}

/* ---- a grant ---- */

/* Checks that no other caller holds by the key of |at|, unless it is the key of readers. */
static void check_alone(world *wd, const sim_peer *pr, const peer_entry *at,
                        const sim_caller *caller) {
  if (key_id_mode(at->key_id) == EL_MODE_READ) return;
  for (int i = 0; i < wd->n_callers; i++) {
    if (i != caller->id && checks_is_by(pr, &wd->callers[i], at)) {
      world_violate(wd, "I1 mutual exclusion",
                    "callers %d and %d of p%d hold by one key of n%d", i,
                    caller->id, pr->id, at->key_id);
    }
  }
}

/* Checks that no caller that joined the local queue before |caller| still waits. Applies to plain
 * locks and writers only: several readers or permits may hold at once. */
static void check_order(world *wd, const sim_caller *caller) {
  el_mode mode = key_id_mode(caller->key_id);
  if (mode != EL_MODE_LOCK && mode != EL_MODE_WRITE) return;
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *other = &wd->callers[i];
    if (other->state == CALLER_WAITING && other->peer == caller->peer &&
        key_id_queue(other->key_id) == key_id_queue(caller->key_id) &&
        other->joined_nth < caller->joined_nth) {
      world_violate(wd, "I3 FIFO",
                    "caller %d of p%d is granted n%d before caller %d",
                    caller->id, caller->peer, caller->key_id, i);
    }
  }
}

static bool is_proven(const world *wd, const sim_peer *pr) {
  return pr->session != NONE &&
         el_session_is_proven(&pr->sessions[pr->session].core,
                              clock_now(wd, pr->id));
}

void checks_on_grant_reported(world *wd, const sim_peer *pr, peer_entry *at,
                              const sim_caller *caller) {
  check_alone(wd, pr, at, caller);
  check_order(wd, caller);
  at->n_holds++;
  if (caller->acquisitions[caller->acquisition].is_new) {
    checks_on_prompt(wd, pr, at, caller);
  } else {
    checks_on_handed_off(wd, pr, at, caller);
    if (!is_proven(wd, pr)) {
      world_violate(
          wd, "I1 mutual exclusion",
          "caller %d of p%d gets n%d by a handoff after the hold deadline",
          caller->id, pr->id, at->key_id);
    }
  }
}

/* ---- results that are due at once ---- */

/* Returns a caller other than |but| that waits in the local queue |queue_id| and has no entry yet.
 * NULL: none. */
static const sim_caller *find_waiting(const world *wd, int peer, int queue_id,
                                      const sim_caller *but) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    if (caller != but && caller->state == CALLER_WAITING &&
        caller->peer == peer && caller->key_id == queue_id &&
        peer_entry_of(caller) == NULL) {
      return caller;
    }
  }
  return NULL;
}

/* Such a key lingers, or readers hold by it and |caller| must share it. */
bool checks_is_due(const world *wd, const sim_caller *caller) {
  const sim_peer *pr = &wd->peers[caller->peer];
  if (find_waiting(wd, caller->peer, caller->key_id, caller) != NULL)
    return false;
  for (int i = 0; i < pr->n_entries && is_proven(wd, pr); i++) {
    const peer_entry *at = &pr->entries[i];
    bool is_its = at->used && at->queue != NONE &&
                  at->core.state == EL_ENTRY_HELD &&
                  key_id_queue(at->key_id) == caller->key_id;
    if (is_its && (caller->must_share || !others_use(wd, pr->id, at)))
      return true;
  }
  return false;
}

void checks_after_join(world *wd, const sim_caller *caller) {
  if (caller->is_due && !caller->is_holder) {
    world_violate(
        wd, "I10 fairness",
        "caller %d of p%d does not get n%d, whose key its client keeps",
        caller->id, caller->peer, caller->key_id);
  }
}

void checks_after_fail_waiting(world *wd, const sim_peer *pr) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    if (caller->state == CALLER_WAITING && caller->peer == pr->id) {
      world_violate(
          wd, "I8 one true result",
          "caller %d of p%d still waits, although etcd is unreachable", i,
          pr->id);
    }
  }
}

static bool has_entry(const world *wd, const sim_caller *caller) {
  const sim_peer *pr = &wd->peers[caller->peer];
  for (int i = 0; i < pr->n_entries; i++) {
    const peer_entry *at = &pr->entries[i];
    if (at->used && key_id_queue(at->key_id) == caller->key_id &&
        others_use(wd, pr->id, at)) {
      return true;
    }
  }
  return false;
}

void checks_after_refusal(world *wd, const sim_peer *pr) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    if (caller->state == CALLER_WAITING && caller->peer == pr->id &&
        !has_entry(wd, caller)) {
      world_violate(
          wd, "I8 one true result",
          "caller %d of p%d still waits for a lease that etcd refuses", i,
          pr->id);
    }
  }
}

void checks_after_no_contender(world *wd, const sim_peer *pr,
                               const peer_entry *at) {
  const sim_caller *caller =
      find_waiting(wd, pr->id, key_id_queue(at->key_id), NULL);
  if (key_id_mode(at->key_id) == EL_MODE_READ && caller != NULL &&
      at->core.state == EL_ENTRY_HELD && others_use(wd, pr->id, at) &&
      is_proven(wd, pr)) {
    world_violate(
        wd, "I10 fairness",
        "caller %d of p%d does not share n%d, while no other key waits",
        caller->id, pr->id, at->key_id);
  }
}

/* ---- the end of a hold ---- */

enum { DUE_NOTHING, DUE_HANDOFF, DUE_LINGER };

/* Tells whether a caller of |pr| waits for the name of |at|, in this mode or in one that
 * conflicts. */
static bool is_asked_for(const world *wd, const sim_peer *pr,
                         const peer_entry *at) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    if (caller->state == CALLER_WAITING && caller->peer == pr->id &&
        (key_id_conflicts(caller->key_id, at->key_id) ||
         caller->key_id == key_id_queue(at->key_id))) {
      return true;
    }
  }
  return false;
}

static bool waits_beside(const world *wd, const sim_peer *pr,
                         const peer_entry *at) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    if (caller->state == CALLER_WAITING && caller->peer == pr->id &&
        caller->key_id == key_id_queue(at->key_id)) {
      return true;
    }
  }
  return false;
}

/* Returns what must happen to the key of a plain lock when |caller|, the last caller of |at|,
 * leaves. */
static int due_of(const world *wd, const sim_peer *pr, const peer_entry *at,
                  const sim_caller *caller) {
  int64_t now_ms = clock_now(wd, pr->id);
  bool has_room = at->n_holds < peer_limits.holds &&
                  wd->now_ms < at->granted_ms + peer_limits.ms * 9 / 10;
  if (at->left_how != EL_LEAVE_VOLUNTARY || pr->closed ||
      key_id_mode(at->key_id) != EL_MODE_LOCK ||
      at->core.state != EL_ENTRY_HELD ||
      el_write_order_handoff_rev(&at->writes.order) < 0 ||
      !el_session_is_proven(&pr->sessions[at->session].core, now_ms)) {
    return DUE_NOTHING;
  }
  if (waits_beside(wd, pr, at)) return has_room ? DUE_HANDOFF : DUE_NOTHING;
  if (is_asked_for(wd, pr, at) || at->contended_ms != 0) return DUE_NOTHING;
  return caller->acquisitions[caller->acquisition].core.linger_ms > 0
             ? DUE_LINGER
             : DUE_NOTHING;
}

void checks_on_release(world *wd, const sim_caller *caller, el_leave how) {
  sim_peer *pr = &wd->peers[caller->peer];
  peer_entry *at = &pr->entries[caller->entry];
  for (int i = 0; i < wd->n_callers; i++) {
    if (i != caller->id && checks_is_by(pr, &wd->callers[i], at)) return;
  }
  at->left_ms = wd->now_ms;
  at->left_how = how;
  at->left_as_reader = caller->mode != key_id_mode(caller->key_id);
  at->linger_ms = how == EL_LEAVE_VOLUNTARY && is_proven(wd, pr)
                      ? caller->acquisitions[caller->acquisition].core.linger_ms
                      : 0;
  at->due = due_of(wd, pr, at, caller);
}

void checks_after_release(world *wd, const sim_caller *caller) {
  const sim_peer *pr = &wd->peers[caller->peer];
  peer_entry *at = &wd->peers[caller->peer].entries[caller->entry];
  bool is_handed_off = false;
  for (int i = 0; i < wd->n_callers; i++) {
    is_handed_off |= checks_is_by(pr, &wd->callers[i], at);
  }
  if (at->due == DUE_HANDOFF && !is_handed_off) {
    world_violate(wd, "I10 fairness", "p%d does not hand n%d off", pr->id,
                  at->key_id);
  }
  if (at->due == DUE_LINGER && at->core.state != EL_ENTRY_HELD) {
    world_violate(wd, "I9 no false failure",
                  "p%d deletes the key of n%d, which may linger", pr->id,
                  at->key_id);
  }
  at->due = DUE_NOTHING;
}

void checks_on_stop(world *wd, const sim_peer *pr, const peer_entry *at) {
  int64_t over_ms = at->left_ms + at->linger_ms - at->linger_ms / 10 - 1;
  if (!at->lingered || at->core.state != EL_ENTRY_HELD ||
      others_use(wd, pr->id, at) || at->contended_ms != 0 || pr->closed) {
    return;
  }
  if (wd->now_ms < over_ms && !is_asked_for(wd, pr, at)) {
    world_violate(wd, "I9 no false failure",
                  "p%d ends n%d, which lingers, %" PRId64 " ms too early",
                  pr->id, at->key_id, over_ms - wd->now_ms);
  }
}

/* Checks the reported result of a release. If the key was handed off or lingers, it is
 * EL_RELEASE_DONE; otherwise it is the result of the delete. */
void checks_on_release_reported(world *wd, const sim_peer *pr,
                                const sim_acquisition *owner,
                                const el_local_action *released) {
  const peer_entry *at = entry_of_local(released->entry);
  bool is_kept = at->core.state == EL_ENTRY_HELD;
  int due = is_kept ? EL_RELEASE_DONE : at->release;
  if ((int)released->release != due) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d gets the release result %d instead of %d",
                  owner->caller, pr->id, (int)released->release, due);
  }
}
