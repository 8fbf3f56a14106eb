/* breaker: the circuit breaker of one client. */
#include "lock/breaker.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lock/guarded.h"

enum { OPEN_MS = 2000, PROBE_MS = 5000 };

struct el_breaker {
  el_shared *shared;
  /* Used by the Lua thread only. */
  el_guarded *probe; /* under way, or failed with unavailable; NULL: none */

  pthread_mutex_t mu; /* guards the rest; no other mutex is locked under it */
  /* When a request last found etcd unreachable, and why; 0: etcd has answered since. Only the I/O
   * thread changes it, and may read it without the mutex. */
  int64_t opened_ms;
  el_error err;
};

el_breaker *el_breaker_new(el_shared *shared) {
  el_breaker *breaker = calloc(1, sizeof *breaker);
  if (breaker == NULL) return NULL;
  breaker->shared = shared;
  pthread_mutex_init(&breaker->mu, NULL);
  return breaker;
}

static void drop_probe(el_breaker *breaker) {
  if (breaker->probe != NULL) {
    el_guarded_drop(breaker->probe);
  }
  breaker->probe = NULL;
}

void el_breaker_free(el_breaker *breaker) {
  if (breaker == NULL) return;
  drop_probe(breaker);
  pthread_mutex_destroy(&breaker->mu);
  free(breaker);
}

bool el_breaker_update(el_breaker *breaker, int64_t opened_ms,
                       const el_error *err) {
  if (opened_ms == breaker->opened_ms) return false;
  pthread_mutex_lock(&breaker->mu);
  breaker->opened_ms = opened_ms;
  if (opened_ms != 0) {
    breaker->err = *err;
  }
  pthread_mutex_unlock(&breaker->mu);
  return true;
}

static bool was_just_opened(el_breaker *breaker, el_error *err) {
  bool was_opened;
  pthread_mutex_lock(&breaker->mu);
  was_opened =
      breaker->opened_ms != 0 && el_now_ms() < breaker->opened_ms + OPEN_MS;
  *err = breaker->err;
  pthread_mutex_unlock(&breaker->mu);
  return was_opened;
}

bool el_breaker_is_open(el_breaker *breaker, el_error *err) {
  bool was_opened = was_just_opened(breaker, err);
  const el_txn_answer *answer;
  if (breaker->probe == NULL) return was_opened;
  answer = el_guarded_wait(breaker->probe, 0);
  if (answer != NULL && answer->err.code != EL_UNAVAILABLE) {
    drop_probe(breaker);
    return false;
  }
  if (!was_opened) {
    el_error_set(err, EL_UNAVAILABLE, "etcd has not answered the last call");
  }
  return true;
}

void el_breaker_probe(el_breaker *breaker, el_bytes key) {
  el_op get = {.kind = EL_OP_RANGE, .key = key};
  el_error err;
  if (breaker->probe != NULL && el_guarded_wait(breaker->probe, 0) == NULL)
    return;
  drop_probe(breaker);
  breaker->probe = el_guarded_new(breaker->shared);
  if (breaker->probe != NULL &&
      (!el_guarded_add(breaker->probe, &get) ||
       !el_guarded_start(breaker->probe, PROBE_MS, &err))) {
    drop_probe(breaker);
  }
}
