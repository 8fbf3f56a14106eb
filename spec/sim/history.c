/* sim history: one history, from the first acquisition until all work is over and no key is
 * left. */
#include "history.h"

#include "caller.h"
#include "checks.h"
#include "peer.h"
#include "trouble.h"

enum {
  ACTIVE_MIN_MS = 5000,
  ACTIVE_MAX_MS = 60000,
  LOOK_EVERY_MS = 250,
  PATIENCE_MS =
      CALLER_KEEP_MS + 60000, /* all work after the faults must end by then */
  EVENTS_MAX = 2000000        /* more than any correct history needs */
};

static void on_change(void *arg, const change *what) {
  world *wd = arg;
  checks_on_change(wd, what);
  stream_on_change(wd, what);
}

/* Draws the lock delay of |pr|. |share|, per mille, of the peers have one. */
static void draw_delay(world *wd, sim_peer *pr, int share) {
  static const int64_t delays[] = {1, 1000, 4000, 15000};
  if (!rng_chance(&wd->dice, share)) return;
  pr->lock_delay_ms = delays[rng_between(&wd->dice, 0, 3)];
  if (wd->ttl_ms + pr->lock_delay_ms > wd->lease_ms) {
    wd->lease_ms = wd->ttl_ms + pr->lock_delay_ms;
  }
}

static void fill(world *wd) {
  static const int64_t ttls[] = {2000, 3000, 5000, 10000};
  static const int lingerings[] = {0, 0, 300, 900}; /* per mille */
  rng *dice = &wd->dice;
  int delayed, lingering;
  wd->ttl_ms = rng_chance(dice, 50) ? 300000 : ttls[rng_between(dice, 0, 3)];
  wd->n_peers = (int)rng_between(dice, 1, PEERS_MAX);
  wd->n_names = (int)rng_between(dice, 1, 2);
  wd->kinds = rng_chance(dice, 350)   ? KINDS_LOCK
              : rng_chance(dice, 400) ? KINDS_READ_WRITE
              : rng_chance(dice, 500) ? KINDS_PERMIT
                                      : KINDS_MULTI;
  if (wd->kinds == KINDS_MULTI) wd->n_names = NAMES_MAX;
  wd->writing = (int)rng_between(dice, 0, 1000);
  wd->n_callers = 0;
  faults_draw(&wd->faults, dice, wd->ttl_ms);
  store_reset(&wd->store, on_change, wd);
  wd->lease_ms = wd->ttl_ms;
  delayed = rng_chance(dice, 300) ? 700 : 0;
  lingering = lingerings[rng_between(dice, 0, 3)];
  wd->waits_out = rng_chance(dice, 50);
  for (int i = 0; i < wd->n_peers; i++) {
    int n = (int)rng_between(dice, 1, CALLERS_MAX / wd->n_peers);
    peer_init(&wd->peers[i], i);
    wd->peers[i].lingering = lingering;
    draw_delay(wd, &wd->peers[i], delayed);
    while (n-- > 0) {
      caller_init(wd, wd->n_callers++, i);
    }
  }
}

/* ---- the end ---- */

/* Closes each peer with a key that may linger for more than LONG_MS, so that the history ends. */
static void close_lingering(world *wd) {
  enum { LONG_MS = 20000 };
  if (wd->waits_out || wd->now_ms <= wd->quiet_from_ms) return;
  for (int i = 0; i < wd->n_peers; i++) {
    const sim_peer *pr = &wd->peers[i];
    for (int k = 0; k < pr->n_entries && !wd->faults.peers[i].crashed; k++) {
      const peer_entry *at = &pr->entries[k];
      if (at->used && at->left_ms != 0 && at->linger_ms > LONG_MS) {
        peer_close(wd, i);
        break;
      }
    }
  }
}

static void look_at_waits(world *wd, const world_event *ev) {
  (void)ev;
  if (wd->calm_from_ms != 0) return;
  checks_blocked_waiters(wd);
  world_post(wd, wd->now_ms + LOOK_EVERY_MS, NONE, look_at_waits);
}

static void look(world *wd, const world_event *ev) {
  int64_t patience_ms = PATIENCE_MS + (wd->waits_out ? 1000000 : 0);
  close_lingering(wd);
  checks_prompt_grants(wd);
  checks_blocked_waiters(wd);
  checks_prompt_losses(wd);
  if (checks_is_clean(wd) && wd->flying == 0 &&
      wd->now_ms > wd->quiet_from_ms) {
    wd->n_heap = 0; /* the history is over */
  } else if (wd->now_ms > wd->calm_from_ms + patience_ms + 6 * wd->lease_ms) {
    checks_report_unfinished(wd);
  } else {
    world_post(wd, wd->now_ms + LOOK_EVERY_MS, NONE, look)->subject =
        ev->subject;
  }
}

static void calm_down(world *wd, const world_event *ev) {
  (void)ev;
  world_trace(wd, "the faults end");
  wd->calm_from_ms = wd->now_ms;
  wd->quiet_from_ms = wd->now_ms + 3 * wd->lease_ms + 3000;
  trouble_strike_last(wd);
  faults_clear(&wd->faults);
  trouble_clean_up(wd);
  world_post(wd, wd->now_ms, NONE, look);
}

bool history_run(world *wd, uint64_t seed, figures *all) {
  int64_t end_ms;
  wd->figures = all;
  world_reset(wd, seed);
  fill(wd);
  end_ms = wd->now_ms + rng_between(&wd->dice, ACTIVE_MIN_MS, ACTIVE_MAX_MS);
  trouble_plan(wd, end_ms);
  world_post(wd, end_ms, NONE, calm_down);
  if (wd->faults.calm) look_at_waits(wd, NULL);
  while (!wd->failed && world_next(wd)) {
    if (wd->n_events > EVENTS_MAX) {
      world_violate(wd, "I5 progress", "the history does not end");
    }
  }
  all->histories++;
  all->events += wd->n_events;
  all->virtual_ms += wd->now_ms;
  return !wd->failed;
}
