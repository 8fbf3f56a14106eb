/* hold: what its holder does with a lock, on Lua's side: asks whether it is still his, and
 * lets go of it. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/lock_int.h"

/* Lets the I/O thread know, once, that the caller is done with the lock. Unlock, the
 * end of the hold and the collector may all come to say so, and there is one
 * command, which must not be in the inbox twice. */
static void post_stop(el_lock *lk) {
  if (!atomic_exchange(&lk->stop_posted, true)) {
    el_lock_post(lk, &lk->stop_command);
  }
}

void el_lock_read_cause(const el_lock *lk, el_error *cause) {
  el_loss loss;
  int64_t until_ms = el_claim_until(lk->claim, &loss);
  int64_t ended_ms = until_ms <= el_now_ms() ? until_ms : 0;
  if (!el_handle_stood_still(lk->handle, cause)) {
    el_last_cause_read(&lk->handle->last_cause, ended_ms, cause);
  }
}

void el_lock_note_begin(el_lock *lk, int64_t max_hold_ms) {
  int64_t now_us = el_now_us();
  atomic_store_explicit(&lk->held_since_us,
                        lk->handle->events.are_wanted ? now_us : 0,
                        memory_order_relaxed);
  atomic_store(&lk->hold_until_us,
               max_hold_ms > 0 ? now_us + max_hold_ms * 1000 : INT64_MAX);
}

int64_t el_lock_held_us(const el_lock *lk) {
  int64_t since_us =
      atomic_load_explicit(&lk->held_since_us, memory_order_relaxed);
  return since_us != 0 ? el_now_us() - since_us : 0;
}

/* The end of its hold, in a way that its holder doesn't tell of. */
static el_event end_of(const el_lock *lk, el_event_kind kind) {
  return (el_event){.kind = kind,
                    .subject = lk->owner.name,
                    .mode = atomic_load(&lk->is_downgraded)
                                ? EL_MODE_READ
                                : (el_mode)lk->owner.mode,
                    .leads = lk->leads,
                    .token = lk->token,
                    .held_us = el_lock_held_us(lk)};
}

bool el_lock_lose(el_lock *lk, el_loss loss) {
  el_error cause = {.code = EL_OK};
  el_event event;
  bool is_lost;
  if (atomic_load(&lk->state) != EL_HOLD_HELD) return false;
  event = end_of(lk, loss == EL_LOSS_CLOSED ? EL_EVENT_ENDED : EL_EVENT_LOST);
  event.loss = loss;
  if (loss == EL_LOSS_EXPIRED) {
    el_lock_read_cause(lk, &cause);
  }
  if (cause.code != EL_OK) {
    event.why = (el_bytes){cause.text, strlen(cause.text)};
  }
  is_lost = el_events_note_change(&lk->handle->events, &event, &lk->state,
                                  EL_HOLD_HELD, EL_HOLD_LOST + (int)loss);
  if (is_lost) {
    EL_COUNT(&lk->handle->counters, lost, 1);
  }
  return is_lost;
}

/* Latches the loss of a hold whose time is over, and returns the state that stands
 * then: the I/O thread may find another reason at the same moment, or another thread
 * release it, and what came first stays true. The key would live on with the lease, so
 * it is let go as well. */
static int latch_loss(el_lock *lk, el_loss loss) {
  if (el_lock_lose(lk, loss)) {
    el_completion_complete(&lk->news, EL_LOCK_ENDED);
    post_stop(lk);
  }
  return atomic_load(&lk->state);
}

el_loss el_lock_clock_loss(const el_lock *lk, int64_t *left_us) {
  el_loss loss;
  int64_t until = el_claim_until(lk->claim, &loss) * 1000;
  int64_t hard_end = atomic_load(&lk->hold_until_us), now = el_now_us();
  *left_us = (hard_end < until ? hard_end : until) - now;
  if (*left_us > 0) return EL_LOSS_NONE;
  *left_us = 0;
  return hard_end <= now && (until == 0 || hard_end < until) ? EL_LOSS_MAX_HOLD
                                                             : loss;
}

el_hold el_lock_hold(el_lock *lk, int64_t *left_us) {
  int state = atomic_load(&lk->state);
  *left_us = 0;
  if (state == EL_HOLD_HELD) {
    /* Before the state: claim.h. */
    el_loss loss = el_lock_clock_loss(lk, left_us);
    state = atomic_load(&lk->state);
    if (state == EL_HOLD_HELD && loss != EL_LOSS_NONE) {
      state = latch_loss(lk, loss);
    } else if (state != EL_HOLD_HELD) {
      *left_us = 0;
    }
  }
  return state >= EL_HOLD_LOST ? EL_HOLD_LOST : (el_hold)state;
}

el_loss el_lock_loss(const el_lock *lk) {
  int state = atomic_load(&lk->state);
  return state >= EL_HOLD_LOST ? (el_loss)(state - EL_HOLD_LOST) : EL_LOSS_NONE;
}

/* Has the I/O thread look at the hard end. */
static void post_expire(el_lock *lk) {
  if (!atomic_exchange(&lk->expire_posted, true)) {
    el_lock_post(lk, &lk->command);
  }
}

bool el_lock_expire(el_lock *lk, int64_t max_hold_ms) {
  int64_t left_us;
  if (el_handle_is_forked(lk->handle) ||
      el_lock_hold(lk, &left_us) != EL_HOLD_HELD) {
    return false;
  }
  atomic_store(&lk->hold_until_us, el_now_us() + max_hold_ms * 1000);
  post_expire(lk);
  return true;
}

static bool release_hold(el_lock *lk) {
  int held = EL_HOLD_HELD;
  return atomic_compare_exchange_strong(&lk->state, &held, EL_HOLD_RELEASED);
}

static bool outlive(el_lock *lk, el_event_kind kind) {
  el_event event = end_of(lk, kind);
  return el_events_note_change(&lk->handle->events, &event, &lk->state,
                               EL_HOLD_HELD, EL_HOLD_OUTLIVED);
}

static bool end_request(el_lock *lk) { return outlive(lk, EL_EVENT_ENDED); }

static bool collect(el_lock *lk) { return outlive(lk, EL_EVENT_COLLECTED); }

/* Lets go, of a hold by |end_hold|. True if it was held. */
static bool let_go(el_lock *lk, bool (*end_hold)(el_lock *)) {
  int64_t left_us;
  int state = (int)el_lock_hold(lk, &left_us);
  bool was_held = false;
  /* Granted in between: once more. */
  while (!was_held && (state == EL_HOLD_PENDING || state == EL_HOLD_HELD)) {
    if (state == EL_HOLD_HELD) {
      was_held = end_hold(lk);
      state = atomic_load(&lk->state);
    } else if (atomic_compare_exchange_strong(&lk->state, &state,
                                              EL_HOLD_RELEASED)) {
      break;
    }
  }
  if (was_held) {
    el_completion_complete(&lk->news, EL_LOCK_ENDED);
  }
  post_stop(lk);
  return was_held;
}

void el_lock_downgrade(el_lock *lk) { atomic_store(&lk->is_downgraded, true); }

bool el_lock_release(el_lock *lk) { return let_go(lk, release_hold); }

void el_lock_outlive(el_lock *lk) { let_go(lk, end_request); }

bool el_lock_is_outlived(const el_lock *lk) {
  return atomic_load(&lk->state) == EL_HOLD_OUTLIVED;
}

bool el_lock_drop(el_lock *lk) {
  bool was_held;
  if (el_handle_is_forked(lk->handle)) return false; /* the parent's: leaked */
  was_held = let_go(lk, collect);
  if (was_held) {
    EL_COUNT(&lk->handle->counters, collected, 1);
  }
  el_lock_unref(lk);
  return was_held;
}
