/* sim checks_several: a multi-lock has all its keys or none. */
#include <inttypes.h>

#include "checks.h"

/* Returns how many keys of |key_id| have create_revision |rev|. */
static int count_of_rev(const world *wd, const call *what, int64_t rev) {
  int key_ids[NAMES_MAX], n = key_id_all(what->key_id, key_ids), found = 0;
  for (int i = 0; i < n; i++) {
    found += store_create_rev(&wd->store, key_ids[i], what->lease) == rev;
  }
  return found;
}

void checks_all_or_none(world *wd, const call *what) {
  int key_ids[NAMES_MAX], n = key_id_all(what->key_id, key_ids);
  int put = count_of_rev(wd, what, wd->store.rev);
  if (what->kind != CALL_ENTRY || key_id_name(what->key_id) != SEVERAL) return;
  if (put != 0 && put != n) {
    world_violate(wd, "I12 atomic multi-lock",
                  "p%d has put %d of the %d keys at n%d at once", what->peer,
                  put, n, what->key_id);
  }
  if (what->ask.request == EL_REQUEST_DELETE &&
      count_of_rev(wd, what, 0) != n) {
    world_violate(wd, "I12 atomic multi-lock",
                  "p%d has released n%d, but one of its keys exists",
                  what->peer, what->key_id);
  }
}
