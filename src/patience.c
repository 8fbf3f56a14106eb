/* L1 patience: finds out that a member has fallen silent. */
#include "patience.h"

#include <stddef.h>

#include "clock.h"

enum {
  /* etcd elects a leader 1 s to 2 s after the last one's end. The first few
   * silences are short, so that one of the attempts comes just after that;
   * then they grow, because it may be the cluster that is slow. */
  QUIET_MS = 600,
  SHORT_ONES = 4,
  DOUBLINGS_MAX = 2
};

static int64_t limit_of(const el_patience *patience) {
  int doublings = patience->silences - SHORT_ONES + 1;
  if (doublings < 0) doublings = 0;
  if (doublings > DOUBLINGS_MAX) doublings = DOUBLINGS_MAX;
  return (int64_t)QUIET_MS << doublings;
}

static void set_timer(el_patience *patience) {
  el_timers_set(patience->timers, &patience->timer,
                patience->heard_ms + limit_of(patience));
}

static void give_all_up(el_patience *patience) {
  el_asked *asked;
  patience->silences++;
  while ((asked = TAILQ_FIRST(&patience->out)) != NULL) {
    TAILQ_REMOVE(&patience->out, asked, link);
    asked->out = false;
    asked->give_up(asked);
  }
}

static void on_timer(el_timer *timer) {
  el_patience *patience =
      (el_patience *)((char *)timer - offsetof(el_patience, timer));
  if (el_now_ms() < patience->heard_ms + limit_of(patience)) {
    set_timer(patience);
  } else {
    give_all_up(patience);
    patience->silent(patience);
  }
}

void el_patience_init(el_patience *patience, el_timers *timers,
                      void (*silent)(el_patience *patience)) {
  *patience = (el_patience){.silent = silent, .timers = timers};
  patience->timer.due = on_timer;
  TAILQ_INIT(&patience->out);
}

void el_patience_sent(el_patience *patience, el_asked *asked) {
  if (TAILQ_EMPTY(&patience->out)) {
    patience->heard_ms = el_now_ms();
    set_timer(patience);
  }
  TAILQ_INSERT_TAIL(&patience->out, asked, link);
  asked->out = true;
}

void el_patience_ended(el_patience *patience, el_asked *asked, bool answered) {
  if (answered) {
    patience->silences = 0;
    patience->heard_ms = el_now_ms();
  }
  if (!asked->out) return; /* given up before */
  TAILQ_REMOVE(&patience->out, asked, link);
  asked->out = false;
  if (TAILQ_EMPTY(&patience->out)) {
    el_timers_stop(patience->timers, &patience->timer);
  }
}

void el_patience_destroy(el_patience *patience) {
  el_timers_stop(patience->timers, &patience->timer);
}
