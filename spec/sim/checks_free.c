/* sim checks_free: no caller waits for a free lock or is told that it is locked, and no key stays
 * that is not wanted. */
#include <inttypes.h>

#include "caller.h"
#include "checks.h"
#include "checks_others.h"
#include "clock.h"
#include "queue.h"

enum { PROMPT_MS = 1500 /* without faults */ };

/* ---- a try ---- */

static bool is_try(const sim_caller *who) {
  return who->trying || who->must_share;
}

static void note_others(const world *wd, sim_caller *who) {
  if (is_try(who) && !who->saw_other) who->saw_other = others_lock(wd, who);
}

void checks_on_asked(world *wd, sim_caller *who) {
  note_others(wd, who);
  who->is_due = checks_is_due(wd, who);
}

void checks_seen_others(world *wd) {
  for (int i = 0; i < wd->n_callers; i++) {
    if (wd->callers[i].state == CALLER_WAITING) {
      note_others(wd, &wd->callers[i]);
    }
  }
}

void checks_on_locked(world *wd, const sim_caller *who) {
  if (!is_try(who)) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d waits, and is told that n%d is locked",
                  who->id, who->peer, who->key_id);
  }
  if (!who->saw_other && !others_lock(wd, who)) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d is told that n%d is locked, and it is free",
                  who->id, who->peer, who->key_id);
  }
}

/* ---- a release ---- */

/* Without faults it is told soon. */
static void check_told(world *wd, const sim_caller *who) {
  const sim_peer *pr = &wd->peers[who->peer];
  for (int i = 0; i < ACQUISITIONS_MAX; i++) {
    const sim_acquisition *owner = &who->acquisitions[i];
    if (owner->state == ACQUISITION_RELEASES && !pr->closed &&
        wd->now_ms > owner->left_ms + PROMPT_MS) {
      world_violate(wd, "I8 one true result",
                    "caller %d of p%d gets no result of its release", who->id,
                    pr->id);
    }
  }
}

/* ---- a wait ---- */

/* The session may have ended without the peer knowing. */
static bool is_cut_off(const world *wd, const sim_caller *who) {
  const sim_peer *pr = &wd->peers[who->peer];
  const lease *ls =
      pr->session != NOBODY
          ? store_find_lease(&wd->store, pr->sessions[pr->session].core.id)
          : NULL;
  const peer_entry *at = peer_entry_of(who);
  if (wd->faults.peers[who->peer].crashed) return true;
  if (ls != NULL && (!ls->alive || ls->sabotaged)) return true;
  return at != NULL && checks_is_sabotaged(&wd->store, at->key_id,
                                           at->core.lease, at->core.rev);
}

static int64_t patience(const world *wd) {
  int64_t reread_ms = wd->ttl_ms > 10000 ? wd->ttl_ms : 10000;
  return wd->faults.calm ? PROMPT_MS : reread_ms + 3000;
}

void checks_nobody_is_kept(world *wd) {
  for (int i = 0; i < wd->n_callers; i++) {
    sim_caller *who = &wd->callers[i];
    int64_t since_ms = wd->faults.calm ? 0 : wd->quiet_from_ms;
    if (wd->faults.calm) check_told(wd, who);
    if (who->state != CALLER_WAITING) continue;
    if (is_cut_off(wd, who) || (!is_try(who) && others_hinder(wd, who))) {
      who->hindered_ms = wd->now_ms;
    }
    if (who->hindered_ms > since_ms) since_ms = who->hindered_ms;
    if (who->asked_ms > since_ms) since_ms = who->asked_ms;
    if (wd->now_ms > since_ms + patience(wd)) {
      world_violate(wd, "I5 progress",
                    "caller %d of p%d waits for n%d, which is free, for "
                    "%" PRId64 " ms",
                    i, who->peer, who->key_id, wd->now_ms - since_ms);
    }
  }
}

/* ---- a key that nobody has ---- */

/* A stopped peer does its work when it continues. */
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

/* Tells whether a caller of |pr| waits that the key of |at| blocks, or that may hold by it. */
static const sim_caller *find_waiter(const world *wd, const sim_peer *pr,
                                     const peer_entry *at) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *who = &wd->callers[i];
    if (who->state == CALLER_WAITING && who->peer == pr->id &&
        (key_id_conflicts(who->key_id, at->key_id) ||
         who->key_id == key_id_queue(at->key_id))) {
      return who;
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
                  "p%d keeps its key at n%d, and its caller %d waits", pr->id,
                  at->key_id, waiter->id);
  }
}

/* Other keys have waited behind it for so long that its watch has reported them. */
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

void checks_nothing_is_kept(world *wd, const sim_peer *pr) {
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
