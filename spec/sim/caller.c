/* sim caller: somebody in a peer who locks, works, and unlocks. */
#include "caller.h"

#include <inttypes.h>

#include "checks.h"
#include "peer.h"
#include "trouble.h"

enum { REQUESTS_MAX = 20, WRITES_AT_ONCE = 6 };

static void wake(world *wd, const world_event *ev);

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
  return key_id_make(name, mode, who->id);
}

void caller_may_repeat(world *wd, int key_id) {
  wd->callers[key_id_caller(key_id)].again = key_id;
}

bool caller_can_repeat(const world *wd, int key_id) {
  int whole = key_id_whole(key_id);
  return key_id_is_multi(key_id) &&
         wd->callers[key_id_caller(whole)].again == whole;
}

static void request(world *wd, sim_caller *who) {
  if (wd->calm_from_ms != 0) {
    who->state = CALLER_DONE;
    return;
  }
  who->turn++;
  who->left--;
  who->verdicts = 0;
  who->asked_ms = wd->now_ms;
  who->key_id = pick_key_id(wd, who);
  who->mode = key_id_mode(who->key_id);
  who->trying = rng_chance(&wd->dice, 250);
  who->state = CALLER_WAITING;
  wd->figures->requests++;
  if (!wd->faults.calm && rng_chance(&wd->dice, 400)) {
    wake_at(wd, who, wd->now_ms + rng_between(&wd->dice, 0, 6000), wake);
  }
  world_trace(wd, "p%d caller %d %s n%d", who->peer, who->id,
              who->trying ? "tries" : "queues for", who->key_id);
  peer_request(wd, who->peer, who->id);
}

static void give_up(world *wd, sim_caller *who) {
  world_trace(wd, "p%d caller %d gives up", who->peer, who->id);
  wd->figures->timeouts++;
  who->verdicts++;
  rest(wd, who);
  peer_stop(wd, who->peer, who->id);
}

static void write(world *wd, const world_event *ev) {
  const sim_caller *who = &wd->callers[ev->who];
  bool may_lead = key_id_mode(who->key_id) == EL_MODE_LOCK;
  if (ev->turn != who->turn || !who->claiming) return;
  peer_write(wd, who->peer, who->id,
             may_lead && rng_chance(&wd->dice, 200) ? WRITE_OWN : WRITE_DATA);
}

/* Several times within the next |ms|. */
static void plan_writes(world *wd, sim_caller *who, int64_t ms) {
  int n = (int)rng_between(&wd->dice, 1, WRITES_AT_ONCE);
  while (n-- > 0) {
    wake_at(wd, who, wd->now_ms + rng_between(&wd->dice, 0, ms), write);
  }
}

/* One who keeps his lock keeps the session, and so all that may come on it. */
static bool keeps_on(world *wd, sim_caller *who) {
  int64_t until_ms = wd->calm_from_ms + CALLER_KEEP_MS;
  if (!who->keeper || wd->calm_from_ms == 0 || !who->claiming) return false;
  if (wd->now_ms >= until_ms) {
    checks_after_audits(wd, &wd->peers[who->peer]);
    return false;
  }
  wake_at(wd, who, until_ms, wake);
  plan_writes(wd, who, until_ms - wd->now_ms);
  return true;
}

static void release(world *wd, sim_caller *who) {
  bool is_held;
  if (who->claiming) peer_notice_end(wd, who->peer, who->id);
  is_held = who->claiming;
  if (keeps_on(wd, who)) return;
  checks_on_hold_end(wd, who);
  world_trace(wd, "p%d caller %d releases%s", who->peer, who->id,
              is_held ? "" : " what it has lost");
  if (is_held) wd->figures->releases++;
  rest(wd, who);
  if (is_held) peer_stop(wd, who->peer, who->id);
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
  if (ev->turn == who->turn) peer_max_hold(wd, who->peer, who->id);
}

void caller_init(world *wd, int id, int peer) {
  sim_caller *who = &wd->callers[id];
  *who = (sim_caller){.id = id, .peer = peer};
  who->left = (int)rng_between(&wd->dice, 1, REQUESTS_MAX);
  who->pace = (int)rng_between(&wd->dice, 0, 2);
  who->keeper = rng_chance(&wd->dice, wd->kinds == KINDS_MULTI ? 150 : 60);
  wake_at(wd, who, wd->now_ms + rng_between(&wd->dice, 0, 500), wake);
}

bool caller_is_trying(const world *wd, int id) {
  return wd->callers[id].trying;
}

/* ---- what it is told ---- */

static void note_verdict(world *wd, sim_caller *who, const char *verdict) {
  world_trace(wd, "p%d caller %d is told: %s", who->peer, who->id, verdict);
  if (who->state != CALLER_WAITING || ++who->verdicts != 1) {
    world_violate(wd, "I8 one verdict", "caller %d of p%d is told again: %s",
                  who->id, who->peer, verdict);
  }
}

void caller_on_granted(world *wd, int id, int64_t token) {
  sim_caller *who = &wd->callers[id];
  note_verdict(wd, who, "granted");
  wd->figures->grants++;
  wd->figures->several += key_id_is_multi(who->key_id);
  who->turn++;
  who->state = CALLER_HOLDING;
  who->token = token;
  who->granted_ms = wd->now_ms;
  who->claiming = true;
  who->lease = peer_find_driven(&wd->peers[who->peer], id)->core.lease;
  who->claim_end_ms = INT64_MAX; /* until the first look at the session */
  checks_delay(wd, who);
  wake_at(wd, who, wd->now_ms + pause_ms(wd, who, true), wake);
  if (rng_chance(&wd->dice, 100)) {
    wake_at(wd, who, wd->now_ms + rng_between(&wd->dice, 1, 2000), max_hold);
  }
  if (rng_chance(&wd->dice, wd->writing)) {
    plan_writes(wd, who, rng_chance(&wd->dice, 500) ? 300 : 6000);
  }
  if (key_id_mode(who->key_id) == EL_MODE_WRITE && rng_chance(&wd->dice, 400)) {
    wake_at(wd, who, wd->now_ms + rng_between(&wd->dice, 0, 300), downgrade);
  }
}

void caller_on_failed(world *wd, int id, caller_verdict verdict) {
  static const char *const verdicts[] = {"refused", "locked", "conflict",
                                         "place lost"};
  sim_caller *who = &wd->callers[id];
  note_verdict(wd, who, verdicts[verdict]);
  if (verdict == CALLER_REFUSED) wd->figures->refused++;
  if (verdict == CALLER_LOCKED) {
    wd->figures->locked++;
    checks_on_locked(wd, who);
  }
  if (verdict == CALLER_PLACE_LOST) wd->figures->places_lost++;
  if (verdict == CALLER_CONFLICT) wd->figures->conflicts++;
  if (wd->faults.calm && !wd->faults.meddled && verdict != CALLER_LOCKED &&
      verdict != CALLER_CONFLICT) {
    world_violate(wd, "I9 calm", "caller %d of p%d fails for nothing", id,
                  who->peer);
  }
  rest(wd, who);
}

/* Its hold has ended, and not by its will; perhaps its claim had before. */
static void note_end(const world *wd, sim_caller *who) {
  who->lost_lease = who->lease;
  who->lost_ms = wd->now_ms;
}

void caller_on_lost(world *wd, int id, el_loss loss) {
  sim_caller *who = &wd->callers[id];
  world_trace(wd, "p%d caller %d is told: lost (%d)", who->peer, id, (int)loss);
  wd->figures->losses[loss]++;
  if (who->state != CALLER_HOLDING || !who->claiming) {
    world_violate(wd, "I6 lost once", "caller %d of p%d loses what it has not",
                  id, who->peer);
  }
  checks_on_hold_end(wd, who);
  who->claiming = false;
  if (loss == EL_LOSS_EXPIRED || loss == EL_LOSS_REVOKED) {
    checks_on_left(wd, who);
    trouble_on_lost(wd, who->peer);
  }
  note_end(wd, who);
  if (wd->faults.calm && !wd->faults.meddled && loss != EL_LOSS_MAX_HOLD) {
    world_violate(wd, "I9 calm", "caller %d of p%d loses for nothing", id,
                  who->peer);
  }
}

void caller_on_closed(world *wd, int id, bool is_over) {
  sim_caller *who = &wd->callers[id];
  who->left = 0;
  if (who->claiming && is_over) {
    checks_on_left(wd, who);
    note_end(wd, who);
  }
  rest(wd, who);
}
