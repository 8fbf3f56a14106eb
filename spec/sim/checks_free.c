/* sim checks_free: no caller waits for a free lock or is told that it is locked, and no key stays
 * that is not wanted. */
#include <inttypes.h>

#include "caller.h"
#include "checks.h"
#include "checks_others.h"
#include "clock.h"
#include "queue.h"

enum { PROMPT_MS = 1500 /* limit in a history without faults */ };

/* ---- a try ---- */

static bool is_try(const sim_caller *caller) {
  return caller->trying || caller->must_share;
}

static void record_others(const world *wd, sim_caller *caller) {
  if (is_try(caller) && !caller->saw_other)
    caller->saw_other = others_lock(wd, caller);
}

void checks_on_join(world *wd, sim_caller *caller) {
  record_others(wd, caller);
  caller->is_due = checks_is_due(wd, caller);
}

void checks_seen_others(world *wd) {
  for (int i = 0; i < wd->n_callers; i++) {
    if (wd->callers[i].state == CALLER_WAITING) {
      record_others(wd, &wd->callers[i]);
    }
  }
}

void checks_on_locked(world *wd, const sim_caller *caller) {
  if (!is_try(caller)) {
    world_violate(
        wd, "I8 one true result",
        "caller %d of p%d waits, but gets the result that n%d is locked",
        caller->id, caller->peer, caller->key_id);
  }
  if (!caller->saw_other && !others_lock(wd, caller)) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d gets the result that n%d is locked, but "
                  "the lock is free",
                  caller->id, caller->peer, caller->key_id);
  }
}

/* ---- a release ---- */

/* Checks that |caller| soon gets the results of its releases. Only without faults. */
static void check_told(world *wd, const sim_caller *caller) {
  const sim_peer *pr = &wd->peers[caller->peer];
  for (int i = 0; i < ACQUISITIONS_MAX; i++) {
    const sim_acquisition *owner = &caller->acquisitions[i];
    if (owner->state == ACQUISITION_RELEASES && !pr->closed &&
        wd->now_ms > owner->left_ms + PROMPT_MS) {
      world_violate(wd, "I8 one true result",
                    "caller %d of p%d gets no result of its release",
                    caller->id, pr->id);
    }
  }
}

/* ---- a wait ---- */

/* Tells whether |caller| cannot be granted the lock at present: its peer has crashed, its lease has
 * ended, perhaps without the peer's knowledge, or an admin has changed its key. */
static bool is_cut_off(const world *wd, const sim_caller *caller) {
  const sim_peer *pr = &wd->peers[caller->peer];
  const lease *ls =
      pr->session != NONE
          ? store_find_lease(&wd->store, pr->sessions[pr->session].core.id)
          : NULL;
  const peer_entry *at = peer_entry_of(caller);
  if (wd->faults.peers[caller->peer].crashed) return true;
  if (ls != NULL && (!ls->alive || ls->sabotaged)) return true;
  return at != NULL && checks_is_sabotaged(&wd->store, at->key_id,
                                           at->core.lease, at->core.rev);
}

static int64_t patience(const world *wd) {
  int64_t reread_ms = wd->ttl_ms > 10000 ? wd->ttl_ms : 10000;
  if (!wd->faults.calm) return reread_ms + 3000;
  /* without its watch, a client finds out every third of the TTL that a key waits */
  return PROMPT_MS + (wd->faults.hides_rivals ? wd->ttl_ms / 3 : 0);
}

void checks_blocked_waiters(world *wd) {
  for (int i = 0; i < wd->n_callers; i++) {
    sim_caller *caller = &wd->callers[i];
    int64_t since_ms = wd->faults.calm ? 0 : wd->quiet_from_ms;
    if (wd->faults.calm) check_told(wd, caller);
    if (caller->state != CALLER_WAITING) continue;
    if (is_cut_off(wd, caller) ||
        (!is_try(caller) && others_hinder(wd, caller))) {
      caller->hindered_ms = wd->now_ms;
    }
    if (caller->hindered_ms > since_ms) since_ms = caller->hindered_ms;
    if (caller->joined_ms > since_ms) since_ms = caller->joined_ms;
    if (wd->now_ms > since_ms + patience(wd)) {
      world_violate(wd, "I5 progress",
                    "caller %d of p%d waits for n%d, which is free, for "
                    "%" PRId64 " ms",
                    i, caller->peer, caller->key_id, wd->now_ms - since_ms);
    }
  }
}

/* ---- a key without a holder ---- */

/* Tells whether |peer| may be late with its work, because it was stopped until a moment ago. */
static bool is_late(const world *wd, int peer) {
  enum { LATE_MS = 50 };
  return wd->now_ms <= wd->faults.peers[peer].stopped_until + LATE_MS;
}

bool checks_may_linger(const world *wd, const sim_peer *pr,
                       const peer_entry *at) {
  enum { SLACK_MS = 50 };
  int64_t end_ms = at->left_ms + at->linger_ms + at->linger_ms / 10 + SLACK_MS;
  return at->left_ms != 0 && at->linger_ms > 0 && at->contended_ms == 0 &&
         (wd->now_ms <= end_ms || is_late(wd, pr->id));
}

/* Returns a waiting caller of |pr| that the key of |at| blocks, or that could hold by this key.
 * NULL: none. */
static const sim_caller *find_waiter(const world *wd, const sim_peer *pr,
                                     const peer_entry *at) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    if (caller->state == CALLER_WAITING && caller->peer == pr->id &&
        (key_id_conflicts(caller->key_id, at->key_id) ||
         caller->key_id == key_id_queue(at->key_id))) {
      return caller;
    }
  }
  return NULL;
}

static void check_kept(world *wd, const sim_peer *pr, const peer_entry *at) {
  const sim_caller *waiter;
  if (!checks_may_linger(wd, pr, at)) {
    world_violate(wd, "I4 no stray key",
                  "p%d keeps its key at n%d, which no caller wants", pr->id,
                  at->key_id);
  }
  waiter = find_waiter(wd, pr, at);
  if (waiter != NULL) {
    world_violate(wd, "I5 progress",
                  "p%d keeps its key at n%d, but its caller %d waits", pr->id,
                  at->key_id, waiter->id);
  }
}

/* Checks that the key of |at| does not linger long while another key waits behind it, because the
 * watch of |at| must have reported that key. Only without faults. */
static void check_behind(world *wd, const sim_peer *pr, const peer_entry *at) {
  int64_t since_ms = at->behind_ms > at->left_ms ? at->behind_ms : at->left_ms;
  if (wd->faults.calm && at->behind_ms != 0 && !at->is_blind &&
      wd->now_ms > since_ms + PROMPT_MS) {
    world_violate(wd, "I5 progress",
                  "p%d lingers at n%d, while another key waits for %" PRId64
                  " ms",
                  pr->id, at->key_id, wd->now_ms - since_ms);
  }
}

void checks_unwanted_keys(world *wd, const sim_peer *pr) {
  for (int i = 0; i < pr->n_entries && !pr->closed; i++) {
    const peer_entry *at = &pr->entries[i];
    if (!at->used || at->core.state != EL_ENTRY_HELD ||
        others_use(wd, pr->id, at)) {
      continue;
    }
    check_kept(wd, pr, at);
    check_behind(wd, pr, at);
  }
}
