/* sim checks_left: a client leaves no key that it does not know of. */
#include <inttypes.h>

#include "checks.h"

/* Tells whether an entry of |pr| that is in use knows of the key |it|. */
static bool is_known(const sim_peer *pr, const key *it) {
  for (int i = 0; i < pr->n_entries; i++) {
    const peer_entry *at = &pr->entries[i];
    bool is_of_it =
        at->used && at->core.lease == it->owner &&
        (at->key_id == it->key_id || at->key_id == key_id_whole(it->key_id));
    if (is_of_it && (at->core.state != EL_ENTRY_IDLE || at->core.is_wanted)) {
      return true;
    }
  }
  return false;
}

/* Tells whether an audit of the lease |lease_id| would find the key |it|. */
static bool is_of_lease(const key *it, int64_t lease_id) {
  return it->create_rev != 0 && it->owner == lease_id &&
         it->lease == lease_id && !key_id_is_marker(it->key_id);
}

static void check_all_known(world *wd, const sim_peer *pr) {
  int64_t lease_id = pr->sessions[pr->session].core.id;
  for (int i = 0; i < wd->store.n_keys; i++) {
    const key *it = &wd->store.keys[i];
    if (!is_of_lease(it, lease_id) || is_known(pr, it)) continue;
    world_violate(
        wd, "I4 no stray key",
        "p%d has no caller for n%d, but its key exists (lease %" PRId64 ")",
        pr->id, it->key_id, it->owner);
  }
}

static bool is_alive(const sim_peer *pr) {
  return pr->session != NONE &&
         pr->sessions[pr->session].core.state == EL_SESSION_ALIVE;
}

void checks_all_known(world *wd, const sim_peer *pr) {
  if (is_alive(pr) && !pr->sessions[pr->session].core.has_put_in_doubt) {
    check_all_known(wd, pr);
  }
}

void checks_after_audits(world *wd, const sim_peer *pr) {
  if (is_alive(pr)) check_all_known(wd, pr);
}
