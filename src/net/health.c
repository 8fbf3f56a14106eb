/* health: the passive health check of the member in use. */
#include "net/health.h"

#include "base/clock.h"
#include "base/container_of.h"

enum {
  /* etcd elects a new leader 1 s to 2 s after the end of the last one. The first limit is short, so
   * that a repeated request is sent soon after the election. */
  LIMIT_MIN_MS = 600,
  /* below the timeout of an attempt (request_queue.h): otherwise each call would end by its own
   * timeout, before the check */
  LIMIT_MAX_MS = 2500,
  SLOWEST_TIMES = 4, /* answers of one kind differ by less */
  DOUBLINGS_MAX = 3,
  /* of a call that waits for the connection: two for the connection, four with TLS */
  ROUND_TRIPS = 3,
  /* A connection takes two round trips, but only one if a proxy accepts it. */
  CONNECTION_DIVISOR = 2,
  /* an answer that was slow counts for fewer and fewer of the next ones */
  FORGET_DIVISOR = 8
};

static int64_t timeout_ms(const el_health *health) {
  int64_t limit = SLOWEST_TIMES * health->slowest_ms;
  int doublings = health->n_timeouts;
  if (limit < LIMIT_MIN_MS) limit = LIMIT_MIN_MS;
  if (doublings > DOUBLINGS_MAX) doublings = DOUBLINGS_MAX;
  limit <<= doublings;
  return limit < LIMIT_MAX_MS ? limit : LIMIT_MAX_MS;
}

static void set_timer(el_health *health) {
  el_timers_set(health->timers, &health->timer,
                health->quiet_since_ms + timeout_ms(health));
}

/* Cancels the calls that were sent before |until_ms|. */
static void cancel_before(el_health *health, int64_t until_ms) {
  el_health_call *call;
  while ((call = TAILQ_FIRST(&health->pending)) != NULL &&
         call->sent_ms < until_ms) {
    TAILQ_REMOVE(&health->pending, call, link);
    call->is_pending = false;
    call->cancel(call);
  }
}

/* An answer does not move the timer. So the timer may fire too early, and is then set again. The
 * answers of a new member say nothing about the calls to the one before: these have the rest of
 * their limit. */
static void on_timer(el_timer *timer) {
  el_health *health = EL_CONTAINER_OF(timer, el_health, timer);
  int64_t now_ms = el_now_ms(), limit_ms = timeout_ms(health);
  if (now_ms >= health->left_until_ms) {
    cancel_before(health, health->moved_ms);
  }
  if (TAILQ_EMPTY(&health->pending)) return;
  if (now_ms >= health->quiet_since_ms + limit_ms &&
      health->is_unresponsive(health)) {
    cancel_before(health, INT64_MAX);
    health->on_unresponsive(health);
  } else {
    set_timer(health);
  }
}

void el_health_init(el_health *health, el_timers *timers,
                    bool (*is_unresponsive)(el_health *health),
                    void (*on_unresponsive)(el_health *health)) {
  *health = (el_health){.is_unresponsive = is_unresponsive,
                        .on_unresponsive = on_unresponsive,
                        .timers = timers};
  health->timer.on_due = on_timer;
  TAILQ_INIT(&health->pending);
}

void el_health_call_started(el_health *health, el_health_call *call,
                            bool is_connected) {
  call->sent_ms = el_now_ms();
  if (TAILQ_EMPTY(&health->pending)) {
    health->quiet_since_ms = call->sent_ms;
    set_timer(health);
  }
  TAILQ_INSERT_TAIL(&health->pending, call, link);
  call->is_pending = true;
  call->is_connected = is_connected;
}

void el_health_double_limit(el_health *health) { health->n_timeouts++; }

void el_health_heard(el_health *health) {
  health->quiet_since_ms = health->heard_ms = el_now_ms();
}

void el_health_moved(el_health *health) {
  health->left_until_ms = health->quiet_since_ms + timeout_ms(health);
  health->moved_ms = health->quiet_since_ms = el_now_ms();
  if (!TAILQ_EMPTY(&health->pending)) {
    el_timers_set(health->timers, &health->timer, health->left_until_ms);
  }
}

bool el_health_is_silent(const el_health *health) {
  return el_now_ms() >= health->heard_ms + timeout_ms(health);
}

void el_health_connected(el_health *health, int64_t took_ms) {
  health->is_measured = true;
  if (took_ms / CONNECTION_DIVISOR > health->slowest_ms) {
    health->slowest_ms = took_ms / CONNECTION_DIVISOR;
  }
  el_health_heard(health);
}

static void note_answer(el_health *health, const el_health_call *call) {
  int64_t took_ms;
  health->n_timeouts = 0;
  health->is_measured = true;
  el_health_heard(health);
  took_ms = health->heard_ms - call->sent_ms;
  if (!call->is_connected) took_ms /= ROUND_TRIPS;
  health->slowest_ms -= health->slowest_ms / FORGET_DIVISOR;
  if (took_ms > health->slowest_ms) health->slowest_ms = took_ms;
}

void el_health_call_ended(el_health *health, el_health_call *call,
                          bool is_answered) {
  if (is_answered && call->sent_ms != 0) note_answer(health, call);
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
