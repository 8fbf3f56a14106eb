/* lock: one acquisition of a lock, and the hold that it leads to. */
#include "lock/lock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "lock/local_queue.h"
#include "lock/task.h"

/* What answers have told about other keys: that of the holder, during the wait only, and a key of
 * the semaphore with another number of permits. The I/O thread sets the fields; any thread takes
 * and frees what they point to. */
typedef struct seen_keys {
  _Atomic(el_seen_key *) holder;
  _Atomic(el_seen_key *) other_permits;
} seen_keys;

struct el_lock {
  el_task task;     /* its events are el_lock_event */
  atomic_int state; /* el_hold, or EL_HOLD_LOST + el_loss; used by any thread */

  bool leads : 1, is_in_with : 1; /* see el_lock_options; constant */
  atomic_bool is_downgraded;      /* to a read hold; used by any thread */
  /* |is_stop_posted|: |stop_command| was posted. |is_max_hold_posted|: |command| is in the
   * inbox. */
  atomic_bool is_stop_posted, is_max_hold_posted;

  union { /* saves 8 bytes for each held lock */
    /* The option max_hold. Set before the I/O thread gets the lock, used until the lock is
     * granted. */
    int64_t max_hold_ms;
    /* When the lock was granted (el_now_us). Used by any thread. */
    _Atomic int64_t held_since_us;
  };

  /* Written by the I/O thread before it completes EL_LOCK_DECIDED. */
  int64_t token;
  int64_t held_rev;
  el_keys keys;
  el_hold_deadline *deadline; /* NULL: the lock was never granted */

  /* Written by the I/O thread. If the wait has failed, it is written before EL_LOCK_DECIDED is
   * completed. If the lock was held, it is written before EL_LOCK_RELEASED is completed. */
  el_error *err; /* why the wait or the release failed; NULL: it did not */

  _Atomic(seen_keys *) seen; /* NULL until a key was seen; then constant */

  _Atomic int64_t max_hold_end_us; /* INT64_MAX: no limit; used by any thread */
  /* runs run_start, later run_move_max_hold_end */
  el_command command;
  el_command stop_command;

  /* Only the I/O thread changes these, after run_start. */
  el_waiter waiter;
  el_writes writes;
};

/* ---- references and commands ---- */

el_lock *el_lock_ref(el_lock *lk) {
  el_task_ref(&lk->task);
  return lk;
}

void el_lock_unref(el_lock *lk) {
  if (!el_task_unref(&lk->task)) return;
  if (lk->deadline != NULL) {
    el_hold_deadline_unref(lk->deadline);
  }
  el_keys_destroy(&lk->keys);
  el_bytes_free(lk->waiter.name);
  el_bytes_free(lk->waiter.value);
  free(lk->err);
  free(el_lock_take_holder(lk));
  free(el_lock_take_other_permits(lk));
  free(lk->seen);
  free(lk);
}

/* Posts |stop_command|, but only once: unlock, the end of an nginx request, the loss of a hold and
 * the garbage collector all lead here, and a command must not be in the inbox twice. */
static void post_stop(el_lock *lk) {
  if (!atomic_exchange(&lk->is_stop_posted, true)) {
    el_task_post(&lk->task, &lk->stop_command, NULL);
  }
}

/* ---- the hold, on any thread ---- */

static void begin_hold(el_lock *lk, int64_t max_hold_ms) {
  int64_t now_us = el_now_us();
  atomic_store_explicit(&lk->held_since_us, now_us, memory_order_relaxed);
  atomic_store(&lk->max_hold_end_us,
               max_hold_ms > 0 ? now_us + max_hold_ms * 1000 : INT64_MAX);
}

/* If the hold is proven and max_hold is not over, returns EL_LOSS_NONE, and in |left_us| the
 * microseconds that are left. Otherwise returns why the hold is over, and 0 in |left_us|. */
static el_loss clock_loss(const el_lock *lk, int64_t *left_us) {
  el_loss loss;
  int64_t until_us = el_hold_deadline_get(lk->deadline, &loss) * 1000;
  int64_t max_us = atomic_load(&lk->max_hold_end_us), now_us = el_now_us();
  *left_us = (max_us < until_us ? max_us : until_us) - now_us;
  if (*left_us > 0) return EL_LOSS_NONE;
  *left_us = 0;
  return max_us <= now_us && (until_us == 0 || max_us < until_us)
             ? EL_LOSS_MAX_HOLD
             : loss;
}

void el_lock_read_proof_error(const el_lock *lk, el_error *err) {
  el_loss loss;
  int64_t until_ms = el_hold_deadline_get(lk->deadline, &loss);
  int64_t ended_ms = until_ms <= el_now_ms() ? until_ms : 0;
  if (!el_shared_stood_still(lk->task.shared, err)) {
    el_shared_read_proof_error(lk->task.shared, ended_ms, err);
  }
}

int64_t el_lock_held_us(const el_lock *lk) {
  return el_now_us() -
         atomic_load_explicit(&lk->held_since_us, memory_order_relaxed);
}

static el_event end_event(const el_lock *lk, el_event_kind kind) {
  return (el_event){.kind = kind,
                    .subject = lk->waiter.name,
                    .mode = atomic_load(&lk->is_downgraded)
                                ? EL_MODE_READ
                                : (el_mode)lk->waiter.mode,
                    .leads = lk->leads,
                    .is_in_with = lk->is_in_with,
                    .token = lk->token,
                    .lasted_us = el_lock_held_us(lk)};
}

/* Marks a hold as lost, and records the event. Counts it as a loss, unless the program has closed
 * the client. Returns false if the lock is not held. */
static bool lose(el_lock *lk, el_loss loss) {
  el_error cause = {.code = EL_OK};
  el_event event;
  bool is_lost;
  if (atomic_load(&lk->state) != EL_HOLD_HELD) return false;
  event =
      end_event(lk, loss == EL_LOSS_CLOSED ? EL_EVENT_ENDED : EL_EVENT_LOST);
  event.loss = loss;
  if (loss == EL_LOSS_EXPIRED) {
    el_lock_read_proof_error(lk, &cause);
  }
  if (cause.code != EL_OK) {
    event.why = (el_bytes){cause.text, strlen(cause.text)};
  }
  is_lost = el_events_note_change(&lk->task.shared->events, &event, &lk->state,
                                  EL_HOLD_HELD, EL_HOLD_LOST + (int)loss);
  if (is_lost && loss != EL_LOSS_CLOSED) {
    EL_COUNT(&lk->task.shared->counters, lost, 1);
  }
  return is_lost;
}

/* Marks a hold whose time is over as lost for |loss|. It also releases the key, which would
 * otherwise live as long as the lease. Returns the resulting state. Another thread may change the
 * state at the same moment: the first change counts. */
static int lose_by_clock(el_lock *lk, el_loss loss) {
  if (lose(lk, loss)) {
    el_completion_complete(&lk->task.completion, EL_LOCK_ENDED);
    post_stop(lk);
  }
  return atomic_load(&lk->state);
}

el_hold el_lock_hold(el_lock *lk, int64_t *left_us) {
  int state = atomic_load(&lk->state);
  *left_us = 0;
  if (state == EL_HOLD_HELD) {
    /* The deadline is read before the state, see el_hold_deadline. */
    el_loss loss = clock_loss(lk, left_us);
    state = atomic_load(&lk->state);
    if (state == EL_HOLD_HELD && loss != EL_LOSS_NONE) {
      state = lose_by_clock(lk, loss);
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

/* ---- calls of the local queue, on the I/O thread ---- */

static el_error *copy_of(const el_error *err) {
  el_error *copy;
  if (err->code == EL_OK) return NULL;
  copy = el_alloc(sizeof *copy);
  *copy = *err;
  return copy;
}

/* Stores what the grant gives and sets the state to HELD. If the wait was cancelled in the
 * meantime, the state is already RELEASED and stays so. The thread that cancelled the wait posts
 * the release. */
static void on_granted(el_waiter *waiter, const el_grant *grant) {
  el_lock *lk = EL_CONTAINER_OF(waiter, el_lock, waiter);
  int pending = EL_HOLD_PENDING;
  lk->token = grant->token;
  lk->held_rev = grant->held_rev;
  el_keys_copy(&lk->keys, grant->keys);
  lk->deadline = el_hold_deadline_ref(grant->deadline);
  el_write_order_init(&lk->writes.order, grant->mod_rev);
  el_bytes_free(waiter->value);
  waiter->value = (el_bytes){0};
  free(el_lock_take_holder(lk));
  begin_hold(lk, lk->max_hold_ms);
  atomic_compare_exchange_strong(&lk->state, &pending, EL_HOLD_HELD);
  el_completion_complete(&lk->task.completion, EL_LOCK_DECIDED);
}

static void on_failed(el_waiter *waiter, const el_error *err) {
  el_lock *lk = EL_CONTAINER_OF(waiter, el_lock, waiter);
  int pending = EL_HOLD_PENDING;
  lk->err = copy_of(err);
  atomic_compare_exchange_strong(&lk->state, &pending, EL_HOLD_FAILED);
  el_completion_complete(&lk->task.completion,
                         EL_LOCK_DECIDED | EL_LOCK_RELEASED | EL_LOCK_ENDED);
}

/* Marks the hold as lost. If its time is over, that is the reason, even if the I/O thread finds
 * another one first: after a standstill it may read that the key is gone before the session checks
 * its hold deadline. */
static void on_lost(el_waiter *waiter, el_loss loss) {
  el_lock *lk = EL_CONTAINER_OF(waiter, el_lock, waiter);
  int64_t left_us;
  el_loss by_clock = clock_loss(lk, &left_us);
  lose(lk, by_clock != EL_LOSS_NONE ? by_clock : loss);
  el_completion_complete(&lk->task.completion, EL_LOCK_ENDED);
}

static void on_released(el_waiter *waiter, const el_error *err) {
  el_lock *lk = EL_CONTAINER_OF(waiter, el_lock, waiter);
  lk->err = copy_of(err);
  el_completion_complete(&lk->task.completion, EL_LOCK_RELEASED);
}

static void on_done(el_waiter *waiter) {
  el_lock_unref(EL_CONTAINER_OF(waiter, el_lock, waiter));
}

static int64_t max_hold_end(const el_waiter *waiter) {
  const el_lock *lk = EL_CONTAINER_OF(waiter, const el_lock, waiter);
  int64_t end_us = atomic_load(&lk->max_hold_end_us);
  return end_us < INT64_MAX ? end_us / 1000 + 1 : INT64_MAX;
}

static int64_t mod_rev(const el_waiter *waiter) {
  const el_lock *lk = EL_CONTAINER_OF(waiter, const el_lock, waiter);
  return atomic_load(&lk->is_downgraded)
             ? -1
             : el_write_order_handoff_rev(&lk->writes.order);
}

static void on_requeued(el_waiter *waiter) {
  const el_lock *lk = EL_CONTAINER_OF(waiter, const el_lock, waiter);
  el_events_note(&lk->task.shared->events,
                 &(el_event){.kind = EL_EVENT_REQUEUED,
                             .subject = waiter->name,
                             .mode = (el_mode)waiter->mode,
                             .leads = lk->leads});
}

static void on_saw_key(el_waiter *waiter, const el_seen_key *key) {
  el_lock *lk = EL_CONTAINER_OF(waiter, el_lock, waiter);
  size_t size = sizeof *key + key->len;
  seen_keys *seen = lk->seen;
  if (seen == NULL) {
    seen = el_alloc(sizeof *seen);
    atomic_store(&lk->seen, seen);
  }
  free(atomic_exchange(key->permits == 0 ? &seen->holder : &seen->other_permits,
                       memcpy(el_alloc(size), key, size)));
}

static const el_waiter_events waiter_events = {
    on_granted,   on_failed, on_lost,     on_released, on_done,
    max_hold_end, mod_rev,   on_requeued, on_saw_key};

/* ---- commands, on the I/O thread ---- */

static void run_move_max_hold_end(el_command *command) {
  el_lock *lk = EL_CONTAINER_OF(command, el_lock, command);
  atomic_store(&lk->is_max_hold_posted, false);
  el_waiter_move_max_hold_end(&lk->waiter);
  el_lock_unref(lk);
}

/* Adds the waiter to its local queue, which takes over the command's reference until on_done.
 * |command| can be used for run_move_max_hold_end from now on, because el_lock_set_max_hold does
 * not post it before the lock is held. */
static void run_start(el_command *command) {
  el_lock *lk = EL_CONTAINER_OF(command, el_lock, command);
  command->run = run_move_max_hold_end;
  el_waiter_join(&lk->waiter, lk->task.shared->queues);
}

static void run_stop(el_command *command) {
  el_lock *lk = EL_CONTAINER_OF(command, el_lock, stop_command);
  el_loss loss = el_lock_loss(lk);
  el_leave how = loss != EL_LOSS_NONE       ? EL_LEAVE_LOST
                 : el_lock_is_abandoned(lk) ? EL_LEAVE_ABANDONED
                                            : EL_LEAVE_VOLUNTARY;
  el_waiter_leave(&lk->waiter, how, loss);
  el_lock_unref(lk);
}

/* ---- make one, on a Lua thread ---- */

static el_lock *new_lock(el_shared *shared, const el_lock_options *options) {
  el_lock *lk = calloc(1, sizeof *lk);
  if (lk == NULL) return NULL;
  lk->waiter.name = (el_bytes){el_bytes_copy(options->name), options->name.len};
  lk->waiter.value =
      (el_bytes){el_bytes_copy(options->value), options->value.len};
  if (lk->waiter.name.data == NULL || lk->waiter.value.data == NULL) {
    el_bytes_free(lk->waiter.name);
    el_bytes_free(lk->waiter.value);
    free(lk);
    return NULL;
  }
  el_task_init(&lk->task, shared);
  atomic_init(&lk->state, EL_HOLD_PENDING);
  atomic_init(&lk->max_hold_end_us, INT64_MAX);
  lk->max_hold_ms = options->max_hold_ms;
  lk->leads = options->leads;
  lk->is_in_with = options->is_in_with;
  TAILQ_INIT(&lk->writes.waiting);
  lk->waiter.events = &waiter_events;
  lk->waiter.mode = (uint8_t)options->mode;
  lk->waiter.permits = options->permits;
  lk->waiter.linger_ms = (int32_t)options->linger_ms;
  lk->waiter.try_once = options->try_once;
  lk->waiter.is_share_only = options->must_share;
  lk->waiter.timeout_ms = options->timeout_ms;
  lk->waiter.deadline_ms =
      options->timeout_ms < 0 ? INT64_MAX : el_now_ms() + options->timeout_ms;
  lk->command.run = run_start;
  lk->stop_command.run = run_stop;
  return lk;
}

el_lock *el_lock_new(el_shared *shared, const el_lock_options *options,
                     el_error *err) {
  el_lock *lk;
  if (!el_shared_is_usable(shared, err)) return NULL;
  lk = new_lock(shared, options);
  if (lk == NULL) {
    el_error_set(err, EL_NOMEM, "no memory for a lock");
    return NULL;
  }
  if (el_task_post(&lk->task, &lk->command, err)) return lk;
  el_lock_unref(lk);
  return NULL;
}

/* ---- wait, on a Lua thread ---- */

static void read_error(const el_error *from, el_error *to) {
  if (from != NULL) {
    *to = *from;
  } else {
    to->code = EL_OK;
  }
}

bool el_lock_wait(el_lock *lk, int64_t timeout_ms, el_error *err) {
  if (!el_task_wait(&lk->task, EL_LOCK_DECIDED, timeout_ms)) {
    return false;
  }
  read_error(lk->deadline == NULL ? lk->err : NULL, err);
  return true;
}

bool el_lock_wait_released(el_lock *lk, int64_t timeout_ms, el_error *err) {
  if (!el_task_wait(&lk->task, EL_LOCK_RELEASED, timeout_ms)) {
    return false;
  }
  read_error(lk->deadline != NULL ? lk->err : NULL, err);
  return true;
}

bool el_lock_wait_ended(el_lock *lk, int64_t timeout_ms) {
  /* The state changes before the event completes. A caller that has seen the loss in the state must
   * not be told that the hold goes on. */
  return el_lock_loss(lk) != EL_LOSS_NONE ||
         el_task_wait(&lk->task, EL_LOCK_ENDED, timeout_ms);
}

el_completion *el_lock_completion(el_lock *lk) { return &lk->task.completion; }

/* ---- change or end the hold, on a Lua thread ---- */

bool el_lock_set_max_hold(el_lock *lk, int64_t max_hold_ms) {
  int64_t left_us;
  if (el_shared_is_forked(lk->task.shared) ||
      el_lock_hold(lk, &left_us) != EL_HOLD_HELD) {
    return false;
  }
  atomic_store(&lk->max_hold_end_us, el_now_us() + max_hold_ms * 1000);
  if (!atomic_exchange(&lk->is_max_hold_posted, true)) {
    el_task_post(&lk->task, &lk->command, NULL);
  }
  return true;
}

void el_lock_downgrade(el_lock *lk) { atomic_store(&lk->is_downgraded, true); }

static bool release_hold(el_lock *lk) {
  int held = EL_HOLD_HELD;
  return atomic_compare_exchange_strong(&lk->state, &held, EL_HOLD_RELEASED);
}

static bool abandon_hold(el_lock *lk, el_event_kind kind) {
  el_event event = end_event(lk, kind);
  return el_events_note_change(&lk->task.shared->events, &event, &lk->state,
                               EL_HOLD_HELD, EL_HOLD_ABANDONED);
}

static bool end_abandoned_hold(el_lock *lk) {
  return abandon_hold(lk, EL_EVENT_ENDED);
}

static bool end_leaked_hold(el_lock *lk) {
  return abandon_hold(lk, EL_EVENT_LEAKED);
}

/* Cancels the wait, or ends the hold by |end_hold|. Returns whether the lock was held. */
static bool end_lock(el_lock *lk, bool (*end_hold)(el_lock *)) {
  int64_t left_us;
  int state = (int)el_lock_hold(lk, &left_us);
  bool was_held = false;
  /* The loop runs again if the I/O thread grants the lock in between. */
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
    el_completion_complete(&lk->task.completion, EL_LOCK_ENDED);
  }
  post_stop(lk);
  return was_held;
}

bool el_lock_release(el_lock *lk) { return end_lock(lk, release_hold); }

void el_lock_abandon(el_lock *lk) { end_lock(lk, end_abandoned_hold); }

bool el_lock_is_abandoned(const el_lock *lk) {
  return atomic_load(&lk->state) == EL_HOLD_ABANDONED;
}

/* In a forked child the lock is not freed: the parent's I/O thread owns its state. */
bool el_lock_drop(el_lock *lk) {
  bool was_held;
  if (el_shared_is_forked(lk->task.shared)) return false;
  was_held = end_lock(lk, end_leaked_hold);
  if (was_held) {
    EL_COUNT(&lk->task.shared->counters, leaked, 1);
  }
  el_lock_unref(lk);
  return was_held;
}

/* ---- read fields ---- */

bool el_lock_waited(const el_lock *lk) { return lk->waiter.has_waited; }

el_seen_key *el_lock_take_holder(el_lock *lk) {
  seen_keys *seen = lk->seen;
  return seen != NULL ? atomic_exchange(&seen->holder, NULL) : NULL;
}

el_seen_key *el_lock_take_other_permits(el_lock *lk) {
  seen_keys *seen = lk->seen;
  return seen != NULL ? atomic_exchange(&seen->other_permits, NULL) : NULL;
}

int64_t el_lock_token(const el_lock *lk) { return lk->token; }

int64_t el_lock_held_rev(const el_lock *lk) { return lk->held_rev; }

int64_t el_lock_lease(const el_lock *lk) { return lk->keys.lease; }

const el_keys *el_lock_keys(const el_lock *lk) { return &lk->keys; }

el_shared *el_lock_shared(const el_lock *lk) { return lk->task.shared; }

size_t el_lock_size(void) { return sizeof(el_lock) + el_local_queue_size(); }

/* ---- for guarded.c, on the I/O thread ---- */

el_writes *el_lock_writes(el_lock *lk) { return &lk->writes; }

el_guard el_lock_writer(const el_lock *lk) {
  return (el_guard){.keys = &lk->keys, .rev = lk->token};
}

bool el_lock_is_holding(const el_lock *lk) {
  return el_waiter_is_holding(&lk->waiter);
}

void el_lock_start_downgrade(el_lock *lk) { el_waiter_downgrade(&lk->waiter); }

void el_lock_key_gone(el_lock *lk, bool is_detached) {
  el_waiter_key_gone(&lk->waiter, lk->token, is_detached);
}
