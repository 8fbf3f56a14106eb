/* local_queue_time: what the clock ends: a wait at its deadline, a hold at its hard end. */
#include "base/clock.h"
#include "base/of.h"
#include "lock/local_queue_int.h"

static bool waits_for_contact(const el_owner *owner) {
  const el_local_queues *queues = owner->queue->queues;
  return owner->deadline_ms == INT64_MAX &&
         !el_requests_have_contact(queues->world->requests);
}

/* One who waits without a time limit waits out an outage like another holder;
 * but where etcd has never been, he would wait for a typing mistake. */
static void on_deadline(el_owner *owner) {
  el_local_place *at = owner->place;
  bool endless = owner->deadline_ms == INT64_MAX;
  if (endless && !waits_for_contact(owner)) return; /* it has come meanwhile */
  el_local_queue_fail_in_time(owner, endless ? EL_FIRST_CONTACT_MS
                                             : owner->timeout_ms);
  el_local_queue_signal_last(at, EL_ENTRY_STOP);
}

/* Of those who share a key each has its own end. */
static void on_hard_end(el_owner *owner) {
  if (el_local_queue_is_alone(owner)) {
    el_entry_driver_signal(&owner->place->driver, EL_ENTRY_MAX_HOLD);
  } else {
    el_local_queue_leave_lost(owner, EL_LOSS_MAX_HOLD);
  }
}

void el_local_queue_on_timer(el_timer *timer) {
  el_owner *owner = EL_OF(timer, el_owner, timer);
  /* Read once: what still lingers at that time has no hard end before it. */
  int64_t now_ms = el_now_ms();
  if (owner->state != EL_OWNER_HOLDING) {
    on_deadline(owner);
  } else if (owner->events->end_linger(owner, now_ms)) {
    el_local_queue_let_go(owner, true);
  } else if (now_ms < owner->events->hard_end(owner)) {
    el_local_queue_set_hard_end(owner); /* it was moved this very moment */
  } else {
    on_hard_end(owner);
  }
}

void el_local_queue_expire(el_owner *owner) {
  if (owner->state == EL_OWNER_HOLDING) {
    el_local_queue_set_hard_end(owner);
  }
}

void el_local_queue_set_deadline(el_owner *owner) {
  int64_t at_ms = waits_for_contact(owner) ? el_now_ms() + EL_FIRST_CONTACT_MS
                                           : owner->deadline_ms;
  if (at_ms != INT64_MAX) {
    el_timers_set(timers_of(owner->queue), &owner->timer, at_ms);
  }
}
