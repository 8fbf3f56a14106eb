/* silence: finds out that a member has fallen silent. */
#include "net/silence.h"

#include "base/clock.h"
#include "base/of.h"

enum {
  /* etcd elects a leader 1 s to 2 s after the last one's end. The first few
   * silences are short, so that one of the attempts comes just after that;
   * then they grow, because it may be the cluster that is slow. */
  QUIET_MS = 600,
  SHORT_ONES = 4,
  DOUBLINGS_MAX = 2
};

static int64_t limit_of(const el_silence *silence) {
  int doublings = silence->silences - SHORT_ONES + 1;
  if (doublings < 0) doublings = 0;
  if (doublings > DOUBLINGS_MAX) doublings = DOUBLINGS_MAX;
  return (int64_t)QUIET_MS << doublings;
}

static void set_timer(el_silence *silence) {
  el_timers_set(silence->timers, &silence->timer,
                silence->heard_ms + limit_of(silence));
}

static void give_all_up(el_silence *silence) {
  el_asked *asked;
  silence->silences++;
  while ((asked = TAILQ_FIRST(&silence->out)) != NULL) {
    TAILQ_REMOVE(&silence->out, asked, link);
    asked->out = false;
    asked->give_up(asked);
  }
}

static void on_timer(el_timer *timer) {
  el_silence *silence = EL_OF(timer, el_silence, timer);
  if (el_now_ms() < silence->heard_ms + limit_of(silence)) {
    set_timer(silence);
  } else {
    give_all_up(silence);
    silence->silent(silence);
  }
}

void el_silence_init(el_silence *silence, el_timers *timers,
                     void (*silent)(el_silence *silence)) {
  *silence = (el_silence){.silent = silent, .timers = timers};
  silence->timer.due = on_timer;
  TAILQ_INIT(&silence->out);
}

void el_silence_sent(el_silence *silence, el_asked *asked) {
  if (TAILQ_EMPTY(&silence->out)) {
    silence->heard_ms = el_now_ms();
    set_timer(silence);
  }
  TAILQ_INSERT_TAIL(&silence->out, asked, link);
  asked->out = true;
}

void el_silence_ended(el_silence *silence, el_asked *asked, bool answered) {
  if (answered) {
    silence->silences = 0;
    silence->heard_ms = el_now_ms();
  }
  if (!asked->out) return; /* given up before */
  TAILQ_REMOVE(&silence->out, asked, link);
  asked->out = false;
  if (TAILQ_EMPTY(&silence->out)) {
    el_timers_stop(silence->timers, &silence->timer);
  }
}

void el_silence_destroy(el_silence *silence) {
  el_timers_stop(silence->timers, &silence->timer);
}
