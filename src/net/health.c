/* health: the passive health check of the member in use. */
#include "net/health.h"

#include "base/clock.h"
#include "base/container_of.h"

enum {
  /* etcd elects a new leader 1 s to 2 s after the end of the last one. The first timeouts are
   * short, so that a repeated request is sent soon after the election. Later timeouts are longer,
   * because the whole cluster may be slow. */
  TIMEOUT_MS = 600,
  N_SHORT_TIMEOUTS = 4,
  DOUBLINGS_MAX = 2
};

static int64_t timeout_ms(const el_health *health) {
  int doublings = health->n_timeouts - N_SHORT_TIMEOUTS + 1;
  if (doublings < 0) doublings = 0;
  if (doublings > DOUBLINGS_MAX) doublings = DOUBLINGS_MAX;
  return (int64_t)TIMEOUT_MS << doublings;
}

static void set_timer(el_health *health) {
  el_timers_set(health->timers, &health->timer,
                health->quiet_since_ms + timeout_ms(health));
}

static void cancel_all(el_health *health) {
  el_health_call *call;
  health->n_timeouts++;
  while ((call = TAILQ_FIRST(&health->pending)) != NULL) {
    TAILQ_REMOVE(&health->pending, call, link);
    call->is_pending = false;
    call->cancel(call);
  }
}

/* An answer does not move the timer. So the timer may fire too early, and is then set again. */
static void on_timer(el_timer *timer) {
  el_health *health = EL_CONTAINER_OF(timer, el_health, timer);
  if (el_now_ms() < health->quiet_since_ms + timeout_ms(health)) {
    set_timer(health);
  } else {
    cancel_all(health);
    health->on_unresponsive(health);
  }
}

void el_health_init(el_health *health, el_timers *timers,
                    void (*on_unresponsive)(el_health *health)) {
  *health = (el_health){.on_unresponsive = on_unresponsive, .timers = timers};
  health->timer.on_due = on_timer;
  TAILQ_INIT(&health->pending);
}

void el_health_call_started(el_health *health, el_health_call *call) {
  if (TAILQ_EMPTY(&health->pending)) {
    health->quiet_since_ms = el_now_ms();
    set_timer(health);
  }
  TAILQ_INSERT_TAIL(&health->pending, call, link);
  call->is_pending = true;
}

void el_health_call_ended(el_health *health, el_health_call *call,
                          bool is_answered) {
  if (is_answered) {
    health->n_timeouts = 0;
    health->quiet_since_ms = el_now_ms();
  }
  if (!call->is_pending) return;
  TAILQ_REMOVE(&health->pending, call, link);
  call->is_pending = false;
  if (TAILQ_EMPTY(&health->pending)) {
    el_timers_stop(health->timers, &health->timer);
  }
}

void el_health_destroy(el_health *health) {
  el_timers_stop(health->timers, &health->timer);
}
