/* sim checks_wait: no deadlock, no wait without a blocking key, and no wait for an event that never
 * comes. */
#include <inttypes.h>

#include "caller.h"
#include "checks.h"
#include "checks_others.h"
#include "queue.h"

/* ---- no deadlock ---- */

/* Returns the entry for whose key |at| waits. Returns NULL if |at| does not wait, or if that key
 * does not exist. */
static const peer_entry *find_ahead(const world *wd, const peer_entry *at) {
  const el_queue_key *ahead = &at->core.predecessor;
  int key_id, peer;
  if (at->core.state != EL_ENTRY_WAITING || ahead->rev == 0 ||
      ahead->lease == 0) {
    return NULL;
  }
  key_id = entry_key_id_of(at, ahead);
  if (store_create_rev(&wd->store, key_id, ahead->lease) != ahead->rev) {
    return NULL;
  }
  return others_find_entry(wd, key_id, ahead->lease, &peer);
}

/* Each entry waits for one key at a time, so a cycle leads back to |at|. */
void checks_on_wait(world *wd, const sim_peer *pr, const peer_entry *at) {
  const peer_entry *it = find_ahead(wd, at);
  for (int i = 1; it != NULL && i <= CALLERS_MAX; i++) {
    if (it == at) {
      world_violate(wd, "I5 progress",
                    "p%d at n%d waits for itself, in a cycle with %d others",
                    pr->id, at->key_id, i - 1);
      return;
    }
    it = find_ahead(wd, it);
  }
}

/* ---- no wait without a blocking key ---- */

/* Returns the time since which no key blocks |at|. Returns INT64_MAX if a key blocks |at|, or if
 * |at| has no key in one of its queues. */
static int64_t first_since(const world *wd, const peer_entry *at) {
  int key_ids[NAMES_MAX], n = key_id_all(at->key_id, key_ids);
  el_mode mode = key_id_mode(at->key_id);
  int64_t since_ms = 0;
  for (int i = 0; i < n; i++) {
    int name = key_id_name(key_ids[i]);
    int64_t rev = store_create_rev(&wd->store, key_ids[i], at->core.lease);
    if (rev == 0 || queue_count_older(&wd->store, name, rev, mode, NULL) >=
                        queue_limit(at->key_id)) {
      return INT64_MAX;
    }
    if (wd->names[name].unblocked_ms[mode] > since_ms) {
      since_ms = wd->names[name].unblocked_ms[mode];
    }
  }
  return since_ms;
}

void checks_prompt_grants(world *wd) {
  enum { FOR_A_LOOK_MS = 3000 };
  int64_t reread_ms = wd->ttl_ms > 10000 ? wd->ttl_ms : 10000;
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    const peer_entry *at = NULL;
    int64_t since_ms = wd->quiet_from_ms;
    if (caller->state == CALLER_WAITING) at = peer_entry_of(caller);
    if (at == NULL || wd->faults.peers[caller->peer].crashed) continue;
    if (first_since(wd, at) > since_ms) since_ms = first_since(wd, at);
    if (wd->now_ms - reread_ms - FOR_A_LOOK_MS > since_ms) {
      world_violate(wd, "I5 progress",
                    "caller %d of p%d is first at n%d, but still waits", i,
                    caller->peer, at->key_id);
    }
  }
}

/* ---- no wait for an event that never comes ---- */

/* Checks that |caller| is told in time that its key |key_id| is gone, even if no watch tells it.
 * The session reads one held key every TTL/3, each in turn, so the limit grows with the number of
 * holds. */
static void check_told_in_time(world *wd, const sim_caller *caller,
                               int key_id) {
  enum { FOR_A_PROBE_MS = 3000 };
  const key *it = store_find(&wd->store, key_id, caller->lease);
  int64_t holds = session_count_holds(&wd->peers[caller->peer],
                                      wd->peers[caller->peer].session);
  int64_t since_ms = wd->quiet_from_ms;
  if (it == NULL || (it->create_rev == caller->token && key_is_entry(it)))
    return;
  if (it->sabotaged_ms > since_ms) since_ms = it->sabotaged_ms;
  if (wd->now_ms > since_ms + holds * wd->ttl_ms / 3 + FOR_A_PROBE_MS) {
    world_violate(wd, "I5 progress",
                  "caller %d of p%d holds n%d without a report of its loss",
                  caller->id, caller->peer, key_id);
  }
}

void checks_prompt_losses(world *wd) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    int key_ids[NAMES_MAX], n = key_id_all(caller->key_id, key_ids);
    for (int k = 0; k < n && caller->is_holder; k++) {
      if (wd->faults.peers[caller->peer].crashed) continue;
      check_told_in_time(wd, caller, key_ids[k]);
    }
  }
}
