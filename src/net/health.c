/* health: the passive health check of the member in use. */
#include "net/health.h"

#include "base/clock.h"
#include "base/container_of.h"

enum {
  /* The least limit. An election takes 1 s to 2 s; a repeat is to be sent soon after it. */
  LIMIT_MIN_MS = 600,
  /* The limit until the first answer: longer, because the disk may be slow, and a repeated write
   * makes it slower. */
  LIMIT_FIRST_MS = 1200,
  LIMIT_MAX_MS = 2500,
  /* The greatest limit if there is no other member; until the first answer it is LIMIT_MAX_MS. */
  LIMIT_ALONE_MAX_MS = 10000,
  DOUBLINGS_MAX = 4,
  /* The limit is at least this times what the slowest recent answer took. After a loss, TCP waits
   * for one round trip or two before it sends the packet again. */
  SLOWEST_TIMES = 4,
  /* milliseconds between two looks whether the connection that a call waits for is there */
  LOOK_MS = 50,
  /* Divides the time of a call that waited for the connection, and so for its round trips. */
  ROUND_TRIPS = 3,
  /* Divides the time of a connection: two round trips, but only one if a proxy accepts it. */
  CONNECTION_DIVISOR = 2,
  /* |slowest_ms| shrinks by this part at each answer, to forget a slow one */
  FORGET_DIVISOR = 8
};

int64_t el_health_limit_ms(const el_health *health) {
  int64_t most = health->is_alone ? LIMIT_ALONE_MAX_MS : LIMIT_MAX_MS;
  int64_t limit = health->is_answered ? LIMIT_MIN_MS
                  : health->is_alone  ? LIMIT_MAX_MS
                                      : LIMIT_FIRST_MS;
  int64_t measured = SLOWEST_TIMES * health->slowest_ms;
  bool may_elect = health->is_answered && !health->is_alone;
  int doublings = may_elect ? health->n_timeouts / 2 : health->n_timeouts;
  if (doublings > DOUBLINGS_MAX) doublings = DOUBLINGS_MAX;
  limit <<= doublings;
  if (limit > most) limit = most;
  return limit > measured ? limit : measured;
}

static bool is_silent(const el_health *health) {
  return el_now_ms() >= health->quiet_since_ms + el_health_limit_ms(health);
}

static void set_timer(el_health *health) {
  const el_health_call *last = TAILQ_LAST(&health->pending, el_health_calls);
  int64_t at_ms = health->quiet_since_ms + el_health_limit_ms(health);
  if (!last->is_connected) {
    int64_t look_ms = el_now_ms() + LOOK_MS;
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
 * answers of a new member say nothing about calls to the previous one: these keep the rest of their
 * limit. */
static void on_timer(el_timer *timer) {
  el_health *health = EL_CONTAINER_OF(timer, el_health, timer);
  bool is_overtaken = false;
  if (el_now_ms() >= health->left_until_ms) {
    cancel_before(health, health->moved_ms);
  }
  if (TAILQ_EMPTY(&health->pending)) return;
  if (!TAILQ_LAST(&health->pending, el_health_calls)->is_connected) {
    if (health->is_connected(health)) start_calls(health);
    is_overtaken = health->is_overtaken(health);
  }
  if (is_overtaken || (is_silent(health) && health->is_unresponsive(health))) {
    cancel_before(health, INT64_MAX);
    health->on_unresponsive(health);
  } else {
    set_timer(health);
  }
}

void el_health_init(el_health *health, el_timers *timers, bool is_alone,
                    bool (*is_connected)(el_health *health),
                    bool (*is_overtaken)(el_health *health),
                    bool (*is_unresponsive)(el_health *health),
                    void (*on_unresponsive)(el_health *health)) {
  *health = (el_health){.is_connected = is_connected,
                        .is_overtaken = is_overtaken,
                        .is_unresponsive = is_unresponsive,
                        .on_unresponsive = on_unresponsive,
                        .is_alone = is_alone,
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
  if (is_first) {
    health->quiet_since_ms = call->sent_ms;
    set_timer(health);
  }
}

void el_health_timed_out(el_health *health) { health->n_timeouts++; }

void el_health_heard(el_health *health) {
  health->quiet_since_ms = health->heard_ms = el_now_ms();
}

void el_health_moved(el_health *health) {
  health->left_until_ms = health->quiet_since_ms + el_health_limit_ms(health);
  health->moved_ms = health->quiet_since_ms = el_now_ms();
  if (!TAILQ_EMPTY(&health->pending)) {
    el_timers_set(health->timers, &health->timer, health->left_until_ms);
  }
}

void el_health_restart(el_health *health) {
  el_health_call *call;
  health->n_timeouts = 0;
  TAILQ_FOREACH(call, &health->pending, link) { call->is_restarted = true; }
  cancel_before(health, INT64_MAX);
}

void el_health_connected(el_health *health, int64_t took_ms) {
  health->is_measured = true;
  took_ms /= CONNECTION_DIVISOR;
  if (took_ms > health->slowest_ms) health->slowest_ms = took_ms;
  el_health_heard(health);
}

void el_health_answered(el_health *health, int64_t took_ms) {
  health->n_timeouts = 0;
  health->is_measured = health->is_answered = true;
  el_health_heard(health);
  health->slowest_ms -= health->slowest_ms / FORGET_DIVISOR;
  if (took_ms > health->slowest_ms) health->slowest_ms = took_ms;
}

static void note_answer(el_health *health, const el_health_call *call) {
  int64_t took_ms = el_now_ms() - call->sent_ms;
  el_health_answered(health,
                     call->is_connected ? took_ms : took_ms / ROUND_TRIPS);
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
