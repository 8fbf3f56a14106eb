/* sim checks_delay: a hold that was lost blocks all others for its lock delay. */
#include <inttypes.h>

#include "caller.h"
#include "checks.h"
#include "queue.h"

/* Returns the lock delay of |peer| in ms of the store's clock. If the clock of the peer runs
 * faster, that is less than the configured delay. */
static int64_t delay_of(const world *wd, int peer) {
  int64_t ms = wd->peers[peer].lock_delay_ms,
          ppm = wd->faults.peers[peer].clock_ppm;
  return ppm > 0 ? ms - ms * ppm / 1000000 - 1 : ms;
}

static bool is_sabotaged(const store *st, const sim_hold *hold) {
  int key_ids[NAMES_MAX], n = key_id_all(hold->key_id, key_ids);
  for (int i = 0; i < n; i++) {
    if (store_is_sabotaged(st, key_ids[i], hold->lease, hold->token))
      return true;
  }
  return false;
}

/* A loss may be reported long after the hold deadline, when the lease has already ended. The hold
 * then counts as ended at its hold deadline. */
void checks_on_left(world *wd, sim_caller *caller) {
  int64_t end_ms = caller->hold_deadline_ms < wd->now_ms
                       ? caller->hold_deadline_ms
                       : wd->now_ms;
  caller->was = (sim_hold){.key_id = caller->key_id,
                           .mode = caller->mode,
                           .token = caller->token,
                           .lease = caller->lease,
                           .end_ms = end_ms};
}

/* Tells whether the session of |caller| may keep its lease because of a lost hold: the lock delay
 * after the loss is not over by the clock of the peer, which may run slower than the store's. */
static bool may_delay(const world *wd, const sim_caller *caller,
                      int64_t lease_id) {
  int64_t ms = wd->peers[caller->peer].lock_delay_ms,
          ppm = wd->faults.peers[caller->peer].clock_ppm;
  int64_t slower_ms = ppm < 0 ? ms * -ppm / (1000000 + ppm) : 0;
  return caller->lost_lease == lease_id &&
         wd->now_ms <= caller->lost_ms + ms + slower_ms + 1;
}

void checks_lease_left(world *wd, const sim_peer *pr, const el_session *left) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *caller = &wd->callers[i];
    if (caller->peer == pr->id && may_delay(wd, caller, left->id)) return;
  }
  world_violate(wd, "I13 lock delay",
                "p%d was closed and left lease %" PRId64 " without a lost hold",
                pr->id, left->id);
}

/* Tells whether |hold|, of |other|, blocks |caller|. */
static bool is_delayed(const world *wd, const sim_caller *other,
                       const sim_hold *hold, const sim_caller *caller) {
  /* A permit with a larger token does not block: it was granted because it names a larger n. */
  return hold->end_ms != 0 && hold->lease != caller->lease &&
         wd->now_ms < hold->end_ms + delay_of(wd, other->peer) &&
         (key_id_mode(caller->key_id) != EL_MODE_PERMIT ||
          hold->token < caller->token) &&
         key_id_is_beside(hold->key_id, caller->key_id) &&
         queue_excludes(hold->mode, caller->mode) &&
         !is_sabotaged(&wd->store, hold);
}

void checks_delay(world *wd, const sim_caller *caller) {
  sim_hold mine = {
      .key_id = caller->key_id, .token = caller->token, .lease = caller->lease};
  int n = 0, most = 0;
  if (is_sabotaged(&wd->store, &mine)) return;
  if (key_id_mode(caller->key_id) == EL_MODE_PERMIT)
    most = key_id_permits(caller->key_id) - 1;
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *other = &wd->callers[i];
    sim_hold now = {.key_id = other->key_id,
                    .mode = other->mode,
                    .token = other->token,
                    .lease = other->lease,
                    .end_ms = other->is_holder ? other->hold_deadline_ms : 0};
    bool is_new = other->is_holder && is_delayed(wd, other, &now, caller);
    if (other == caller || wd->peers[other->peer].lock_delay_ms == 0) continue;
    if (!is_new && !is_delayed(wd, other, &other->was, caller)) continue;
    wd->figures->delayed++;
    if (++n > most) {
      world_violate(wd, "I13 lock delay",
                    "caller %d of p%d is granted n%d, %" PRId64
                    " ms after the end of caller %d of p%d",
                    caller->id, caller->peer, caller->key_id,
                    wd->now_ms - (is_new ? now.end_ms : other->was.end_ms),
                    other->id, other->peer);
    }
  }
}
