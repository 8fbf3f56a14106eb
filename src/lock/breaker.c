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
  /* the last probe; NULL: there is none, or its answer was seen */
  el_guarded *probe;

  pthread_mutex_t mu; /* guards the rest; no other mutex is locked under it */
  /* When a request last found etcd unreachable (el_now_ms), and why; 0: etcd has answered since.
   * Only the I/O thread changes these two fields, and it may read them without the mutex. */
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

bool el_breaker_is_open(el_breaker *breaker, el_error *err) {
  bool is_open;
  pthread_mutex_lock(&breaker->mu);
  is_open =
      breaker->opened_ms != 0 && el_now_ms() < breaker->opened_ms + OPEN_MS;
  *err = breaker->err;
  pthread_mutex_unlock(&breaker->mu);
  return is_open;
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

/* Returns whether etcd has answered the last probe. Any error of the probe other than
 * EL_UNAVAILABLE is an answer of etcd. */
static bool is_probe_answered(const el_breaker *breaker) {
  const el_txn_answer *answer = el_guarded_wait(breaker->probe, 0);
  return answer != NULL && answer->err.code != EL_UNAVAILABLE;
}

bool el_breaker_must_fail(el_breaker *breaker, el_bytes key, el_error *err) {
  bool is_open = el_breaker_is_open(breaker, err);
  if (breaker->probe != NULL && is_probe_answered(breaker)) {
    drop_probe(breaker);
    return false;
  }
  if (breaker->probe == NULL && !is_open) return false;
  if (!is_open) {
    el_error_set(err, EL_UNAVAILABLE, "etcd has not answered the last call");
  }
  el_breaker_probe(breaker, key);
  return true;
}
