/* breaker: the circuit breaker of one client. */
#include "lock/breaker.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/times.h"
#include "lock/guarded.h"

struct el_breaker {
  el_shared *shared;
  /* the last probe; NULL: there is none, or its answer was seen */
  el_guarded *probe;
};

el_breaker *el_breaker_new(el_shared *shared) {
  el_breaker *breaker = calloc(1, sizeof *breaker);
  if (breaker != NULL) breaker->shared = shared;
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
  free(breaker);
}

bool el_breaker_is_open(const el_breaker *breaker, el_error *err) {
  int64_t opened_ms = el_contact_read(&breaker->shared->contact, err);
  return opened_ms != 0 && el_now_ms() < opened_ms + EL_FAIL_FAST_MS;
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
       !el_guarded_start(breaker->probe, EL_CALL_MS, &err))) {
    drop_probe(breaker);
  }
}

/* Returns whether etcd has answered the last probe. Any error of the probe other than
 * EL_UNAVAILABLE counts as an answer. */
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
