/* sim checks_handoff: invariants of handoffs within a peer. */
#include <inttypes.h>

#include "caller.h"
#include "checks.h"
#include "checks_others.h"
#include "clock.h"
#include "queue.h"

/* ---- keys behind another one ---- */

static bool is_behind(const key *it, const peer_entry *at) {
  return key_id_name(it->key_id) == key_id_name(at->key_id) &&
         it->create_rev > at->core.rev && key_is_entry(it) &&
         queue_blocks(key_id_mode(it->key_id), key_id_mode(at->key_id));
}

static bool has_younger(const store *st, const peer_entry *at) {
  for (int i = 0; i < st->n_keys; i++) {
    if (is_behind(&st->keys[i], at)) return true;
  }
  return false;
}

static void record_behind(const world *wd, peer_entry *at) {
  if (!has_younger(&wd->store, at)) {
    at->passes_behind = 0;
    at->behind_ms = 0;
  } else if (at->behind_ms == 0) {
    at->behind_ms = wd->now_ms;
  }
}

void checks_keys_behind(world *wd, const change *what) {
  int name = key_id_name(what->after.key_id);
  if (key_is_nested(&what->after) || key_id_is_marker(what->after.key_id))
    return;
  for (int i = 0; i < wd->n_peers; i++) {
    sim_peer *pr = &wd->peers[i];
    for (int k = 0; k < pr->n_entries; k++) {
      peer_entry *at = &pr->entries[k];
      if (at->used && at->core.state == EL_ENTRY_HELD &&
          key_id_name(at->key_id) == name) {
        record_behind(wd, at);
      }
    }
  }
}

void checks_on_contended(const world *wd, peer_entry *at) {
  wd->figures->contended++;
  if (at->contended_ms == 0) at->contended_ms = wd->now_ms;
}

/* ---- a handoff ---- */

/* Checks the handoff budget. While a key waits behind that of |at|, |at| is handed off for a
 * limited number of holds and a limited time. A hold after a linger starts a new budget
 * (take_lingering). */
static void check_fair(world *wd, const sim_peer *pr, peer_entry *at) {
  /* the most that the peer's clock differs in that time */
  enum { CLOCKS_MS = 50 };
  if (at->behind_ms == 0) return;
  if (++at->passes_behind >= peer_limits.holds ||
      wd->now_ms >= at->behind_ms + peer_limits.ms + CLOCKS_MS) {
    world_violate(wd, "I10 fairness",
                  "p%d hands n%d off for the %d. time, while another key waits "
                  "since %" PRId64 " ms",
                  pr->id, at->key_id, at->passes_behind,
                  wd->now_ms - at->behind_ms);
  }
}

/* Checks that a lingering key is not taken again for long while another key waits, also if no watch
 * reports that key. */
static void check_rival(world *wd, const sim_peer *pr, peer_entry *at) {
  /* the answer to the query, and the clock of the peer */
  enum { LATE_MS = 1000 };
  int64_t since_ms;
  if (!has_younger(&wd->store, at)) {
    at->rival_ms = 0;
    return;
  }
  if (at->rival_ms == 0) at->rival_ms = wd->now_ms;
  since_ms = at->rival_ms > wd->calm_from_ms ? at->rival_ms : wd->calm_from_ms;
  if ((wd->faults.calm || wd->calm_from_ms != 0) &&
      wd->now_ms > since_ms + wd->ttl_ms / 3 + LATE_MS) {
    world_violate(wd, "I10 fairness",
                  "p%d takes n%d again, while another key waits for %" PRId64
                  " ms",
                  pr->id, at->key_id, wd->now_ms - at->rival_ms);
  }
}

static void take_lingering(world *wd, const sim_peer *pr, peer_entry *at) {
  check_rival(wd, pr, at);
  wd->figures->retaken++;
  if (!checks_may_linger(wd, pr, at)) {
    world_violate(wd, "I10 fairness",
                  "p%d acquires n%d again, which may not linger", pr->id,
                  at->key_id);
  }
  at->passes_behind = 0;
  if (at->behind_ms != 0) at->behind_ms = wd->now_ms;
}

static bool is_shared(const world *wd, const sim_peer *pr,
                      const peer_entry *at) {
  for (int i = 0; i < wd->n_callers; i++) {
    if (checks_is_by(pr, &wd->callers[i], at)) return true;
  }
  return false;
}

/* Checks that the last caller left by a voluntary unlock and was not a downgraded writer. Otherwise
 * the key must not be handed off. */
static void check_left(world *wd, const sim_peer *pr, const peer_entry *at) {
  if (at->left_how != EL_LEAVE_VOLUNTARY || at->left_as_reader) {
    world_violate(wd, "I10 fairness",
                  "p%d hands n%d off from a holder that did not unlock it",
                  pr->id, at->key_id);
  }
}

static bool is_sabotaged(const store *st, const peer_entry *at) {
  return store_is_sabotaged(st, at->key_id, at->core.lease, at->core.rev);
}

void checks_on_handed_off(world *wd, const sim_peer *pr, peer_entry *at,
                          const sim_caller *caller) {
  const store *st = &wd->store;
  int64_t token = at->core.rev;
  if (at->core.state != EL_ENTRY_HELD) {
    world_violate(wd, "I1 mutual exclusion", "p%d hands n%d off, which is %s",
                  pr->id, at->key_id, el_entry_state_str[at->core.state]);
  }
  wd->figures->handed_off++;
  if (!is_shared(wd, pr, at)) check_left(wd, pr, at);
  if (!is_shared(wd, pr, at) && at->lingered) {
    take_lingering(wd, pr, at);
  } else if (!caller->must_share && !at->is_answered) {
    check_fair(wd, pr, at);
  }
  if (is_sabotaged(st, at)) return;
  if (store_create_rev(st, at->key_id, at->core.lease) != token) {
    world_violate(wd, "I1 mutual exclusion",
                  "p%d hands n%d off, whose key %" PRId64 " is gone", pr->id,
                  at->key_id, token);
  }
}
