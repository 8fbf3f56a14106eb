/* sim caller: a program in a peer that locks, works and unlocks. */
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

static void wake_at(world *wd, sim_caller *who, int64_t at_ms, event_run run) {
  world_event *ev = world_post(wd, at_ms, who->peer, run);
  ev->who = who->id;
  ev->turn = who->turn;
}

/* ---- what it does by itself ---- */

static int64_t pause_ms(world *wd, const sim_caller *who, bool holding) {
  int64_t roll = rng_between(&wd->dice, 0, 9);
  if (wd->calm_from_ms != 0 || who->pace == 0) {
    return rng_between(&wd->dice, 0, 5);
  }
  if (roll == 0) return 0;
  if (who->pace == 2 && roll > 6 && holding) {
    return rng_between(&wd->dice, wd->ttl_ms, 3 * wd->ttl_ms);
  }
  return rng_between(&wd->dice, 1, who->pace == 1 ? 200 : 2000);
}

static void rest(world *wd, sim_caller *who) {
  who->turn++;
  who->claiming = false;
  who->state = CALLER_DONE;
  if (who->left == 0 || wd->calm_from_ms != 0) return;
  who->state = CALLER_RESTING;
  wake_at(wd, who, wd->now_ms + pause_ms(wd, who, false), wake);
}

/* Programs may use several numbers of permits for one semaphore at once. */
static int pick_permits(world *wd) {
  return rng_chance(&wd->dice, 500)
             ? PERMITS
             : (int)rng_between(&wd->dice, 1, PERMITS_MAX);
}

static int pick_key_id(world *wd, sim_caller *who) {
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
    int again = who->again;
    who->again = 0;
    if (again != 0 && rng_chance(&wd->dice, 500)) {
      wd->figures->repeats++;
      return again;
    }
    return key_id_several(who->id, order, who->n_multis++);
  }
  if (mode == EL_MODE_PERMIT) {
    return key_id_permit(name, 0, pick_permits(wd));
  }
  return key_id_make(name, mode, 0);
}

/* Draws how long the key may linger: from a moment to longer than the history. */
static int32_t pick_linger(world *wd, const sim_caller *who) {
  static const int32_t most[] = {1, 20, 200, 2000, 20000, 20000, 1000000};
  const sim_peer *pr = &wd->peers[who->peer];
  int which = (int)rng_between(&wd->dice, 0, 6);
  bool can_linger = pr->lock_delay_ms == 0 && who->mode != EL_MODE_PERMIT &&
                    who->mode != EL_MODE_MULTI;
  bool lingers = rng_chance(&wd->dice, pr->lingering);
  int32_t ms = (int32_t)rng_between(&wd->dice, 1, most[which]);
  return can_linger && lingers ? ms : 0;
}

/* Returns an unused acquisition; NULL: all await the result of their release. */
static sim_acquisition *find_owner(sim_caller *who) {
  for (int i = 0; i < ACQUISITIONS_MAX; i++) {
    if (who->acquisitions[i].state == ACQUISITION_OVER)
      return &who->acquisitions[i];
  }
  return NULL;
}

static void prepare_owner(world *wd, sim_caller *who, sim_acquisition *owner) {
  *owner = (sim_acquisition){.caller = who->id, .state = ACQUISITION_WAITS};
  owner->core.linger_ms = pick_linger(wd, who);
  owner->core.try_once = who->trying;
  owner->core.is_share_only = who->must_share;
  who->acquisition = (int)(owner - who->acquisitions);
}

void caller_may_repeat(world *wd, int key_id) {
  wd->callers[key_id_caller(key_id)].again = key_id;
}

bool caller_can_repeat(const world *wd, int key_id) {
  int whole = key_id_whole(key_id);
  const sim_caller *who;
  if (!key_id_is_multi(key_id)) return false;
  who = &wd->callers[key_id_caller(whole)];
  return who->again == whole ||
         (who->state == CALLER_WAITING && who->key_id == whole &&
          peer_entry_of(who) == NULL);
}

/* Draws when it gives up, if it does. */
static void plan_give_up(world *wd, sim_caller *who) {
  int most_ms = rng_chance(&wd->dice, 300) ? 50 : 6000;
  int share = wd->faults.calm ? 100 : 400;
  if (!rng_chance(&wd->dice, share)) return;
  wake_at(wd, who, wd->now_ms + rng_between(&wd->dice, 0, most_ms), wake);
}

static void request(world *wd, sim_caller *who) {
  sim_acquisition *owner = find_owner(who);
  if (wd->calm_from_ms != 0) {
    who->state = CALLER_DONE;
    return;
  }
  if (owner == NULL) {
    rest(wd, who);
    return;
  }
  who->turn++;
  who->left--;
  who->verdicts = 0;
  who->asked_ms = wd->now_ms;
  who->asked_nth = ++wd->n_asked;
  who->saw_other = false;
  who->hindered_ms = 0;
  who->key_id = pick_key_id(wd, who);
  who->mode = key_id_mode(who->key_id);
  who->trying = rng_chance(&wd->dice, 250);
  who->must_share = who->mode == EL_MODE_READ && rng_chance(&wd->dice, 150);
  prepare_owner(wd, who, owner);
  who->state = CALLER_WAITING;
  wd->figures->requests++;
  plan_give_up(wd, who);
  world_trace(wd, "p%d caller %d %s%s n%d, lingers for %d ms", who->peer,
              who->id, who->trying ? "tries" : "queues for",
              who->must_share ? " (it must share)" : "", who->key_id,
              (int)owner->core.linger_ms);
  checks_on_asked(wd, who);
  peer_join(wd, who->peer, who->id);
  checks_after_asked(wd, who);
}

static el_leave pick_leave(world *wd) {
  return rng_chance(&wd->dice, 150) ? EL_LEAVE_ABANDONED : EL_LEAVE_VOLUNTARY;
}

static void give_up(world *wd, sim_caller *who) {
  el_leave how = pick_leave(wd);
  world_trace(wd, "p%d caller %d gives up", who->peer, who->id);
  wd->figures->timeouts++;
  who->acquisitions[who->acquisition].gives_up = true;
  peer_leave(wd, who->peer, who->id, how, EL_LOSS_NONE);
  if (who->state == CALLER_WAITING) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d gives up, and waits", who->id, who->peer);
  }
}

static void write(world *wd, const world_event *ev) {
  const sim_caller *who = &wd->callers[ev->who];
  bool may_lead = key_id_mode(who->key_id) == EL_MODE_LOCK;
  if (ev->turn != who->turn || !who->claiming) return;
  peer_write(wd, who->peer, who->id,
             may_lead && rng_chance(&wd->dice, 200) ? WRITE_OWN : WRITE_DATA);
}

/* Several writes within the next |ms|. */
static void plan_writes(world *wd, sim_caller *who, int64_t ms) {
  int n = (int)rng_between(&wd->dice, 1, WRITES_AT_ONCE);
  while (n-- > 0) {
    wake_at(wd, who, wd->now_ms + rng_between(&wd->dice, 0, ms), write);
  }
}

/* A keeper keeps the session alive, and so all late puts on its lease possible. */
static bool keeps_on(world *wd, sim_caller *who) {
  int64_t until_ms = wd->calm_from_ms + CALLER_KEEP_MS;
  if (!who->keeper || wd->calm_from_ms == 0 || !who->claiming) return false;
  if (wd->now_ms >= until_ms) {
    if (who->granted_ms <
        until_ms) { /* else a late put may just have been applied */
      checks_after_audits(wd, &wd->peers[who->peer]);
    }
    return false;
  }
  wake_at(wd, who, until_ms, wake);
  plan_writes(wd, who, until_ms - wd->now_ms);
  return true;
}

/* By its own clock the hold deadline has passed; the loss is not reported yet. */
static bool has_seen_end(const world *wd, const sim_caller *who) {
  const sim_peer *pr = &wd->peers[who->peer];
  return !el_session_is_proven(
      &pr->sessions[pr->entries[who->entry].session].core,
      clock_now(wd, pr->id));
}

/* Its hold was lost; perhaps its hold deadline had passed before. */
static void note_end(const world *wd, sim_caller *who) {
  who->lost_lease = who->lease;
  who->lost_ms = wd->now_ms;
}

/* Releases its hold, which counts as released from then on. */
static void let_go(world *wd, sim_caller *who) {
  sim_acquisition *owner = &who->acquisitions[who->acquisition];
  bool looks =
      rng_chance(&wd->dice, 500); /* at the clock, just before the release */
  el_leave how =
      looks && has_seen_end(wd, who) ? EL_LEAVE_LOST : pick_leave(wd);
  if (how == EL_LEAVE_LOST) {
    peer_leave(wd, who->peer, who->id, how, EL_LOSS_EXPIRED);
    return;
  }
  if (has_seen_end(wd, who))
    note_end(wd, who); /* but it has not looked at the clock */
  owner->state = ACQUISITION_RELEASES;
  owner->left_ms = wd->now_ms;
  wd->figures->releases++;
  checks_on_let_go(wd, who, how);
  rest(wd, who);
  peer_leave(wd, who->peer, who->id, how, EL_LOSS_NONE);
  checks_after_let_go(wd, who);
}

static void release(world *wd, sim_caller *who) {
  bool is_held = who->claiming;
  if (keeps_on(wd, who)) return;
  checks_on_hold_end(wd, who);
  world_trace(wd, "p%d caller %d releases%s", who->peer, who->id,
              is_held ? "" : " what it has lost");
  if (is_held) let_go(wd, who);
  if (who->state == CALLER_HOLDING) rest(wd, who);
}

static void wake(world *wd, const world_event *ev) {
  sim_caller *who = &wd->callers[ev->who];
  if (ev->turn != who->turn) return;
  switch (who->state) {
    case CALLER_RESTING:
      request(wd, who);
      return;
    case CALLER_WAITING:
      give_up(wd, who);
      return;
    case CALLER_HOLDING:
      release(wd, who);
      return;
    case CALLER_DONE:
      return;
  }
}

static void downgrade(world *wd, const world_event *ev) {
  sim_caller *who = &wd->callers[ev->who];
  if (ev->turn != who->turn || !who->claiming) return;
  world_trace(wd, "p%d caller %d only reads on", who->peer, who->id);
  wd->figures->downgrades++;
  who->mode = EL_MODE_READ;
  peer_downgrade(wd, who->peer, who->id);
}

static void max_hold(world *wd, const world_event *ev) {
  const sim_caller *who = &wd->callers[ev->who];
  if (ev->turn != who->turn || !who->claiming) return;
  peer_max_hold(wd, who->peer, who->id);
  if (who->claiming) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d holds on after its max_hold", who->id,
                  who->peer);
  }
}

void caller_init(world *wd, int id, int peer) {
  sim_caller *who = &wd->callers[id];
  *who = (sim_caller){.id = id, .peer = peer};
  who->left = (int)rng_between(&wd->dice, 1, REQUESTS_MAX);
  who->pace = (int)rng_between(&wd->dice, 0, 2);
  who->keeper = rng_chance(&wd->dice, wd->kinds == KINDS_MULTI ? 150 : 60);
  wake_at(wd, who, wd->now_ms + rng_between(&wd->dice, 0, 500), wake);
}

sim_acquisition *caller_acquisition_of(const el_acquisition *core) {
  return (sim_acquisition *)(uintptr_t)((const char *)core -
                                        offsetof(sim_acquisition, core));
}

bool caller_is_over(const sim_caller *who) {
  for (int i = 0; i < ACQUISITIONS_MAX; i++) {
    if (who->acquisitions[i].state != ACQUISITION_OVER) return false;
  }
  return true;
}

/* ---- what it is told ---- */

static void note_verdict(world *wd, sim_caller *who,
                         const sim_acquisition *owner, const char *verdict) {
  world_trace(wd, "p%d caller %d is told: %s", who->peer, who->id, verdict);
  if (who->state != CALLER_WAITING || ++who->verdicts != 1 ||
      owner->state != ACQUISITION_WAITS ||
      owner != &who->acquisitions[who->acquisition]) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d is told again: %s", who->id, who->peer,
                  verdict);
  }
}

static void plan_hold(world *wd, sim_caller *who) {
  wake_at(wd, who, wd->now_ms + pause_ms(wd, who, true), wake);
  if (rng_chance(&wd->dice, 100)) {
    wake_at(wd, who, wd->now_ms + rng_between(&wd->dice, 1, 2000), max_hold);
  }
  if (rng_chance(&wd->dice, wd->writing) && who->mode != EL_MODE_READ) {
    plan_writes(wd, who, rng_chance(&wd->dice, 500) ? 300 : 6000);
  }
  if (who->mode == EL_MODE_WRITE && rng_chance(&wd->dice, 400)) {
    wake_at(wd, who, wd->now_ms + rng_between(&wd->dice, 0, 300), downgrade);
  }
}

/* Tells whether a permit of that semaphore with another n is held. */
static bool is_beside_other_n(const world *wd, const sim_caller *who) {
  for (int i = 0; i < wd->n_callers; i++) {
    const sim_caller *other = &wd->callers[i];
    if (other->claiming && key_id_conflicts(other->key_id, who->key_id) &&
        key_id_permits(other->key_id) != key_id_permits(who->key_id)) {
      return true;
    }
  }
  return false;
}

void caller_on_granted(world *wd, sim_peer *pr, const el_acquisition *core,
                       peer_entry *at) {
  sim_acquisition *owner = caller_acquisition_of(core);
  sim_caller *who = &wd->callers[owner->caller];
  note_verdict(wd, who, owner, "granted");
  wd->figures->grants++;
  wd->figures->several += key_id_is_multi(who->key_id);
  wd->figures->beside_other_n += is_beside_other_n(wd, who);
  owner->state = ACQUISITION_HOLDS;
  who->turn++;
  who->state = CALLER_HOLDING;
  who->key_id = at->key_id;
  who->entry = (int)(at - pr->entries);
  who->token = at->core.rev;
  who->lease = at->core.lease;
  who->granted_ms = wd->now_ms;
  checks_on_grant_told(wd, pr, at, who);
  who->claiming = true;
  who->claim_end_ms = INT64_MAX; /* until the session is asked first */
  checks_delay(wd, who);
  checks_seen_others(wd);
  plan_hold(wd, who);
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

/* The result of a failure that has no error of its own. */
static void note_failure(world *wd, sim_caller *who, caller_verdict verdict) {
  if (verdict == CALLER_REFUSED) wd->figures->refused++;
  if (verdict == CALLER_LOCKED) {
    wd->figures->locked++;
    checks_on_locked(wd, who);
  }
  if (verdict == CALLER_PLACE_LOST) wd->figures->keys_lost++;
  if (wd->faults.calm && !wd->faults.meddled && verdict != CALLER_LOCKED) {
    world_violate(wd, "I9 no false failure",
                  "caller %d of p%d fails for nothing", who->id, who->peer);
  }
}

void caller_on_failed(world *wd, sim_peer *pr, const el_local_action *failed) {
  static const char *const verdicts[] = {"refused", "locked", "key lost"};
  sim_acquisition *owner = caller_acquisition_of(failed->acquisition);
  sim_caller *who = &wd->callers[owner->caller];
  caller_verdict verdict = verdict_of(failed);
  bool is_own =
      owner->gives_up || (pr->closed && failed->err == &caller_closed);
  note_verdict(wd, who, owner, owner->gives_up ? "gave up" : verdicts[verdict]);
  if (owner->gives_up != (failed->err == &caller_gave_up)) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d fails for another", who->id, who->peer);
  }
  owner->state = ACQUISITION_OVER;
  if (!is_own) note_failure(wd, who, verdict);
  rest(wd, who);
}

void caller_on_lost(world *wd, const el_acquisition *core, el_loss loss) {
  sim_acquisition *owner = caller_acquisition_of(core);
  sim_caller *who = &wd->callers[owner->caller];
  bool is_calm = wd->faults.calm && !wd->faults.meddled;
  world_trace(wd, "p%d caller %d is told: lost (%d)", who->peer, who->id,
              (int)loss);
  wd->figures->losses[loss]++;
  if (who->state != CALLER_HOLDING || !who->claiming ||
      owner->state != ACQUISITION_HOLDS ||
      owner != &who->acquisitions[who->acquisition]) {
    world_violate(wd, "I6 a loss is final",
                  "caller %d of p%d loses what it has not", who->id, who->peer);
  }
  owner->state = ACQUISITION_OVER;
  checks_on_hold_end(wd, who);
  writes_end(&wd->peers[who->peer].entries[who->entry], who->id);
  checks_on_let_go(wd, who, EL_LEAVE_LOST);
  who->claiming = false;
  if (loss == EL_LOSS_EXPIRED || loss == EL_LOSS_REVOKED) {
    checks_on_left(wd, who);
    trouble_on_lost(wd, who->peer);
  }
  if (loss == EL_LOSS_CLOSED && has_seen_end(wd, who)) checks_on_left(wd, who);
  if (loss != EL_LOSS_CLOSED || has_seen_end(wd, who)) note_end(wd, who);
  if (is_calm && loss != EL_LOSS_MAX_HOLD && loss != EL_LOSS_CLOSED) {
    world_violate(wd, "I9 no false failure",
                  "caller %d of p%d loses for nothing", who->id, who->peer);
  }
}

void caller_on_released(world *wd, sim_peer *pr,
                        const el_local_action *released) {
  static const char *const results[] = {"released", "was gone", "not released"};
  sim_acquisition *owner = caller_acquisition_of(released->acquisition);
  const sim_caller *who = &wd->callers[owner->caller];
  world_trace(wd, "p%d caller %d is told: %s", who->peer, who->id,
              results[released->release]);
  if (owner->state != ACQUISITION_RELEASES) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d has released what it has not", who->id,
                  who->peer);
  }
  owner->state = ACQUISITION_OVER;
  checks_on_release_told(wd, pr, owner, released);
}

void caller_on_closed(world *wd, int id) {
  sim_caller *who = &wd->callers[id];
  sim_acquisition *owner = &who->acquisitions[who->acquisition];
  if (who->claiming || owner->state == ACQUISITION_WAITS) {
    world_violate(wd, "I8 one true result",
                  "caller %d of p%d is not told that its client was closed", id,
                  who->peer);
  }
  who->left = 0;
  rest(wd, who);
}
