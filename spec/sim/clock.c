/* sim clock: the clock of a peer. */
#include "clock.h"

enum { MILLION = 1000000 };

/* Returns |n| / MILLION, rounded down. */
static int64_t of_million(int64_t n) { return n / MILLION - (n % MILLION < 0); }

int64_t clock_now(const world *wd, int peer) {
  const condition *cond = &wd->faults.peers[peer];
  return cond->clock_ahead_ms +
         of_million(wd->now_ms * (MILLION + cond->clock_ppm));
}

int64_t clock_when(const world *wd, int peer, int64_t shown_ms) {
  const condition *cond = &wd->faults.peers[peer];
  int64_t ran_ms = shown_ms - cond->clock_ahead_ms;
  int64_t rate = MILLION + cond->clock_ppm;
  if (shown_ms == 0) return 0;
  return (ran_ms * MILLION + rate - 1) / rate;
}
