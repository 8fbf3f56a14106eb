/* sim faults: which faults one history has, how often, and when. */
#include "faults.h"

#include <string.h>

/* The largest rate or number of a fault. */
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
    {FAULT_NO_LEASES, 100, 0},  {FAULT_NO_MORE, 500, 0},
    {FAULT_FAST_KEEP, 300, 0},  {FAULT_KEEP_BREAK, 150, 0},
    {FAULT_STALE_READ, 500, 0}, {FAULT_WATCH_LATE, 300, 0},
    {FAULT_SWALLOWED, 300, 0},  {FAULT_REPLAYED, 300, 0},
    {FAULT_WATCH_BREAK, 50, 0}, {FAULT_PARTITION, 0, 6},
    {FAULT_ELECTION, 0, 5},     {FAULT_DEPOSED, 0, 5},
    {FAULT_LAGGING, 0, 6},      {FAULT_RESTART, 0, 3},
    {FAULT_STOP, 0, 8},         {FAULT_CRASH, 0, 1},
    {FAULT_CLOSE, 0, 1},        {FAULT_ADMIN_DELETE, 0, 6},
    {FAULT_ADMIN_WRITE, 0, 2},  {FAULT_ADMIN_REVOKE, 0, 2},
};

enum { MEASURES = sizeof measures / sizeof measures[0] };

static void draw_latency(faults *fl, rng *dice) {
  static const int64_t max_ms[] = {2, 5, 20, 60, 200, 350};
  int kind = (int)rng_between(dice, 0, fl->calm ? 2 : 5);
  fl->latency_min_ms = rng_between(dice, 0, 1);
  fl->latency_max_ms = max_ms[kind];
  if (!fl->calm && rng_chance(dice, 400)) {
    fl->slow = (int)rng_between(dice, 10, 200);
    fl->slow_max_ms = rng_between(dice, 100, 3000);
  }
}

/* Draws the clocks of the peers. Their rates differ from the world's clock by up to 1 %, which is
 * more than on real machines. In a history with faults and a TTL of at most 10 s they differ by up
 * to 8 %, nearly the whole margin. */
static void draw_clocks(faults *fl, rng *dice, int64_t ttl_ms) {
  static const int64_t apart[] = {0, 1000, 10000, 80000}; /* in millionths */
  bool is_sound = fl->calm || ttl_ms > 10000;
  int64_t most = apart[rng_between(dice, 0, is_sound ? 2 : 3)];
  for (int i = 0; i < PEERS_MAX; i++) {
    fl->peers[i].clock_ahead_ms = rng_between(dice, 0, 1000000000);
    fl->peers[i].clock_ppm = rng_between(dice, -most, most);
  }
}

static void draw_attempt(faults *fl, rng *dice) {
  static const int64_t attempts_ms[] = {600, 1500, 3000};
  fl->attempt_ms = attempts_ms[rng_between(dice, 0, 2)];
}

static bool is_meddling(fault what) {
  return what == FAULT_ADMIN_DELETE || what == FAULT_ADMIN_WRITE ||
         what == FAULT_ADMIN_REVOKE;
}

/* Draws which faults happen in this history. |share|: per mille of the kinds of faults. |strength|:
 * per mille of the largest rate of a fault. */
static void draw_faults(faults *fl, rng *dice, int share, int strength) {
  for (int i = 0; i < MEASURES; i++) {
    const measure *it = &measures[i];
    if (fl->calm && !is_meddling(it->what)) continue;
    if (!rng_chance(dice, share)) continue;
    if (it->chance > 0) {
      fl->chance[it->what] =
          (int)rng_between(dice, 1, 1 + it->chance * strength / 1000);
    }
    if (it->times > 0) {
      fl->times[it->what] = (int)rng_between(dice, 1, it->times);
    }
  }
}

void faults_draw(faults *fl, rng *dice, int64_t ttl_ms) {
  int kind = (int)rng_between(dice, 0, 9);
  memset(fl, 0, sizeof *fl);
  fl->calm = kind < 3;
  fl->meddled = kind == 2;
  fl->hides_rivals = rng_chance(dice, 200);
  draw_latency(fl, dice);
  fl->batching = (int)rng_between(dice, 0, 1000);
  draw_clocks(fl, dice, ttl_ms);
  draw_attempt(fl, dice);
  if (kind == 2) {
    draw_faults(fl, dice, 700, 0);
  } else if (kind > 2 && kind < 7) {
    draw_faults(fl, dice, 200, 500);
  } else if (kind >= 7) {
    draw_faults(fl, dice, 500, 1000);
  }
  fl->tick_late_ms = fl->calm ? 1 : (int)rng_between(dice, 0, 20);
}

void faults_clear(faults *fl) {
  memset(fl->chance, 0, sizeof fl->chance);
  fl->latency_max_ms = fl->latency_max_ms > 20 ? 20 : fl->latency_max_ms;
  fl->slow = 0;
  for (int i = 0; i < PEERS_MAX; i++) {
    fl->peers[i].partition_until = 0;
    fl->peers[i].deposed_until = 0;
    fl->peers[i].lagging_until = 0;
  }
}

int64_t faults_latency(const faults *fl, rng *dice) {
  if (rng_chance(dice, fl->slow)) {
    return rng_between(dice, fl->latency_min_ms, fl->slow_max_ms);
  }
  return rng_between(dice, fl->latency_min_ms, fl->latency_max_ms);
}

bool faults_is_partitioned(const faults *fl, int peer, int64_t now_ms) {
  return now_ms < fl->peers[peer].partition_until;
}

bool faults_is_deposed(const faults *fl, int peer, int64_t now_ms) {
  return now_ms < fl->peers[peer].deposed_until;
}

bool faults_is_lagging(const faults *fl, int peer, int64_t now_ms) {
  const condition *cond = &fl->peers[peer];
  return now_ms < cond->lagging_until || now_ms < cond->lag_due;
}

int64_t faults_lag_due(faults *fl, int peer, int64_t now_ms) {
  condition *cond = &fl->peers[peer];
  int64_t due_ms =
      now_ms < cond->lagging_until ? now_ms + cond->lag_ms : now_ms;
  if (due_ms > cond->lag_due) cond->lag_due = due_ms;
  return cond->lag_due;
}

int64_t faults_member_rev(const faults *fl, int peer, int64_t now_ms,
                          int64_t rev) {
  if (faults_is_deposed(fl, peer, now_ms)) return fl->peers[peer].old_rev;
  if (faults_is_lagging(fl, peer, now_ms)) return fl->peers[peer].lag_rev;
  return rev;
}
