/* sim checks_written: what a holder writes while the lock is his takes effect only then. */
#include <inttypes.h>

#include "checks.h"
#include "queue.h"

static void check_name(world *wd, const call *what, int spot) {
  name_record *record = &wd->names[spot_name(spot)];
  el_mode mode = spot_mode(spot);
  const key *older = NULL;
  if (store_create_rev(&wd->store, spot, what->lease) != what->rev) {
    world_violate(wd, "I11 guarded",
                  "p%d writes by key %" PRId64 " of n%d, which is gone",
                  what->peer, what->rev, spot);
  }
  if (queue_count_older(&wd->store, spot_name(spot), what->rev, mode, &older) >=
      queue_limit(spot)) {
    world_violate(wd, "I11 guarded",
                  "p%d writes by key %" PRId64 " of n%d, before %" PRId64,
                  what->peer, what->rev, spot, older->create_rev);
  }
  if (mode == EL_MODE_PERMIT) return;
  if (what->rev < record->last_written) {
    world_violate(wd, "I11 guarded",
                  "p%d writes by key %" PRId64 " of n%d after %" PRId64,
                  what->peer, what->rev, spot, record->last_written);
  }
  record->last_written = what->rev;
}

static bool is_whole(const world *wd, const call *what) {
  int spots[NAMES_MAX], n = spot_all(what->spot, spots);
  for (int i = 0; i < n; i++) {
    if (store_create_rev(&wd->store, spots[i], what->lease) != what->rev) {
      return false;
    }
  }
  return true;
}

void checks_on_written(world *wd, const call *what, bool written) {
  int spots[NAMES_MAX], n = spot_all(what->spot, spots);
  if (written) wd->figures->writes++;
  for (int i = 0; i < n && written; i++) {
    check_name(wd, what, spots[i]);
  }
  if (!written) wd->figures->writes_barred++;
  if (!written && is_whole(wd, what)) {
    world_violate(wd, "I11 guarded",
                  "p%d may not write by key %" PRId64 " of n%d, which is there",
                  what->peer, what->rev, what->spot);
  }
}
