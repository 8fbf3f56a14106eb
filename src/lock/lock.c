/* lock: one request for a lock, and the hold that comes of it. */
#include "lock/lock.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/of.h"
#include "lock/lock_int.h"

/* ---- what the queue tells, on the I/O thread ---- */

static el_error *copy_of(const el_error *err) {
  el_error *copy;
  if (err->code == EL_OK) return NULL;
  copy = el_alloc(sizeof *copy);
  *copy = *err;
  return copy;
}

/* A wait that was given up meanwhile stays given up: whoever did that has posted
 * its release. */
static void on_granted(el_owner *owner, const el_grant *grant) {
  el_lock *lk = EL_OF(owner, el_lock, owner);
  int pending = EL_HOLD_PENDING;
  lk->token = grant->token;
  el_keys_copy(&lk->keys, grant->keys);
  lk->claim = el_claim_ref(grant->claim);
  el_write_order_init(&lk->writes.order, grant->mod_rev);
  el_bytes_free(owner->value);
  owner->value = (el_bytes){0};
  el_lock_note_begin(lk, lk->max_hold_ms);
  atomic_compare_exchange_strong(&lk->state, &pending, EL_HOLD_HELD);
  el_completion_complete(&lk->news, EL_LOCK_DECIDED);
}

static void on_failed(el_owner *owner, const el_error *err) {
  el_lock *lk = EL_OF(owner, el_lock, owner);
  int pending = EL_HOLD_PENDING;
  lk->err = copy_of(err);
  atomic_compare_exchange_strong(&lk->state, &pending, EL_HOLD_FAILED);
  el_completion_complete(&lk->news,
                         EL_LOCK_DECIDED | EL_LOCK_RELEASED | EL_LOCK_ENDED);
}

/* What the clock has ended was not lost for what has come of it: after a standstill that
 * may be told first. */
static bool lose_hold(el_lock *lk, el_loss loss) {
  int64_t left_us;
  el_loss by_clock = el_lock_clock_loss(lk, &left_us);
  return el_lock_lose(lk, by_clock != EL_LOSS_NONE ? by_clock : loss);
}

/* One that lingers may be taken again meanwhile, and be left again. */
static void on_lost(el_owner *owner, el_loss loss) {
  el_lock *lk = EL_OF(owner, el_lock, owner);
  int state = EL_HOLD_LINGERING;
  while (
      !atomic_compare_exchange_strong(&lk->state, &state, EL_HOLD_RELEASED) &&
      state == EL_HOLD_HELD && !lose_hold(lk, loss)) {
    state = EL_HOLD_LINGERING;
  }
  el_completion_complete(&lk->news, EL_LOCK_ENDED);
}

static void on_released(el_owner *owner, const el_error *err) {
  el_lock *lk = EL_OF(owner, el_lock, owner);
  lk->release_err = copy_of(err);
  el_completion_complete(&lk->news, EL_LOCK_RELEASED);
}

static void on_forgotten(el_owner *owner) {
  el_lock_unref(EL_OF(owner, el_lock, owner));
}

/* Of one that may linger, it is looked now and then whether it does. Its state is read
 * first: who takes it again sets the end of his hold before. One window is left: left to
 * linger and taken again between this answer and the loss that it leads to, the new hold
 * is told of the old one's max_hold. It has lost its key then, and nobody holds beside it. */
static int64_t hard_end(const el_owner *owner) {
  const el_lock *lk = EL_OF(owner, const el_lock, owner);
  int state = atomic_load(&lk->state);
  int64_t end_us = atomic_load(&lk->hold_until_us);
  int64_t end_ms = end_us < INT64_MAX ? end_us / 1000 + 1 : INT64_MAX, look_ms;
  if (owner->linger == NULL) return end_ms;
  if (state == EL_HOLD_LINGERING) {
    return atomic_load(&owner->linger->until_ms);
  }
  look_ms = el_now_ms() + atomic_load(&owner->linger->ms);
  return look_ms < end_ms ? look_ms : end_ms;
}

static bool end_linger(el_owner *owner, int64_t now_ms) {
  el_lock *lk = EL_OF(owner, el_lock, owner);
  int lingering = EL_HOLD_LINGERING;
  if (owner->linger == NULL) return false;
  if (now_ms == EL_LINGER_CONTESTED) {
    atomic_store(&owner->linger->is_contested, true);
  } else if (now_ms < atomic_load(&owner->linger->until_ms)) {
    return false;
  }
  return atomic_compare_exchange_strong(&lk->state, &lingering,
                                        EL_HOLD_RELEASED);
}

static int64_t mod_rev(const el_owner *owner) {
  const el_lock *lk = EL_OF(owner, const el_lock, owner);
  return atomic_load(&lk->is_downgraded)
             ? -1
             : el_write_order_pass(&lk->writes.order);
}

static const el_owner_events owner_events = {
    on_granted,   on_failed, on_lost, on_released,
    on_forgotten, hard_end,  mod_rev, end_linger};

/* ---- what Lua's side asks, on the I/O thread ---- */

/* Somebody has moved the hard end. */
static void run_expire(el_command *command) {
  el_lock *lk = EL_OF(command, el_lock, command);
  atomic_store(&lk->expire_posted, false);
  el_local_queue_expire(&lk->owner);
  el_lock_unref(lk);
}

/* The command's reference becomes the queue's. From now on the command is for the hard
 * end, which nobody can move before the lock is held. */
static void run_start(el_command *command) {
  el_lock *lk = EL_OF(command, el_lock, command);
  command->run = run_expire;
  el_local_queue_join(lk->handle->queues, &lk->owner, lk->delay_ms);
}

static void run_stop(el_command *command) {
  el_lock *lk = EL_OF(command, el_lock, stop_command);
  el_loss loss = el_lock_loss(lk);
  el_leave how = loss != EL_LOSS_NONE      ? EL_LEAVE_LOST
                 : el_lock_is_outlived(lk) ? EL_LEAVE_ABANDONED
                                           : EL_LEAVE_BY_ITSELF;
  el_local_queue_leave(&lk->owner, how, loss);
  el_lock_unref(lk);
}

el_writes *el_lock_writes(el_lock *lk) { return &lk->writes; }

void el_lock_begin_write(el_lock *lk) {
  if (lk->owner.linger != NULL) {
    atomic_fetch_add(&lk->owner.linger->n_writes, 1);
  }
}

void el_lock_end_write(el_lock *lk) {
  el_linger *linger = lk->owner.linger;
  if (linger == NULL) return;
  atomic_store(&linger->in_doubt, el_write_order_pass(&lk->writes.order) < 0);
  atomic_fetch_sub(&linger->n_writes, 1);
}

bool el_lock_is_kept(const el_lock *lk) {
  return lk->owner.state == EL_OWNER_HOLDING;
}

void el_lock_note_downgrade(el_lock *lk) {
  el_local_queue_downgrade(&lk->owner);
}

void el_lock_key_gone(el_lock *lk) {
  el_local_queue_key_gone(&lk->owner, lk->token);
}

/* ---- asking ---- */

static el_lock *new_lock(el_handle *handle, const el_lock_options *options) {
  el_lock *lk = calloc(1, sizeof *lk);
  if (lk == NULL) return NULL;
  lk->owner.name = (el_bytes){el_bytes_copy(options->name), options->name.len};
  lk->owner.value =
      (el_bytes){el_bytes_copy(options->value), options->value.len};
  if (options->linger_ms > 0) {
    lk->owner.linger = el_linger_new(options->linger_ms);
  }
  if (lk->owner.name.data == NULL || lk->owner.value.data == NULL ||
      (options->linger_ms > 0 && lk->owner.linger == NULL)) {
    free(lk->owner.linger);
    el_bytes_free(lk->owner.name);
    el_bytes_free(lk->owner.value);
    free(lk);
    return NULL;
  }
  atomic_init(&lk->refs, 1);
  atomic_init(&lk->state, EL_HOLD_PENDING);
  atomic_init(&lk->hold_until_us, INT64_MAX);
  lk->handle = el_handle_ref(handle);
  lk->max_hold_ms = options->max_hold_ms;
  lk->leads = options->leads;
  TAILQ_INIT(&lk->writes.waiting);
  lk->owner.events = &owner_events;
  lk->owner.mode = (uint8_t)options->mode;
  lk->owner.permits = options->permits;
  lk->delay_ms = (int32_t)options->delay_ms;
  lk->owner.try_once = options->try_once;
  lk->owner.must_share = options->must_share;
  lk->owner.timeout_ms = options->timeout_ms;
  lk->owner.deadline_ms =
      options->timeout_ms < 0 ? INT64_MAX : el_now_ms() + options->timeout_ms;
  lk->command.run = run_start;
  lk->stop_command.run = run_stop;
  el_completion_init(&lk->news);
  return lk;
}

el_lock *el_lock_new(el_handle *handle, const el_lock_options *options,
                     el_error *err) {
  el_lock *lk;
  if (!el_handle_is_usable(handle, err)) return NULL;
  lk = new_lock(handle, options);
  if (lk == NULL) {
    el_error_set(err, EL_NOMEM, "no memory for a lock");
    return NULL;
  }
  if (!el_lock_post(lk, &lk->command)) {
    el_error_set(err, EL_CLOSED, "the client is closed");
    el_lock_unref(lk);
    return NULL;
  }
  return lk;
}

/* ---- waiting ---- */

static void read_error(const el_error *from, el_error *to) {
  if (from != NULL) {
    *to = *from;
  } else {
    to->code = EL_OK;
  }
}

bool el_lock_wait(el_lock *lk, int64_t timeout_ms, el_error *err) {
  if (!el_handle_wait(lk->handle, &lk->news, EL_LOCK_DECIDED, timeout_ms)) {
    return false;
  }
  read_error(lk->err, err);
  return true;
}

bool el_lock_wait_released(el_lock *lk, int64_t timeout_ms, el_error *err) {
  if (!el_handle_wait(lk->handle, &lk->news, EL_LOCK_RELEASED, timeout_ms)) {
    return false;
  }
  read_error(lk->release_err, err);
  return true;
}

bool el_lock_wait_ended(el_lock *lk, int64_t timeout_ms) {
  /* Who has seen that it is lost isn't to be told that it isn't yet. */
  return el_lock_loss(lk) != EL_LOSS_NONE ||
         el_handle_wait(lk->handle, &lk->news, EL_LOCK_ENDED, timeout_ms);
}

bool el_lock_arm(el_lock *lk, el_lock_news news, el_wake *wake, uint64_t id) {
  return el_completion_arm(&lk->news, news, wake, id);
}

void el_lock_disarm(el_lock *lk, el_lock_news news, uint64_t id) {
  el_completion_disarm(&lk->news, news, id);
}

/* ---- what it is ---- */

bool el_lock_waited(const el_lock *lk) { return lk->owner.waited; }

int64_t el_lock_token(const el_lock *lk) { return lk->token; }

int64_t el_lock_lease(const el_lock *lk) { return lk->keys.lease; }

const el_keys *el_lock_keys(const el_lock *lk) { return &lk->keys; }

el_writer el_lock_writer(const el_lock *lk) {
  return (el_writer){.keys = &lk->keys, .rev = lk->token};
}

el_handle *el_lock_handle(const el_lock *lk) { return lk->handle; }

size_t el_lock_size(void) { return sizeof(el_lock) + el_local_queue_size(); }
