/* Fuzz target lease: answers to LeaseGrant, LeaseRevoke and LeaseTimeToLive, and messages of a
 * LeaseKeepAlive stream. */
#include "fuzz.h"

#include "base/timer.h"
#include "etcd/lease.h"

enum { GRANT, LIST, KEEPALIVE, REVOKE, REQUESTS };

static const int64_t ID = 0x1234, TTL_MS = 5000;
static bool is_awaited;
static int n_kept; /* keepalives that may be answered */

static void check(const el_lease_answer *answer) {
  FUZZ_CHECK(is_awaited);
  is_awaited = false;
  FUZZ_CHECK(answer->id == ID);
  if (answer->err.code != EL_OK) {
    fuzz_check_error(&answer->err);
    FUZZ_CHECK(!answer->err.is_definite);
  }
}

static void on_granted(void *arg, const el_lease_answer *answer) {
  (void)arg;
  check(answer);
  if (answer->err.code == EL_OK) FUZZ_CHECK(answer->ttl_ms >= TTL_MS);
}

static void on_kept(void *arg, const el_lease_answer *answer) {
  (void)arg;
  FUZZ_CHECK(n_kept > 0);
  n_kept--;
  is_awaited = true;
  check(answer);
  FUZZ_CHECK(answer->sent_ms > 0);
  if (answer->err.code == EL_OK) {
    FUZZ_CHECK(answer->ttl_ms == 0 || answer->ttl_ms >= TTL_MS);
  } else {
    n_kept = 0;
  }
}

static void on_revoked(void *arg, const el_lease_answer *answer) {
  (void)arg;
  check(answer);
}

static void on_listed(void *arg, const el_lease_keys *answer) {
  (void)arg;
  check(&answer->lease);
  for (size_t i = 0; i < answer->n; i++) {
    free(el_bytes_copy(answer->keys[i])); /* reads all its bytes */
  }
}

static void ask(el_auth *auth, unsigned question, fuzz_input *in) {
  el_bytes answer = fuzz_part(in);
  is_awaited = true;
  if (question == GRANT) {
    el_lease_grant(auth, ID, TTL_MS, on_granted, NULL);
  } else if (question == LIST) {
    el_lease_time_to_live(auth, ID, on_listed, NULL);
  } else {
    el_lease_revoke(auth, ID, on_revoked, NULL);
  }
  fuzz_answer(answer);
  FUZZ_CHECK(!is_awaited);
  el_bytes_free(answer);
}

/* Renews a lease again and again, and sends the messages of the input on the keepalive streams.
 * Some arrive while no answer is awaited. */
static void keep(el_auth *auth, fuzz_input *in) {
  el_keepalive *ka = el_keepalive_new(auth, on_kept, NULL);
  int64_t sent_ms = 0;
  n_kept = 0;
  while (in->left > 0 && fuzz_n_streams < FUZZ_STREAMS_MAX) {
    el_bytes message = fuzz_part(in);
    if (sent_ms == 0 || fuzz_number(in, 2) == 0) {
      n_kept++;
      el_keepalive_send(ka, ID, TTL_MS, ++sent_ms);
    }
    fuzz_send(fuzz_number(in, 3), message);
    el_bytes_free(message);
  }
  el_keepalive_free(ka);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  el_timers timers = {0};
  el_auth *auth =
      el_auth_new(&fuzz_channel, &timers, NULL, NULL, NULL, NULL, NULL);
  unsigned question = fuzz_number(&in, REQUESTS);
  if (question == KEEPALIVE) {
    keep(auth, &in);
  } else {
    ask(auth, question, &in);
  }
  el_auth_free(auth);
  fuzz_reset();
  return 0;
}
