/* lock: one request for a lock, and the hold that comes of it. */
#include "lock/lock.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/completion.h"
#include "base/of.h"

struct el_lock {
  atomic_int refs;
  el_handle *handle;
  el_local_queues *const *queues; /* the I/O thread's, while the loop runs */

  /* Set before the I/O thread hears of it, constant afterwards. */
  int64_t max_hold_ms;

  /* Written by the I/O thread before DECIDED. */
  el_error *err; /* NULL: held */
  int64_t token;
  int64_t lease;
  el_bytes key; /* owned */
  el_claim *claim;
  bool waited;

  /* Written by the I/O thread before RELEASED. */
  el_error *release_err; /* NULL: the key is out */

  el_completion news;         /* el_lock_news */
  atomic_int state;           /* el_hold, EL_HOLD_LOST + el_loss: any thread */
  _Atomic int64_t hold_until; /* INT64_MAX: no max_hold; any thread */
  atomic_bool stop_posted, expire_posted;
  el_command command; /* to start, and once it is held, to expire */
  el_command stop_command;

  /* The I/O thread's own. */
  el_owner owner;
  el_write_order writes;
};

/* ---- life ---- */

el_lock *el_lock_ref(el_lock *lk) {
  atomic_fetch_add(&lk->refs, 1);
  return lk;
}

void el_lock_unref(el_lock *lk) {
  if (atomic_fetch_sub(&lk->refs, 1) != 1) return;
  if (lk->claim != NULL) {
    el_claim_unref(lk->claim);
  }
  el_completion_destroy(&lk->news);
  el_handle_unref(lk->handle);
  el_bytes_free(lk->key);
  el_bytes_free(lk->owner.name);
  el_bytes_free(lk->owner.value);
  free(lk->owner.linger);
  free(lk->err);
  free(lk->release_err);
  free(lk);
}

/* Posts |command| with a reference of its own. */
static bool post(el_lock *lk, el_command *command) {
  el_lock_ref(lk);
  if (el_handle_post(lk->handle, command)) return true;
  el_lock_unref(lk);
  return false;
}

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
  el_bytes key = el_keys_own(grant->keys);
  lk->token = grant->token;
  lk->lease = grant->keys->lease;
  lk->key = (el_bytes){el_strndup(key.data, key.len), key.len};
  lk->claim = el_claim_ref(grant->claim);
  lk->waited = grant->waited;
  lk->writes.mod_rev = grant->mod_rev;
  if (lk->max_hold_ms > 0) {
    atomic_store(&lk->hold_until, el_now_ms() + lk->max_hold_ms);
  }
  el_bytes_free(owner->value);
  owner->value = (el_bytes){0};
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

static void on_lost(el_owner *owner, el_loss loss) {
  el_lock *lk = EL_OF(owner, el_lock, owner);
  int held = EL_HOLD_HELD, lingering = EL_HOLD_LINGERING;
  if (!atomic_compare_exchange_strong(&lk->state, &held,
                                      EL_HOLD_LOST + (int)loss)) {
    atomic_compare_exchange_strong(&lk->state, &lingering, EL_HOLD_RELEASED);
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

/* Of one that may linger, it is looked now and then whether it does. */
static int64_t hard_end(const el_owner *owner) {
  const el_lock *lk = EL_OF(owner, const el_lock, owner);
  int64_t end_ms = atomic_load(&lk->hold_until), look_ms;
  if (owner->linger == NULL) return end_ms;
  if (atomic_load(&lk->state) == EL_HOLD_LINGERING) {
    return atomic_load(&owner->linger->until_ms);
  }
  look_ms = el_now_ms() + owner->linger->ms;
  return look_ms < end_ms ? look_ms : end_ms;
}

static bool end_linger(el_owner *owner, bool is_wanted) {
  el_lock *lk = EL_OF(owner, el_lock, owner);
  int lingering = EL_HOLD_LINGERING;
  if (owner->linger == NULL) return false;
  if (is_wanted) {
    atomic_store(&owner->linger->is_contested, true);
  } else if (el_now_ms() < atomic_load(&owner->linger->until_ms)) {
    return false;
  }
  return atomic_compare_exchange_strong(&lk->state, &lingering,
                                        EL_HOLD_RELEASED);
}

static int64_t mod_rev(const el_owner *owner) {
  const el_write_order *writes = &EL_OF(owner, const el_lock, owner)->writes;
  return writes->busy || writes->in_doubt ? 0 : writes->mod_rev;
}

static const el_owner_events owner_events = {
    on_granted,   on_failed, on_lost, on_released,
    on_forgotten, hard_end,  mod_rev, end_linger};

/* ---- what Lua's side asks, on the I/O thread ---- */

/* The command's reference becomes the queue's. */
static void run_start(el_command *command) {
  el_lock *lk = EL_OF(command, el_lock, command);
  el_local_queue_join(*lk->queues, &lk->owner);
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

static void run_expire(el_command *command) {
  el_lock *lk = EL_OF(command, el_lock, command);
  atomic_store(&lk->expire_posted, false);
  el_local_queue_expire(&lk->owner);
  el_lock_unref(lk);
}

el_write_order *el_lock_writes(el_lock *lk) { return &lk->writes; }

void el_lock_key_gone(el_lock *lk) { el_local_queue_key_gone(&lk->owner); }

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
  atomic_init(&lk->hold_until, INT64_MAX);
  lk->handle = el_handle_ref(handle);
  lk->max_hold_ms = options->max_hold_ms;
  TAILQ_INIT(&lk->writes.waiting);
  lk->owner.events = &owner_events;
  lk->owner.try_once = options->try_once;
  lk->owner.timeout_ms = options->timeout_ms;
  lk->owner.deadline_ms =
      options->timeout_ms < 0 ? INT64_MAX : el_now_ms() + options->timeout_ms;
  lk->command.run = run_start;
  lk->stop_command.run = run_stop;
  el_completion_init(&lk->news);
  return lk;
}

el_lock *el_lock_new(el_handle *handle, el_local_queues *const *queues,
                     const el_lock_options *options, el_error *err) {
  el_lock *lk;
  if (!el_handle_is_usable(handle, err)) return NULL;
  lk = new_lock(handle, options);
  if (lk == NULL) {
    el_error_set(err, EL_NOMEM, "no memory for a lock");
    return NULL;
  }
  lk->queues = queues;
  if (!post(lk, &lk->command)) {
    el_error_set(err, EL_CLOSED, "the client is closed");
    el_lock_unref(lk);
    return NULL;
  }
  return lk;
}

/* ---- holding and letting go ---- */

/* Lets the I/O thread know, once, that the caller is done with the lock. Unlock, the
 * end of the hold and the collector may all come to say so, and there is one
 * command, which must not be in the inbox twice. */
static void post_stop(el_lock *lk) {
  if (!atomic_exchange(&lk->stop_posted, true)) {
    post(lk, &lk->stop_command);
  }
}

/* Latches the loss of a hold whose time is over, and returns the state that stands
 * then. By exchange: the I/O thread may find another reason at the same moment, or
 * another thread release it, and what came first stays true. The key would live on
 * with the lease, so it is let go as well. */
static int latch_loss(el_lock *lk, el_loss loss) {
  int state = EL_HOLD_HELD;
  if (atomic_compare_exchange_strong(&lk->state, &state,
                                     EL_HOLD_LOST + (int)loss)) {
    state = EL_HOLD_LOST + (int)loss;
    el_completion_complete(&lk->news, EL_LOCK_ENDED);
    post_stop(lk);
  }
  return state;
}

el_hold el_lock_hold(el_lock *lk, int64_t *left_ms) {
  int state = atomic_load(&lk->state);
  *left_ms = 0;
  if (state == EL_HOLD_HELD) {
    int64_t until = el_claim_until(lk->claim); /* before the state: claim.h */
    int64_t hard_end = atomic_load(&lk->hold_until);
    int64_t now = el_now_ms();
    el_loss loss = hard_end < until ? EL_LOSS_MAX_HOLD : EL_LOSS_EXPIRED;
    if (hard_end < until) until = hard_end;
    state = atomic_load(&lk->state);
    if (state == EL_HOLD_HELD && now >= until) {
      state = latch_loss(lk, loss);
    } else if (state == EL_HOLD_HELD) {
      *left_ms = until - now;
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
    lk->command.run = run_expire; /* it has started long ago */
    post(lk, &lk->command);
  }
}

bool el_lock_expire(el_lock *lk, int64_t max_hold_ms) {
  int64_t left_ms;
  if (el_handle_is_forked(lk->handle) ||
      el_lock_hold(lk, &left_ms) != EL_HOLD_HELD) {
    return false;
  }
  atomic_store(&lk->hold_until, el_now_ms() + max_hold_ms);
  post_expire(lk);
  return true;
}

/* Lets go: a hold goes to the state |over|. True if it was held. */
static bool let_go(el_lock *lk, el_hold over) {
  int64_t left_ms;
  int state = (int)el_lock_hold(lk, &left_ms);
  bool was_held = false;
  while (state == EL_HOLD_PENDING || state == EL_HOLD_HELD ||
         state == EL_HOLD_LINGERING) {
    int before = state; /* granted in between: once more */
    int after = before == EL_HOLD_HELD ? (int)over : EL_HOLD_RELEASED;
    if (atomic_compare_exchange_strong(&lk->state, &state, after)) {
      was_held = before == EL_HOLD_HELD;
      break;
    }
  }
  if (was_held) {
    el_completion_complete(&lk->news, EL_LOCK_ENDED);
  }
  post_stop(lk);
  return was_held;
}

/* Who contests it tells so first and looks at the state then, and here it is the other
 * way round: so one of the two sees the other. */
bool el_lock_linger(el_lock *lk) {
  el_linger *linger = lk->owner.linger;
  int64_t left_ms;
  int held = EL_HOLD_HELD, lingering = EL_HOLD_LINGERING;
  if (linger == NULL || atomic_load(&linger->is_contested) ||
      el_lock_hold(lk, &left_ms) != EL_HOLD_HELD) {
    return false;
  }
  atomic_store(&linger->until_ms, el_now_ms() + linger->ms);
  if (!atomic_compare_exchange_strong(&lk->state, &held, lingering)) {
    return false;
  }
  el_completion_complete(&lk->news, EL_LOCK_ENDED);
  return !atomic_load(&linger->is_contested) ||
         !atomic_compare_exchange_strong(&lk->state, &lingering, EL_HOLD_HELD);
}

bool el_lock_retake(el_lock *lk, int64_t max_hold_ms) {
  int lingering = EL_HOLD_LINGERING;
  if (el_handle_is_forked(lk->handle) ||
      atomic_load(&lk->state) != EL_HOLD_LINGERING ||
      el_now_ms() >= el_claim_until(lk->claim)) {
    return false;
  }
  atomic_store(&lk->hold_until,
               max_hold_ms > 0 ? el_now_ms() + max_hold_ms : INT64_MAX);
  el_completion_clear(&lk->news, EL_LOCK_ENDED);
  if (!atomic_compare_exchange_strong(&lk->state, &lingering, EL_HOLD_HELD)) {
    return false;
  }
  EL_COUNT(&lk->handle->counters, acquired, 1);
  if (max_hold_ms > 0) {
    post_expire(lk);
  }
  return true;
}

bool el_lock_release(el_lock *lk) { return let_go(lk, EL_HOLD_RELEASED); }

void el_lock_outlive(el_lock *lk) { let_go(lk, EL_HOLD_OUTLIVED); }

bool el_lock_is_outlived(const el_lock *lk) {
  return atomic_load(&lk->state) == EL_HOLD_OUTLIVED;
}

void el_lock_drop(el_lock *lk) {
  if (el_handle_is_forked(lk->handle)) return; /* the parent's: leaked */
  if (let_go(lk, EL_HOLD_OUTLIVED)) {
    EL_COUNT(&lk->handle->counters, collected, 1);
    free(lk->handle->collected);
    lk->handle->collected = el_bytes_copy(lk->owner.name);
  }
  el_lock_unref(lk);
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
  if (!el_completion_wait(&lk->news, EL_LOCK_DECIDED, timeout_ms)) return false;
  read_error(lk->err, err);
  return true;
}

bool el_lock_wait_released(el_lock *lk, int64_t timeout_ms, el_error *err) {
  if (!el_completion_wait(&lk->news, EL_LOCK_RELEASED, timeout_ms)) {
    return false;
  }
  read_error(lk->release_err, err);
  return true;
}

bool el_lock_wait_ended(el_lock *lk, int64_t timeout_ms) {
  return el_completion_wait(&lk->news, EL_LOCK_ENDED, timeout_ms);
}

bool el_lock_arm(el_lock *lk, el_lock_news news, el_wake *wake, uint64_t id) {
  return el_completion_arm(&lk->news, news, wake, id);
}

void el_lock_disarm(el_lock *lk, el_lock_news news, uint64_t id) {
  el_completion_disarm(&lk->news, news, id);
}

/* ---- what it is ---- */

bool el_lock_waited(const el_lock *lk) { return lk->waited; }

int64_t el_lock_token(const el_lock *lk) { return lk->token; }

int64_t el_lock_lease(const el_lock *lk) { return lk->lease; }

el_bytes el_lock_key(const el_lock *lk) { return lk->key; }

el_handle *el_lock_handle(const el_lock *lk) { return lk->handle; }

size_t el_lock_size(void) { return sizeof(el_lock) + el_local_queue_size(); }
