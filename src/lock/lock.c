/* lock: one request for a lock, and the hold that comes of it. */
#include "lock/lock.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/container_of.h"
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
  el_lock *lk = EL_CONTAINER_OF(owner, el_lock, owner);
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
  el_lock *lk = EL_CONTAINER_OF(owner, el_lock, owner);
  int pending = EL_HOLD_PENDING;
  lk->err = copy_of(err);
  atomic_compare_exchange_strong(&lk->state, &pending, EL_HOLD_FAILED);
  el_completion_complete(&lk->news,
                         EL_LOCK_DECIDED | EL_LOCK_RELEASED | EL_LOCK_ENDED);
}

/* What the clock has ended was not lost for what has come of it: after a standstill that
 * may be told first. */
static void lose_hold(el_lock *lk, el_loss loss) {
  int64_t left_us;
  el_loss by_clock = el_lock_clock_loss(lk, &left_us);
  el_lock_lose(lk, by_clock != EL_LOSS_NONE ? by_clock : loss);
}

static void on_lost(el_owner *owner, el_loss loss) {
  el_lock *lk = EL_CONTAINER_OF(owner, el_lock, owner);
  lose_hold(lk, loss);
  el_completion_complete(&lk->news, EL_LOCK_ENDED);
}

static void on_released(el_owner *owner, const el_error *err) {
  el_lock *lk = EL_CONTAINER_OF(owner, el_lock, owner);
  lk->release_err = copy_of(err);
  el_completion_complete(&lk->news, EL_LOCK_RELEASED);
}

static void on_forgotten(el_owner *owner) {
  el_lock_unref(EL_CONTAINER_OF(owner, el_lock, owner));
}

static int64_t hard_end(const el_owner *owner) {
  const el_lock *lk = EL_CONTAINER_OF(owner, const el_lock, owner);
  int64_t end_us = atomic_load(&lk->hold_until_us);
  return end_us < INT64_MAX ? end_us / 1000 + 1 : INT64_MAX;
}

static int64_t mod_rev(const el_owner *owner) {
  const el_lock *lk = EL_CONTAINER_OF(owner, const el_lock, owner);
  return atomic_load(&lk->is_downgraded)
             ? -1
             : el_write_order_pass(&lk->writes.order);
}

static const el_owner_events owner_events = {
    on_granted,   on_failed, on_lost, on_released,
    on_forgotten, hard_end,  mod_rev};

/* ---- what Lua's side asks, on the I/O thread ---- */

/* Somebody has moved the hard end. */
static void run_expire(el_command *command) {
  el_lock *lk = EL_CONTAINER_OF(command, el_lock, command);
  atomic_store(&lk->expire_posted, false);
  el_owner_move_hard_end(&lk->owner);
  el_lock_unref(lk);
}

/* The command's reference becomes the queue's. From now on the command is for the hard
 * end, which nobody can move before the lock is held. */
static void run_start(el_command *command) {
  el_lock *lk = EL_CONTAINER_OF(command, el_lock, command);
  command->run = run_expire;
  el_owner_join(&lk->owner, lk->handle->queues, lk->lock_delay_ms);
}

static void run_stop(el_command *command) {
  el_lock *lk = EL_CONTAINER_OF(command, el_lock, stop_command);
  el_loss loss = el_lock_loss(lk);
  el_leave how = loss != EL_LOSS_NONE      ? EL_LEAVE_LOST
                 : el_lock_is_outlived(lk) ? EL_LEAVE_ABANDONED
                                           : EL_LEAVE_BY_ITSELF;
  el_owner_leave(&lk->owner, how, loss);
  el_lock_unref(lk);
}

el_writes *el_lock_writes(el_lock *lk) { return &lk->writes; }

bool el_lock_is_kept(const el_lock *lk) {
  return el_owner_is_holding(&lk->owner);
}

void el_lock_note_downgrade(el_lock *lk) { el_owner_downgrade(&lk->owner); }

void el_lock_key_gone(el_lock *lk, bool detached) {
  el_owner_key_gone(&lk->owner, lk->token, detached);
}

/* ---- asking ---- */

static el_lock *new_lock(el_handle *handle, const el_lock_options *options) {
  el_lock *lk = calloc(1, sizeof *lk);
  if (lk == NULL) return NULL;
  lk->owner.name = (el_bytes){el_bytes_copy(options->name), options->name.len};
  lk->owner.value =
      (el_bytes){el_bytes_copy(options->value), options->value.len};
  if (lk->owner.name.data == NULL || lk->owner.value.data == NULL) {
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
  lk->lock_delay_ms = (int32_t)options->lock_delay_ms;
  lk->owner.local.linger_ms = (int32_t)options->linger_ms;
  lk->owner.local.try_once = options->try_once;
  lk->owner.local.must_share = options->must_share;
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

bool el_lock_waited(const el_lock *lk) { return lk->owner.local.waited; }

int64_t el_lock_token(const el_lock *lk) { return lk->token; }

int64_t el_lock_lease(const el_lock *lk) { return lk->keys.lease; }

const el_keys *el_lock_keys(const el_lock *lk) { return &lk->keys; }

el_writer el_lock_writer(const el_lock *lk) {
  return (el_writer){.keys = &lk->keys, .rev = lk->token};
}

el_handle *el_lock_handle(const el_lock *lk) { return lk->handle; }

size_t el_lock_size(void) { return sizeof(el_lock) + el_local_queue_size(); }
