/* sim checks_marker: the marker of a downgraded writer exists as long as the writer's key. */
#include <inttypes.h>

#include "checks.h"

static bool is_there(const store *st, const key *marker) {
  for (int i = 0; i < st->n_keys; i++) {
    const key *it = &st->keys[i];
    if (it->create_rev == marker->owner && it->owner == marker->lease &&
        key_id_name(it->key_id) == key_id_name(marker->key_id) &&
        key_id_mode(it->key_id) == EL_MODE_WRITE) {
      return true;
    }
  }
  return false;
}

void checks_on_marker(world *wd, const change *what) {
  const key *marker = &what->before;
  const lease *ls = store_find_lease(&wd->store, marker->lease);
  if (key_id_mode(marker->key_id) == EL_MARKER_DOWNGRADED &&
      what->after.create_rev == 0 && ls != NULL && ls->alive &&
      is_there(&wd->store, marker)) {
    world_violate(wd, "I1 mutual exclusion",
                  "the marker of writer %" PRId64
                  " of n%d, which only reads, is gone",
                  marker->owner, marker->key_id);
  }
}
