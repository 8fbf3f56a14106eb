/* sim checks_handoff: what must hold where a key is handed on within a peer. */
#include <inttypes.h>

#include "checks.h"
#include "clock.h"

static bool has_younger(const store *st, const peer_entry *at) {
  for (int i = 0; i < st->n_keys; i++) {
    const key *it = &st->keys[i];
    if (key_id_name(it->key_id) == key_id_name(at->key_id) &&
        it->create_rev > at->core.rev && !key_is_nested(it) &&
        !key_id_is_note(it->key_id))
      return true;
  }
  return false;
}

/* Whoever is behind a key waits for so many holds at most, and for so long. */
static void check_fair(world *wd, const sim_peer *pr, peer_entry *at) {
  int64_t now_ms = clock_now(wd, pr->id);
  if (!has_younger(&wd->store, at)) {
    at->passes_behind = 0;
    at->behind_ms = 0;
    return;
  }
  if (at->behind_ms == 0) at->behind_ms = now_ms;
  if (++at->passes_behind >= peer_limits.holds ||
      now_ms >= at->behind_ms + peer_limits.ms) {
    world_violate(wd, "I10 fair",
                  "p%d hands n%d over for the %d. time, with somebody behind "
                  "since %" PRId64 " ms",
                  pr->id, at->key_id, at->passes_behind,
                  now_ms - at->behind_ms);
  }
}

void checks_on_handed_over(world *wd, const sim_peer *pr, peer_entry *at) {
  const store *st = &wd->store;
  int64_t token = at->core.rev;
  if (at->core.state != EL_ENTRY_HELD) {
    world_violate(wd, "I1 exclusion", "p%d hands n%d over, which is %s", pr->id,
                  at->key_id, el_entry_state_str[at->core.state]);
  }
  check_fair(wd, pr, at);
  if (store_is_sabotaged(st, at->key_id, at->core.lease, token)) return;
  if (store_create_rev(st, at->key_id, at->core.lease) != token) {
    world_violate(wd, "I1 exclusion",
                  "p%d hands n%d over, whose key %" PRId64 " is gone", pr->id,
                  at->key_id, token);
  }
}
