/* sim caller: a program that uses the lock client of a peer. */
#include "caller.h"

#include <inttypes.h>
#include <stddef.h>

#include "checks.h"
#include "clock.h"
#include "peer.h"
#include "trouble.h"

enum { REQUESTS_MAX = 12, WRITES_AT_ONCE = 6 };

const el_error caller_gave_up = {.code = EL_CANCELLED};
const el_error caller_refused = {.code = EL_UNAVAILABLE};
const el_error caller_closed = {.code = EL_CLOSED};

static void wake(world *wd, const world_event *ev);
static void max_hold(world *wd, const world_event *ev);
static void downgrade(world *wd, const world_event *ev);

static void wake_at(world *wd, sim_caller *caller, int64_t at_ms,
                    event_run run) {
  world_event *ev = world_post(wd, at_ms, caller->peer, run);
  ev->subject = caller->id;
  ev->generation = caller->generation;
}

/* ---- actions of a caller ---- */

static int64_t pause_ms(world *wd, const sim_caller *caller, bool holding) {
  int64_t roll = rng_between(&wd->dice, 0, 9);
  if (wd->calm_from_ms != 0 || caller->pace == 0) {
    return rng_between(&wd->dice, 0, 5);
  }
  if (roll == 0) return 0;
  if (caller->pace == 2 && roll > 6 && holding) {
    return rng_between(&wd->dice, wd->ttl_ms, 3 * wd->ttl_ms);
  }
  return rng_between(&wd->dice, 1, caller->pace == 1 ? 200 : 2000);
}

static void rest(world *wd, sim_caller *caller) {
  caller->generation++;
  caller->is_holder = false;
  caller->state = CALLER_DONE;
  if (caller->left == 0 || wd->calm_from_ms != 0) return;
  caller->state = CALLER_RESTING;
  wake_at(wd, caller, wd->now_ms + pause_ms(wd, caller, false), wake);
}

/* Draws the number of permits that a caller names. Callers may name different numbers for one
 * semaphore. */
static int pick_permits(world *wd) {
  return rng_chance(&wd->dice, 500)
             ? PERMITS
             : (int)rng_between(&wd->dice, 1, PERMITS_MAX);
}

static int pick_key_id(world *wd, sim_caller *caller) {
  static const el_mode modes[][4] = {
      [KINDS_LOCK] = {EL_MODE_LOCK, EL_MODE_LOCK, EL_MODE_LOCK, EL_MODE_LOCK},
      [KINDS_READ_WRITE] = {EL_MODE_LOCK, EL_MODE_WRITE, EL_MODE_READ,
                            EL_MODE_READ},
      [KINDS_PERMIT] = {EL_MODE_LOCK, EL_MODE_PERMIT, EL_MODE_PERMIT,
                        EL_MODE_PERMIT},
      [KINDS_MULTI] = {EL_MODE_LOCK, EL_MODE_WRITE, EL_MODE_READ,
                       EL_MODE_PERMIT},
  };
  int name = (int)rng_between(&wd->dice, 0, wd->n_names - 1);
  el_mode mode = modes[wd->kinds][rng_between(&wd->dice, 0, 3)];
  if (wd->kinds == KINDS_MULTI && rng_chance(&wd->dice, 600)) {
    int order = (int)rng_between(&wd->dice, 0, ORDERS - 1);
    int again = caller->again;
    caller->again = 0;
    if (again != 0 && rng_chance(&wd->dice, 500)) {
      wd->figures->repeats++;
      return again;
    }
    return key_id_several(caller->id, order, caller->n_multis++);
  }
  if (mode == EL_MODE_PERMIT) {
    return key_id_permit(name, 0, pick_permits(wd));
  }
  return key_id_make(name, mode, 0);
}

/* Draws for how many milliseconds the key may linger after the release: 0 for not at all, at most
 * 1,000,000, which is longer than the faults of any history last. */
static int32_t pick_linger(world *wd, const sim_caller *caller) {
  static const int32_t most[] = {1, 20, 200, 2000, 20000, 20000, 1000000};
  const sim_peer *pr = &wd->peers[caller->peer];
  int which = (int)rng_between(&wd->dice, 0, 6);
  bool can_linger = pr->lock_delay_ms == 0 && caller->mode != EL_MODE_PERMIT &&
                    caller->mode != EL_MODE_MULTI;
  bool lingers = rng_chance(&wd->dice, pr->lingering);
  int32_t ms = (int32_t)rng_between(&wd->dice, 1, most[which]);
  return can_linger && lingers ? ms : 0;
}

/* Returns an unused acquisition of |caller|. If all acquisitions still await the result of their
 * release, returns NULL. */
static sim_acquisition *find_owner(sim_caller *caller) {
  for (int i = 0; i < ACQUISITIONS_MAX; i++) {
    if (caller->acquisitions[i].state == ACQUISITION_OVER)
      return &caller->acquisitions[i];
  }
  return NULL;
}

static void prepare_owner(world *wd, sim_caller *caller,
                          sim_acquisition *owner) {
  *owner = (sim_acquisition){.caller = caller->id, .state = ACQUISITION_WAITS};
  owner->core.linger_ms = pick_linger(wd, caller);
  owner->core.try_once = caller->trying;
  owner->core.is_share_only = caller->must_share;
  caller->acquisition = (int)(owner - caller->acquisitions);
}

void caller_may_repeat(world *wd, int key_id) {
  wd->callers[key_id_caller(key_id)].again = key_id;
}

bool caller_can_repeat(const world *wd, int key_id) {
  int whole = key_id_whole(key_id);
  const sim_caller *caller;
  if (!key_id_is_multi(key_id)) return false;
  caller = &wd->callers[key_id_caller(whole)];
  return caller->again == whole ||
         (caller->state == CALLER_WAITING && caller->key_id == whole &&
          peer_entry_of(caller) == NULL);
}

/* Draws whether the caller gives up its wait, and when. */
static void plan_give_up(world *wd, sim_caller *caller) {
  int most_ms = rng_chance(&wd->dice, 300) ? 50 : 6000;
  int share = wd->faults.calm ? 100 : 400;
  if (!rng_chance(&wd->dice, share)) return;
  wake_at(wd, caller, wd->now_ms + rng_between(&wd->dice, 0, most_ms), wake);
}

static void request(world *wd, sim_caller *caller) {
  sim_acquisition *owner = find_owner(caller);
  if (wd->calm_from_ms != 0) {
    caller->state = CALLER_DONE;
    return;
  }
  if (owner == NULL) {
    rest(wd, caller);
    return;
  }
  caller->generation++;
  caller->left--;
  caller->verdicts = 0;
  caller->joined_ms = wd->now_ms;
  caller->joined_nth = ++wd->n_joined;
  caller->saw_other = false;
  caller->hindered_ms = 0;
  caller->key_id = pick_key_id(wd, caller);
  caller->mode = key_id_mode(caller->key_id);
  caller->trying = rng_chance(&wd->dice, 250);
  caller->must_share =
      caller->mode == EL_MODE_READ && rng_chance(&wd->dice, 150);
  prepare_owner(wd, caller, owner);
  caller->state = CALLER_WAITING;
  wd->figures->requests++;
  plan_give_up(wd, caller);
  world_trace(wd, "p%d caller %d %s%s n%d, lingers for %d ms", caller->peer,
              caller->id, caller->trying ? "tries" : "queues for",
              caller->must_share ? " (it must share)" : "", caller->key_id,
              (int)owner->core.linger_ms);
  checks_on_join(wd, caller);
  peer_join(wd, caller->peer, caller->id);
  checks_after_join(wd, caller);
}

static el_leave pick_leave(world *wd) {
  return rng_chance(&wd->dice, 150) ? EL_LEAVE_ABANDONED : EL_LEAVE_VOLUNTARY;
}

static void give_up(world *wd, sim_caller *caller) {
  el_leave how = pick_leave(wd);
  world_trace(wd, "p%d caller %d gives up", caller->peer, caller->id);
  wd->figures->timeouts++;
  caller->acquisitions[caller->acquisition].gives_up = true;
  peer_leave(wd, caller->peer, caller->id, how, EL_LOSS_NONE);
  if (caller->state == CALLER_WAITING) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d gave up the wait, but gets no result",
                  caller->id, caller->peer);
  }
}

static void write(world *wd, const world_event *ev) {
  const sim_caller *caller = &wd->callers[ev->subject];
  bool may_lead = key_id_mode(caller->key_id) == EL_MODE_LOCK;
  if (ev->generation != caller->generation || !caller->is_holder) return;
  peer_write(wd, caller->peer, caller->id,
             may_lead && rng_chance(&wd->dice, 200) ? WRITE_OWN : WRITE_DATA);
}

/* Schedules one to WRITES_AT_ONCE writes within the next |ms|. */
static void plan_writes(world *wd, sim_caller *caller, int64_t ms) {
  int n = (int)rng_between(&wd->dice, 1, WRITES_AT_ONCE);
  while (n-- > 0) {
    wake_at(wd, caller, wd->now_ms + rng_between(&wd->dice, 0, ms), write);
  }
}

/* Tells whether |caller| is a keeper that goes on holding. While a keeper holds, its session lives,
 * so that a late put on its lease succeeds. When the keeper stops, checks_after_audits checks that
 * audits have found the keys of such puts. */
static bool keeps_on(world *wd, sim_caller *caller) {
  int64_t until_ms = wd->calm_from_ms + CALLER_KEEP_MS;
  if (!caller->keeper || wd->calm_from_ms == 0 || !caller->is_holder)
    return false;
  if (wd->now_ms >= until_ms) {
    /* Just before a later grant, a late put may have been applied that no audit has found. */
    if (caller->granted_ms < until_ms) {
      checks_after_audits(wd, &wd->peers[caller->peer]);
    }
    return false;
  }
  wake_at(wd, caller, until_ms, wake);
  plan_writes(wd, caller, until_ms - wd->now_ms);
  return true;
}

/* Tells whether the hold deadline of |caller| has passed by the clock of its peer. The peer may not
 * have reported the loss yet. */
static bool has_seen_end(const world *wd, const sim_caller *caller) {
  const sim_peer *pr = &wd->peers[caller->peer];
  return !el_session_is_proven(
      &pr->sessions[pr->entries[caller->entry].session].core,
      clock_now(wd, pr->id));
}

/* Records that the hold of |caller| was lost, and that the caller knows it from now on. */
static void record_end(const world *wd, sim_caller *caller) {
  caller->lost_lease = caller->lease;
  caller->lost_ms = wd->now_ms;
}

/* Releases the hold of |caller|. The hold counts as released as soon as the release starts. */
static void release_hold(world *wd, sim_caller *caller) {
  sim_acquisition *owner = &caller->acquisitions[caller->acquisition];
  /* The caller reads the clock just before the release. */
  bool looks = rng_chance(&wd->dice, 500);
  el_leave how =
      looks && has_seen_end(wd, caller) ? EL_LEAVE_LOST : pick_leave(wd);
  if (how == EL_LEAVE_LOST) {
    peer_leave(wd, caller->peer, caller->id, how, EL_LOSS_EXPIRED);
    return;
  }
  /* The hold has expired, but the caller has not read the clock. */
  if (has_seen_end(wd, caller)) record_end(wd, caller);
  owner->state = ACQUISITION_RELEASES;
  owner->left_ms = wd->now_ms;
  wd->figures->releases++;
  checks_on_release(wd, caller, how);
  rest(wd, caller);
  peer_leave(wd, caller->peer, caller->id, how, EL_LOSS_NONE);
  checks_after_release(wd, caller);
}

static void release(world *wd, sim_caller *caller) {
  bool is_held = caller->is_holder;
  if (keeps_on(wd, caller)) return;
  checks_on_hold_end(wd, caller);
  world_trace(wd, "p%d caller %d releases%s", caller->peer, caller->id,
              is_held ? "" : " what it has lost");
  if (is_held) release_hold(wd, caller);
  if (caller->state == CALLER_HOLDING) rest(wd, caller);
}

static void wake(world *wd, const world_event *ev) {
  sim_caller *caller = &wd->callers[ev->subject];
  if (ev->generation != caller->generation) return;
  switch (caller->state) {
    case CALLER_RESTING:
      request(wd, caller);
      return;
    case CALLER_WAITING:
      give_up(wd, caller);
      return;
    case CALLER_HOLDING:
      release(wd, caller);
      return;
    case CALLER_DONE:
      return;
  }
}

static void downgrade(world *wd, const world_event *ev) {
  sim_caller *caller = &wd->callers[ev->subject];
  if (ev->generation != caller->generation || !caller->is_holder) return;
  world_trace(wd, "p%d caller %d only reads on", caller->peer, caller->id);
  wd->figures->downgrades++;
  caller->mode = EL_MODE_READ;
  peer_downgrade(wd, caller->peer, caller->id);
}

static void max_hold(world *wd, const world_event *ev) {
  const sim_caller *caller = &wd->callers[ev->subject];
  if (ev->generation != caller->generation || !caller->is_holder) return;
  peer_max_hold(wd, caller->peer, caller->id);
  if (caller->is_holder) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d still holds after its max_hold", caller->id,
                  caller->peer);
  }
}

void caller_init(world *wd, int id, int peer) {
  sim_caller *caller = &wd->callers[id];
  *caller = (sim_caller){.id = id, .peer = peer};
  caller->left = (int)rng_between(&wd->dice, 1, REQUESTS_MAX);
  caller->pace = (int)rng_between(&wd->dice, 0, 2);
  caller->keeper = rng_chance(&wd->dice, wd->kinds == KINDS_MULTI ? 150 : 60);
  wake_at(wd, caller, wd->now_ms + rng_between(&wd->dice, 0, 500), wake);
}

sim_acquisition *caller_acquisition_of(const el_acquisition *core) {
  return (sim_acquisition *)(uintptr_t)((const char *)core -
                                        offsetof(sim_acquisition, core));
}

bool caller_is_over(const sim_caller *caller) {
  for (int i = 0; i < ACQUISITIONS_MAX; i++) {
    if (caller->acquisitions[i].state != ACQUISITION_OVER) return false;
  }
  return true;
}

/* ---- results that a caller gets ---- */

static void record_verdict(world *wd, sim_caller *caller,
                           const sim_acquisition *owner, const char *verdict) {
  world_trace(wd, "p%d caller %d is told: %s", caller->peer, caller->id,
              verdict);
  if (caller->state != CALLER_WAITING || ++caller->verdicts != 1 ||
      owner->state != ACQUISITION_WAITS ||
      owner != &caller->acquisitions[caller->acquisition]) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d gets a second result: %s", caller->id,
                  caller->peer, verdict);
  }
}

static void plan_hold(world *wd, sim_caller *caller) {
  wake_at(wd, caller, wd->now_ms + pause_ms(wd, caller, true), wake);
  if (rng_chance(&wd->dice, 100)) {
    wake_at(wd, caller, wd->now_ms + rng_between(&wd->dice, 1, 2000), max_hold);
  }
  if (rng_chance(&wd->dice, wd->writing) && caller->mode != EL_MODE_READ) {
    plan_writes(wd, caller, rng_chance(&wd->dice, 500) ? 300 : 6000);
  }
  if (caller->mode == EL_MODE_WRITE && rng_chance(&wd->dice, 400)) {
    wake_at(wd, caller, wd->now_ms + rng_between(&wd->dice, 0, 300), downgrade);
  }
}

/* Tells whether a caller holds a permit of the same semaphore with another number of permits. */
static bool is_beside_other_n(const world *wd, const sim_caller *caller) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *other = &wd->callers[i];
    if (other->is_holder && key_id_conflicts(other->key_id, caller->key_id) &&
        key_id_permits(other->key_id) != key_id_permits(caller->key_id)) {
      return true;
    }
  }
  return false;
}

void caller_on_granted(world *wd, sim_peer *pr, const el_acquisition *core,
                       peer_entry *at) {
  sim_acquisition *owner = caller_acquisition_of(core);
  sim_caller *caller = &wd->callers[owner->caller];
  record_verdict(wd, caller, owner, "granted");
  wd->figures->grants++;
  wd->figures->several += key_id_is_multi(caller->key_id);
  wd->figures->beside_other_n += is_beside_other_n(wd, caller);
  owner->state = ACQUISITION_HOLDS;
  caller->generation++;
  caller->state = CALLER_HOLDING;
  caller->key_id = at->key_id;
  caller->entry = (int)(at - pr->entries);
  caller->token = at->core.rev;
  caller->lease = at->core.lease;
  caller->granted_ms = wd->now_ms;
  checks_on_grant_reported(wd, pr, at, caller);
  caller->is_holder = true;
  /* until the checks first read the session's deadline */
  caller->hold_deadline_ms = INT64_MAX;
  checks_delay(wd, caller);
  checks_seen_others(wd);
  plan_hold(wd, caller);
}

typedef enum caller_verdict {
  CALLER_REFUSED,
  CALLER_LOCKED,
  CALLER_PLACE_LOST
} caller_verdict;

static caller_verdict verdict_of(const el_local_action *failed) {
  if (failed->err != NULL) return CALLER_REFUSED;
  switch (failed->why) {
    case EL_FAILED_LOCKED_LOCALLY:
    case EL_FAILED_LOCKED:
      return CALLER_LOCKED;
    case EL_FAILED_REFUSED:
      return CALLER_REFUSED;
    default:
      return CALLER_PLACE_LOST;
  }
}

/* Counts and checks a failure. Failures because the caller gave up or its peer was closed are not
 * passed to this function. */
static void record_failure(world *wd, sim_caller *caller,
                           caller_verdict verdict) {
  if (verdict == CALLER_REFUSED) wd->figures->refused++;
  if (verdict == CALLER_LOCKED) {
    wd->figures->locked++;
    checks_on_locked(wd, caller);
  }
  if (verdict == CALLER_PLACE_LOST) wd->figures->keys_lost++;
  if (wd->faults.calm && !wd->faults.meddled && verdict != CALLER_LOCKED) {
    world_violate(wd, "I9 no false failure",
                  "caller %d of p%d fails without a cause", caller->id,
                  caller->peer);
  }
}

void caller_on_failed(world *wd, sim_peer *pr, const el_local_action *failed) {
  static const char *const verdicts[] = {"refused", "locked", "key lost"};
  sim_acquisition *owner = caller_acquisition_of(failed->acquisition);
  sim_caller *caller = &wd->callers[owner->caller];
  caller_verdict verdict = verdict_of(failed);
  bool is_own =
      owner->gives_up || (pr->closed && failed->err == &caller_closed);
  record_verdict(wd, caller, owner,
                 owner->gives_up ? "gave up" : verdicts[verdict]);
  if (owner->gives_up != (failed->err == &caller_gave_up)) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d fails with the error of another one",
                  caller->id, caller->peer);
  }
  owner->state = ACQUISITION_OVER;
  if (!is_own) record_failure(wd, caller, verdict);
  rest(wd, caller);
}

void caller_on_lost(world *wd, const el_acquisition *core, el_loss loss) {
  sim_acquisition *owner = caller_acquisition_of(core);
  sim_caller *caller = &wd->callers[owner->caller];
  bool is_calm = wd->faults.calm && !wd->faults.meddled;
  world_trace(wd, "p%d caller %d is told: lost (%d)", caller->peer, caller->id,
              (int)loss);
  wd->figures->losses[loss]++;
  if (caller->state != CALLER_HOLDING || !caller->is_holder ||
      owner->state != ACQUISITION_HOLDS ||
      owner != &caller->acquisitions[caller->acquisition]) {
    world_violate(wd, "I6 a loss is final",
                  "caller %d of p%d loses a lock that it does not hold",
                  caller->id, caller->peer);
  }
  owner->state = ACQUISITION_OVER;
  checks_on_hold_end(wd, caller);
  writes_end(&wd->peers[caller->peer].entries[caller->entry], caller->id);
  checks_on_release(wd, caller, EL_LEAVE_LOST);
  caller->is_holder = false;
  if (loss == EL_LOSS_EXPIRED || loss == EL_LOSS_REVOKED) {
    checks_on_left(wd, caller);
    trouble_on_lost(wd, caller->peer);
  }
  if (loss == EL_LOSS_CLOSED && has_seen_end(wd, caller))
    checks_on_left(wd, caller);
  if (loss != EL_LOSS_CLOSED || has_seen_end(wd, caller))
    record_end(wd, caller);
  if (is_calm && loss != EL_LOSS_MAX_HOLD && loss != EL_LOSS_CLOSED) {
    world_violate(wd, "I9 no false failure",
                  "caller %d of p%d loses its hold without a cause", caller->id,
                  caller->peer);
  }
}

void caller_on_released(world *wd, sim_peer *pr,
                        const el_local_action *released) {
  static const char *const results[] = {"released", "was gone", "not released"};
  sim_acquisition *owner = caller_acquisition_of(released->acquisition);
  const sim_caller *caller = &wd->callers[owner->caller];
  world_trace(wd, "p%d caller %d is told: %s", caller->peer, caller->id,
              results[released->release]);
  if (owner->state != ACQUISITION_RELEASES) {
    world_violate(
        wd, "I8 one true result",
        "caller %d of p%d gets the result of a release that it did not start",
        caller->id, caller->peer);
  }
  owner->state = ACQUISITION_OVER;
  checks_on_release_reported(wd, pr, owner, released);
}

void caller_on_closed(world *wd, int id) {
  sim_caller *caller = &wd->callers[id];
  sim_acquisition *owner = &caller->acquisitions[caller->acquisition];
  if (caller->is_holder || owner->state == ACQUISITION_WAITS) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d gets no result after its client was closed",
                  id, caller->peer);
  }
  caller->left = 0;
  rest(wd, caller);
}
