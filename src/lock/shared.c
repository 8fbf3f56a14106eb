/* shared: the part of a client that Lua threads and the I/O thread share. */
#include "lock/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/text.h"
#include "base/times.h"

/* ---- counters ---- */

void el_counters_add(el_counters *counters, size_t offset, int64_t n) {
  atomic_fetch_add_explicit(&counters->values[offset / sizeof(int64_t)], n,
                            memory_order_relaxed);
}

void el_counters_read(const el_counters *counters, el_stats *stats) {
  int64_t *field = (int64_t *)(void *)stats;
  for (size_t i = 0; i < sizeof *stats / sizeof *field; i++) {
    field[i] = atomic_load_explicit(&counters->values[i], memory_order_relaxed);
  }
}

/* ---- hold deadline ---- */

struct el_hold_deadline {
  atomic_int refs;
  /* el_now_ms; negative: ended for the el_loss -until_ms */
  _Atomic int64_t until_ms;
};

el_hold_deadline *el_hold_deadline_new(void) {
  el_hold_deadline *deadline = el_alloc(sizeof *deadline);
  atomic_init(&deadline->refs, 1);
  atomic_init(&deadline->until_ms, 0);
  return deadline;
}

el_hold_deadline *el_hold_deadline_ref(el_hold_deadline *deadline) {
  atomic_fetch_add(&deadline->refs, 1);
  return deadline;
}

void el_hold_deadline_unref(el_hold_deadline *deadline) {
  if (atomic_fetch_sub(&deadline->refs, 1) == 1) {
    free(deadline);
  }
}

int64_t el_hold_deadline_get(const el_hold_deadline *deadline, el_loss *loss) {
  int64_t until_ms =
      atomic_load_explicit(&deadline->until_ms, memory_order_acquire);
  *loss = until_ms < 0 ? (el_loss)-until_ms : EL_LOSS_EXPIRED;
  return until_ms < 0 ? 0 : until_ms;
}

void el_hold_deadline_set(el_hold_deadline *deadline, int64_t until_ms) {
  atomic_store_explicit(&deadline->until_ms, until_ms, memory_order_release);
}

void el_hold_deadline_end(el_hold_deadline *deadline, el_loss loss) {
  if (atomic_load(&deadline->until_ms) > el_now_ms()) {
    el_hold_deadline_set(deadline, -(int64_t)loss);
  }
}

/* ---- the shared part ---- */

el_shared *el_shared_new(void) {
  el_shared *shared = calloc(1, sizeof *shared);
  if (shared == NULL) return NULL;
  atomic_init(&shared->refs, 1);
  atomic_init(&shared->wait_limit_ms, EL_FIRST_CONTACT_MS);
  shared->fork_generation = el_fork_generation();
  TAILQ_INIT(&shared->resting);
  TAILQ_INIT(&shared->watchers);
  pthread_mutex_init(&shared->mu, NULL);
  el_contact_init(&shared->contact);
  el_events_init(&shared->events);
  return shared;
}

el_shared *el_shared_ref(el_shared *shared) {
  atomic_fetch_add(&shared->refs, 1);
  return shared;
}

void el_shared_unref(el_shared *shared) {
  if (atomic_fetch_sub(&shared->refs, 1) != 1) return;
  el_wake_queue_free(shared->wake_queue);
  pthread_mutex_destroy(&shared->mu);
  el_contact_destroy(&shared->contact);
  el_events_destroy(&shared->events);
  free(shared);
}

bool el_shared_is_forked(const el_shared *shared) {
  return shared->fork_generation != el_fork_generation();
}

bool el_shared_is_usable(const el_shared *shared, el_error *err) {
  if (el_shared_is_forked(shared)) {
    el_error_set(err, EL_FORKED,
                 "the client belongs to the parent process, not to this forked "
                 "process");
    return false;
  }
  if (shared->loop == NULL) {
    el_error_set(err, EL_CLOSED, "the client is closed");
    return false;
  }
  return true;
}

bool el_shared_stood_still(const el_shared *shared, el_error *err) {
  int64_t due_ms = atomic_load(&shared->due_ms);
  int64_t late_ms = el_now_ms() - due_ms;
  if (due_ms == 0 || late_ms < EL_STANDSTILL_MS) return false;
  el_error_set(err, EL_UNAVAILABLE, "this process did not run for %.1f s",
               (double)late_ms / 1000);
  return true;
}

static bool is_open(const el_shared *shared) {
  return shared->loop != NULL && !el_shared_is_forked(shared);
}

bool el_shared_wait(el_shared *shared, el_completion *completion,
                    unsigned event, int64_t timeout_ms) {
  return is_open(shared)
             ? el_loop_wait(shared->loop, completion, event, timeout_ms)
             : el_completion_wait(completion, event, timeout_ms);
}

bool el_shared_post(el_shared *shared, el_command *command) {
  return is_open(shared) && el_loop_run_command(shared->loop, command);
}

/* After close the queue is still returned, because the numbers in it can still be read. In a forked
 * child it is not returned, because the numbers belong to the parent. */
el_wake_queue *el_shared_wake_queue(el_shared *shared, el_error *err) {
  bool is_usable = el_shared_is_usable(shared, err);
  if (!is_usable && (err->code == EL_FORKED || shared->wake_queue == NULL))
    return NULL;
  if (shared->wake_queue == NULL) {
    shared->wake_queue = el_wake_queue_new();
  }
  if (shared->wake_queue == NULL) {
    el_error_set(err, EL_NOMEM, "no file descriptor is free for waits: %s",
                 el_errno_text(errno));
  }
  return shared->wake_queue;
}

/* ---- last errors ---- */

void el_shared_set_proof_error(el_shared *shared, const el_error *err) {
  pthread_mutex_lock(&shared->mu);
  shared->proof_error = *err;
  pthread_mutex_unlock(&shared->mu);
}

void el_shared_clear_proof_error(el_shared *shared) {
  pthread_mutex_lock(&shared->mu);
  shared->proof_error.code = EL_OK;
  pthread_mutex_unlock(&shared->mu);
}

void el_shared_keep_proof_error(el_shared *shared, const el_error *otherwise) {
  pthread_mutex_lock(&shared->mu);
  shared->last_proof_error =
      shared->proof_error.code != EL_OK ? shared->proof_error : *otherwise;
  shared->expired_ms = el_now_ms();
  pthread_mutex_unlock(&shared->mu);
}

void el_shared_read_proof_error(el_shared *shared, int64_t ended_ms,
                                el_error *err) {
  bool is_recorded;
  pthread_mutex_lock(&shared->mu);
  is_recorded = shared->expired_ms != 0 && shared->expired_ms >= ended_ms;
  *err = is_recorded ? shared->last_proof_error : shared->proof_error;
  pthread_mutex_unlock(&shared->mu);
}
