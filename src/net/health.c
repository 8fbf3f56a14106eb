/* health: the passive health check of the member in use. */
#include "net/health.h"

#include "base/clock.h"
#include "base/container_of.h"
#include "base/times.h"

int64_t el_health_limit_ms(const el_health *health) {
  int64_t limit_ms = el_patience_ms(&health->patience);
  int64_t alone_ms = EL_ALONE_FACTOR * limit_ms;
  if (alone_ms > EL_ALONE_MOST_MS) alone_ms = EL_ALONE_MOST_MS;
  return health->is_alone && alone_ms > limit_ms ? alone_ms : limit_ms;
}

/* Tells whether |call| is a keepalive that was sent to the member in use. */
static bool is_sent_keepalive(const el_health *health,
                              const el_health_call *call) {
  return call->is_keepalive && call->is_connected &&
         call->sent_ms >= health->moved_ms;
}

/* Tells whether keepalives alone are pending, and the member has answered since they were sent. */
static bool is_renewing(const el_health *health) {
  const el_health_call *call;
  TAILQ_FOREACH(call, &health->pending, link) {
    if (!is_sent_keepalive(health, call) || call->sent_ms >= health->heard_ms) {
      return false;
    }
  }
  return true;
}

/* Returns when the oldest keepalive, |call|, will be late. */
static int64_t late_at_ms(const el_health *health, const el_health_call *call) {
  return call->sent_ms + (el_health_limit_ms(health) << health->n_late);
}

/* Returns when the member will have been silent for too long, unless it answers. */
static int64_t silent_at_ms(const el_health *health) {
  return health->quiet_since_ms + el_health_limit_ms(health);
}

static bool is_silent(const el_health *health) {
  return !is_renewing(health) && el_now_ms() >= silent_at_ms(health);
}

bool el_health_was_silent(const el_health *health, int64_t begun_ms) {
  int64_t since_ms = begun_ms > health->heard_ms ? begun_ms : health->heard_ms;
  return el_now_ms() >= since_ms + el_health_limit_ms(health);
}

static void set_timer(el_health *health) {
  const el_health_call *first = TAILQ_FIRST(&health->pending);
  const el_health_call *last = TAILQ_LAST(&health->pending, el_health_calls);
  int64_t at_ms =
      is_renewing(health) ? late_at_ms(health, first) : silent_at_ms(health);
  if (first->sent_ms < health->moved_ms && health->left_until_ms < at_ms) {
    at_ms = health->left_until_ms;
  }
  if (!last->is_connected) {
    int64_t look_ms = el_now_ms() + EL_LOOK_MS;
    if (look_ms < at_ms) at_ms = look_ms;
  }
  el_timers_set(health->timers, &health->timer, at_ms);
}

/* Counts the time of the calls from now on, because they have waited for the connection. */
static void start_calls(el_health *health) {
  el_health_call *call;
  TAILQ_FOREACH(call, &health->pending, link) {
    if (call->sent_ms < health->moved_ms) continue; /* to another member */
    call->is_connected = true;
    call->sent_ms = el_now_ms();
  }
}

static void cancel(el_health *health, el_health_call *call) {
  TAILQ_REMOVE(&health->pending, call, link);
  call->is_pending = false;
  call->cancel(call);
}

static void give_up(el_health *health, el_health_call *call) {
  call->is_given_up = true;
  cancel(health, call);
}

static void give_up_before(el_health *health, int64_t until_ms) {
  el_health_call *call;
  while ((call = TAILQ_FIRST(&health->pending)) != NULL &&
         call->sent_ms < until_ms) {
    give_up(health, call);
  }
}

/* Gives up the calls to the member in use. Those to the previous member keep the rest of their
 * limit. */
static void give_up_here(el_health *health) {
  el_health_call *call;
  while ((call = TAILQ_LAST(&health->pending, el_health_calls)) != NULL &&
         call->sent_ms >= health->moved_ms) {
    give_up(health, call);
  }
}

/* Returns the oldest keepalive that was sent; NULL: none is pending. */
static el_health_call *oldest_keepalive(const el_health *health) {
  el_health_call *call;
  TAILQ_FOREACH(call, &health->pending, link) {
    if (is_sent_keepalive(health, call)) return call;
  }
  return NULL;
}

static void check_keepalives(el_health *health) {
  el_health_call *oldest = oldest_keepalive(health);
  if (oldest == NULL || el_now_ms() < late_at_ms(health, oldest)) return;
  if (health->n_late < EL_ANSWER_DOUBLINGS) health->n_late++;
  cancel(health, oldest);
  health->on_late_keepalive(health);
}

/* An answer does not move the timer. So the timer may fire too early, and is then set again. The
 * answers of a new member say nothing about calls to the previous one: these keep the rest of their
 * limit. */
static void on_timer(el_timer *timer) {
  el_health *health = EL_CONTAINER_OF(timer, el_health, timer);
  bool is_overtaken = false;
  if (el_now_ms() >= health->left_until_ms) {
    give_up_before(health, health->moved_ms);
  }
  if (TAILQ_EMPTY(&health->pending)) return;
  if (!TAILQ_LAST(&health->pending, el_health_calls)->is_connected) {
    if (health->is_connected(health)) start_calls(health);
    is_overtaken = health->is_overtaken(health);
  }
  if (is_overtaken) {
    give_up_here(health);
    health->on_unresponsive(health);
  } else if (is_silent(health) && health->is_unresponsive(health)) {
    give_up_before(health, INT64_MAX);
    health->on_unresponsive(health);
  } else {
    check_keepalives(health);
    if (!TAILQ_EMPTY(&health->pending)) set_timer(health);
  }
}

void el_health_init(el_health *health, el_timers *timers,
                    bool (*is_connected)(el_health *health),
                    bool (*is_overtaken)(el_health *health),
                    bool (*is_unresponsive)(el_health *health),
                    void (*on_unresponsive)(el_health *health),
                    void (*on_late_keepalive)(el_health *health)) {
  *health = (el_health){.is_connected = is_connected,
                        .is_overtaken = is_overtaken,
                        .is_unresponsive = is_unresponsive,
                        .on_unresponsive = on_unresponsive,
                        .on_late_keepalive = on_late_keepalive,
                        .timers = timers};
  health->timer.on_due = on_timer;
  TAILQ_INIT(&health->pending);
}

void el_health_call_started(el_health *health, el_health_call *call,
                            bool is_connected) {
  bool is_first = TAILQ_EMPTY(&health->pending);
  call->sent_ms = el_now_ms();
  TAILQ_INSERT_TAIL(&health->pending, call, link);
  call->is_pending = true;
  call->is_connected = is_connected;
  if (is_first) health->quiet_since_ms = call->sent_ms;
  if (is_first || !is_connected) set_timer(health);
}

void el_health_heard(el_health *health) {
  health->quiet_since_ms = health->heard_ms = el_now_ms();
}

void el_health_moved(el_health *health) {
  health->left_until_ms = silent_at_ms(health);
  health->moved_ms = health->quiet_since_ms = el_now_ms();
  if (!TAILQ_EMPTY(&health->pending)) {
    el_timers_set(health->timers, &health->timer, health->left_until_ms);
  }
}

void el_health_restart(el_health *health) {
  el_health_call *call = TAILQ_FIRST(&health->pending), *next;
  el_patience_reset(&health->patience);
  health->n_late = 0;
  for (; call != NULL; call = next) {
    next = TAILQ_NEXT(call, link);
    if (call->is_keepalive) continue;
    call->is_restarted = true;
    cancel(health, call);
  }
}

void el_health_connected(el_health *health, int64_t took_ms) {
  el_patience_connected(&health->patience, took_ms / EL_CONNECTION_DIVISOR);
  el_health_heard(health);
}

void el_health_answered(el_health *health, int64_t took_ms) {
  el_patience_answered(&health->patience, took_ms);
  el_health_heard(health);
}

void el_health_call_ended(el_health *health, el_health_call *call,
                          bool is_answered) {
  if (is_answered && call->sent_ms != 0) {
    int64_t took_ms = el_now_ms() - call->sent_ms;
    /* If this took longer than other calls may, the next keepalive needs the longer time, too. */
    if (call->is_keepalive && took_ms < el_health_limit_ms(health)) {
      health->n_late = 0;
    }
    el_health_answered(health, took_ms);
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
