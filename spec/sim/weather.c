/* sim weather: what goes wrong in one history, how often, and when. */
#include "weather.h"

#include <string.h>

/* How much of a fault a wild history has at most. */
typedef struct measure {
  fault what;
  int chance; /* per mille of the messages */
  int times;  /* per history */
} measure;

static const measure measures[] = {
    {FAULT_LOST, 150, 0},       {FAULT_ANSWER_LOST, 150, 0},
    {FAULT_LATE, 150, 0},       {FAULT_ANSWER_LATE, 150, 0},
    {FAULT_REFUSED, 300, 0},    {FAULT_UNAVAILABLE, 150, 0},
    {FAULT_NOSPACE, 40, 0},     {FAULT_DENIED, 10, 0},
    {FAULT_KEEP_BREAK, 150, 0}, {FAULT_STALE_LOOK, 500, 0},
    {FAULT_WATCH_LATE, 300, 0}, {FAULT_SWALLOWED, 300, 0},
    {FAULT_REPLAYED, 300, 0},   {FAULT_WATCH_BREAK, 50, 0},
    {FAULT_PARTITION, 0, 6},    {FAULT_ELECTION, 0, 5},
    {FAULT_DEPOSED, 0, 5},      {FAULT_LAGGING, 0, 6},
    {FAULT_RESTART, 0, 3},      {FAULT_STOP, 0, 8},
    {FAULT_CRASH, 0, 1},        {FAULT_CLOSE, 0, 1},
    {FAULT_ADMIN_DELETE, 0, 6}, {FAULT_ADMIN_WRITE, 0, 2},
    {FAULT_ADMIN_REVOKE, 0, 2},
};

enum { MEASURES = sizeof measures / sizeof measures[0] };

static void draw_latency(weather *wt, rng *dice) {
  static const int64_t max_ms[] = {2, 5, 20, 60, 200, 350};
  int kind = (int)rng_between(dice, 0, wt->calm ? 2 : 5);
  wt->latency_min_ms = 1;
  wt->latency_max_ms = max_ms[kind];
  if (!wt->calm && rng_chance(dice, 400)) {
    wt->slow = (int)rng_between(dice, 10, 200);
    wt->slow_max_ms = rng_between(dice, 100, 1400);
  }
}

/* Clocks differ by up to a hundredth, which is more than sound ones ever do; and where
 * leases are short and days are not calm, by nearly all that the margin is. */
static void draw_clocks(weather *wt, rng *dice, int64_t ttl_ms) {
  static const int64_t apart[] = {0, 1000, 10000, 80000}; /* of a million */
  bool is_sound = wt->calm || ttl_ms > 10000;
  int64_t most = apart[rng_between(dice, 0, is_sound ? 2 : 3)];
  for (int i = 0; i < PEERS_MAX; i++) {
    wt->peers[i].clock_ahead_ms = rng_between(dice, 0, 1000000000);
    wt->peers[i].clock_ppm = rng_between(dice, -most, most);
  }
}

static void draw_attempt(weather *wt, rng *dice) {
  static const int64_t attempts_ms[] = {600, 1500, 3000};
  wt->attempt_ms = attempts_ms[rng_between(dice, 0, 2)];
}

static bool is_meddling(fault what) {
  return what == FAULT_ADMIN_DELETE || what == FAULT_ADMIN_WRITE ||
         what == FAULT_ADMIN_REVOKE;
}

/* |share|, per mille, of the kinds of faults happen at all. */
static void draw_faults(weather *wt, rng *dice, int share, int strength) {
  for (int i = 0; i < MEASURES; i++) {
    const measure *it = &measures[i];
    if (wt->calm && !is_meddling(it->what)) continue;
    if (!rng_chance(dice, share)) continue;
    if (it->chance > 0) {
      wt->chance[it->what] =
          (int)rng_between(dice, 1, 1 + it->chance * strength / 1000);
    }
    if (it->times > 0) {
      wt->times[it->what] = (int)rng_between(dice, 1, it->times);
    }
  }
}

void weather_draw(weather *wt, rng *dice, int64_t ttl_ms) {
  int kind = (int)rng_between(dice, 0, 9);
  memset(wt, 0, sizeof *wt);
  wt->calm = kind < 3;
  wt->meddled = kind == 2;
  draw_latency(wt, dice);
  wt->batching = (int)rng_between(dice, 0, 1000);
  draw_clocks(wt, dice, ttl_ms);
  draw_attempt(wt, dice);
  if (kind == 2) {
    draw_faults(wt, dice, 700, 0);
  } else if (kind > 2 && kind < 7) {
    draw_faults(wt, dice, 200, 500);
  } else if (kind >= 7) {
    draw_faults(wt, dice, 500, 1000);
  }
  wt->tick_late_ms = wt->calm ? 1 : (int)rng_between(dice, 0, 20);
}

void weather_clear(weather *wt) {
  memset(wt->chance, 0, sizeof wt->chance);
  wt->latency_max_ms = wt->latency_max_ms > 20 ? 20 : wt->latency_max_ms;
  wt->slow = 0;
  for (int i = 0; i < PEERS_MAX; i++) {
    wt->peers[i].partition_until = 0;
    wt->peers[i].deposed_until = 0;
    wt->peers[i].lagging_until = 0;
  }
}

int64_t weather_latency(const weather *wt, rng *dice) {
  if (rng_chance(dice, wt->slow)) {
    return rng_between(dice, wt->latency_min_ms, wt->slow_max_ms);
  }
  return rng_between(dice, wt->latency_min_ms, wt->latency_max_ms);
}

bool weather_is_partitioned(const weather *wt, int peer, int64_t now_ms) {
  return now_ms < wt->peers[peer].partition_until;
}

bool weather_is_deposed(const weather *wt, int peer, int64_t now_ms) {
  return now_ms < wt->peers[peer].deposed_until;
}

bool weather_is_lagging(const weather *wt, int peer, int64_t now_ms) {
  const condition *cond = &wt->peers[peer];
  return now_ms < cond->lagging_until || now_ms < cond->lag_due;
}

int64_t weather_lag_due(weather *wt, int peer, int64_t now_ms) {
  condition *cond = &wt->peers[peer];
  int64_t due_ms =
      now_ms < cond->lagging_until ? now_ms + cond->lag_ms : now_ms;
  if (due_ms > cond->lag_due) cond->lag_due = due_ms;
  return cond->lag_due;
}

int64_t weather_member_rev(const weather *wt, int peer, int64_t now_ms,
                           int64_t rev) {
  if (weather_is_deposed(wt, peer, now_ms)) return wt->peers[peer].old_rev;
  if (weather_is_lagging(wt, peer, now_ms)) return wt->peers[peer].lag_rev;
  return rev;
}
