/* L3 lock: one request for a lock, and the hold that comes of it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client_int.h"
#include "clock.h"

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
  el_waiter_destroy(&lk->decided);
  el_waiter_destroy(&lk->released);
  el_waiter_destroy(&lk->ended);
  el_client_unref(lk->cl);
  free(lk->name);
  free(lk->value);
  free(lk);
}

static void run_start(el_command *command) {
  el_lock *lk = (el_lock *)((char *)command - offsetof(el_lock, start_command));
  el_line_join(lk);
  el_lock_unref(lk);
}

static void run_stop(el_command *command) {
  el_lock *lk = (el_lock *)((char *)command - offsetof(el_lock, stop_command));
  el_line_leave(lk);
  el_lock_unref(lk);
}

static void run_expire(el_command *command) {
  el_lock *lk =
      (el_lock *)((char *)command - offsetof(el_lock, expire_command));
  atomic_store(&lk->expire_posted, false);
  el_line_expire(lk);
  el_lock_unref(lk);
}

/* Posts |command| with a reference of its own. */
static bool post(el_lock *lk, el_command *command) {
  el_lock_ref(lk);
  if (el_client_post(lk->cl, command)) return true;
  el_lock_unref(lk);
  return false;
}

static char *copy_of(const char *bytes, size_t len) {
  char *copy = malloc(len + 1);
  if (copy != NULL) {
    memcpy(copy, bytes, len);
    copy[len] = '\0';
  }
  return copy;
}

static el_lock *new_lock(el_client *cl, const el_lock_options *options) {
  el_lock *lk = calloc(1, sizeof *lk);
  if (lk == NULL) return NULL;
  lk->name = copy_of(options->name, options->name_len);
  lk->value = copy_of(options->value, options->value_len);
  if (lk->name == NULL || lk->value == NULL) {
    free(lk->name);
    free(lk->value);
    free(lk);
    return NULL;
  }
  atomic_init(&lk->refs, 1);
  atomic_init(&lk->state, EL_HOLD_PENDING);
  atomic_init(&lk->stop_posted, false);
  lk->cl = el_client_ref(cl);
  lk->name_len = options->name_len;
  lk->value_len = options->value_len;
  lk->try_once = options->try_once;
  lk->timeout_ms = options->timeout_ms;
  lk->deadline_ms =
      options->timeout_ms < 0 ? INT64_MAX : el_now_ms() + options->timeout_ms;
  lk->max_hold_ms = options->max_hold_ms;
  atomic_init(&lk->hold_until, INT64_MAX);
  atomic_init(&lk->expire_posted, false);
  lk->expire_command.run = run_expire;
  lk->start_command.run = run_start;
  lk->stop_command.run = run_stop;
  el_waiter_init(&lk->decided);
  el_waiter_init(&lk->released);
  el_waiter_init(&lk->ended);
  return lk;
}

el_lock *el_lock_new(el_client *cl, const el_lock_options *options,
                     el_error *err) {
  el_lock *lk;
  if (!el_client_is_usable(cl, err)) return NULL;
  lk = new_lock(cl, options);
  if (lk == NULL) {
    el_error_set(err, EL_NOMEM, "no memory for a lock");
    return NULL;
  }
  if (!post(lk, &lk->start_command)) {
    el_error_set(err, EL_CLOSED, "the client is closed");
    el_lock_unref(lk);
    return NULL;
  }
  return lk;
}

/* ---- Lua's side ---- */

bool el_lock_wait(el_lock *lk, int64_t timeout_ms, el_error *err) {
  if (!el_waiter_wait(&lk->decided, timeout_ms)) return false;
  *err = lk->err;
  return true;
}

/* Lets the I/O thread know, once, that the caller is done with the lock. */
static void post_stop(el_lock *lk) {
  if (!atomic_exchange(&lk->stop_posted, true)) {
    post(lk, &lk->stop_command);
  }
}

el_hold el_lock_hold(el_lock *lk, int64_t *left_ms) {
  int state = atomic_load(&lk->state);
  *left_ms = 0;
  if (state == EL_HOLD_HELD) {
    int64_t until = el_claim_until(lk->claim); /* before the state: claim.h */
    int64_t now = el_now_ms();
    el_loss loss = EL_LOSS_EXPIRED;
    int64_t hard_end = atomic_load(&lk->hold_until);
    if (hard_end < until) {
      until = hard_end;
      loss = EL_LOSS_MAX_HOLD;
    }
    state = atomic_load(&lk->state);
    if (state == EL_HOLD_HELD && now >= until) {
      if (atomic_compare_exchange_strong(&lk->state, &state,
                                         EL_HOLD_LOST + (int)loss)) {
        state = EL_HOLD_LOST + (int)loss;
        el_waiter_complete(&lk->ended);
        post_stop(lk);
      }
    } else {
      *left_ms = until - now;
    }
  }
  if (state != EL_HOLD_HELD) *left_ms = 0;
  return state >= EL_HOLD_LOST ? EL_HOLD_LOST : (el_hold)state;
}

el_loss el_lock_loss(const el_lock *lk) {
  int state = atomic_load(&lk->state);
  return state >= EL_HOLD_LOST ? (el_loss)(state - EL_HOLD_LOST) : EL_LOSS_NONE;
}

void el_lock_trouble(const el_lock *lk, el_error *err) {
  el_trouble_read(&lk->cl->trouble, err);
}

bool el_lock_expire(el_lock *lk, int64_t max_hold_ms) {
  int64_t left_ms;
  if (el_client_is_forked(lk->cl) ||
      el_lock_hold(lk, &left_ms) != EL_HOLD_HELD) {
    return false;
  }
  atomic_store(&lk->hold_until, el_now_ms() + max_hold_ms);
  if (!atomic_exchange(&lk->expire_posted, true)) {
    post(lk, &lk->expire_command);
  }
  return true;
}

bool el_lock_release(el_lock *lk) {
  int64_t left_ms;
  int held = EL_HOLD_HELD;
  bool was_held =
      el_lock_hold(lk, &left_ms) == EL_HOLD_HELD &&
      atomic_compare_exchange_strong(&lk->state, &held, EL_HOLD_RELEASED);
  if (was_held) {
    el_waiter_complete(&lk->ended);
  }
  post_stop(lk);
  return was_held;
}

bool el_lock_wait_released(el_lock *lk, int64_t timeout_ms, el_error *err) {
  if (!el_waiter_wait(&lk->released, timeout_ms)) return false;
  *err = lk->release_err;
  return true;
}

bool el_lock_wait_ended(el_lock *lk, int64_t timeout_ms) {
  return el_waiter_wait(&lk->ended, timeout_ms);
}

static el_waiter *waiter_of(el_lock *lk, el_lock_news news) {
  el_waiter *waiters[] = {[EL_LOCK_DECIDED] = &lk->decided,
                          [EL_LOCK_RELEASED] = &lk->released,
                          [EL_LOCK_ENDED] = &lk->ended};
  return waiters[news];
}

bool el_lock_arm(el_lock *lk, el_lock_news news, el_wake *wake, uint64_t id) {
  return el_waiter_arm(waiter_of(lk, news), wake, id);
}

void el_lock_disarm(el_lock *lk, el_lock_news news, uint64_t id) {
  el_waiter_disarm(waiter_of(lk, news), id);
}

/* Whoever waited for the lock, or held it, is gone. */
static void on_gone(void *arg) {
  el_lock *lk = arg;
  el_lock_release(lk);
  el_lock_unref(lk);
}

void el_lock_leash(el_lock *lk, el_wake_server *server, uint64_t id) {
  el_wake_server_expect(server, id, on_gone, el_lock_ref(lk));
}

bool el_lock_unleash(el_wake_server *server, uint64_t id) {
  void *lk = NULL;
  bool taken = el_wake_server_taken(server, id, &lk);
  if (lk != NULL) {
    el_lock_unref(lk);
  }
  return taken;
}

void el_lock_drop(el_lock *lk) {
  if (el_client_is_forked(lk->cl)) return; /* the parent's; leaked on purpose */
  el_lock_release(lk);
  el_lock_unref(lk);
}

bool el_lock_waited(const el_lock *lk) { return lk->waited; }

int64_t el_lock_token(const el_lock *lk) { return lk->token; }

int64_t el_lock_lease(const el_lock *lk) { return lk->lease; }

const char *el_lock_key_bytes(const el_lock *lk, size_t *len) {
  *len = lk->key_len;
  return lk->key;
}

el_client *el_lock_client(const el_lock *lk) { return lk->cl; }

/* ---- the I/O thread's side ---- */

void el_lock_grant(el_lock *lk, el_place place, const el_queue *queue,
                   el_claim *claim, int64_t now_ms) {
  int pending = EL_HOLD_PENDING;
  lk->token = place.rev;
  lk->lease = queue->lease;
  memcpy(lk->key, queue->key, queue->key_len);
  lk->key_len = queue->key_len;
  lk->claim = el_claim_ref(claim);
  if (lk->max_hold_ms > 0) {
    atomic_store(&lk->hold_until, now_ms + lk->max_hold_ms);
  }
  atomic_compare_exchange_strong(&lk->state, &pending, EL_HOLD_HELD);
  el_waiter_complete(&lk->decided);
}

void el_lock_fail(el_lock *lk, const el_error *err) {
  lk->err = *err;
  atomic_store(&lk->state, EL_HOLD_FAILED);
  el_waiter_complete(&lk->decided);
  el_waiter_complete(&lk->released);
  el_waiter_complete(&lk->ended);
}

void el_lock_lose(el_lock *lk, el_loss loss) {
  int held = EL_HOLD_HELD;
  atomic_compare_exchange_strong(&lk->state, &held, EL_HOLD_LOST + (int)loss);
  el_waiter_complete(&lk->ended);
}

void el_lock_finish(el_lock *lk, const el_error *err) {
  lk->release_err = *err;
  el_waiter_complete(&lk->released);
}
