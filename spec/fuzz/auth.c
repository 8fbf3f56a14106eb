/* Fuzz target auth: answers to Authenticate, with the token that later calls carry. */
#include "fuzz.h"

#include "base/timer.h"
#include "etcd/auth.h"

static void on_answer(void *arg, const el_call_answer *answer) {
  *(bool *)arg = true;
  if (answer->err.code != EL_OK) fuzz_check_error(&answer->err);
}

/* Checks that |token| is a legal header. gRPC core refuses an illegal one and writes it to standard
 * error. */
static void check_token(const char *token) {
  FUZZ_CHECK(*token != '\0');
  for (; *token != '\0'; token++) {
    FUZZ_CHECK(*token >= ' ' && *token <= '~');
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  el_timers timers = {0};
  el_auth *auth = el_auth_new(&fuzz_channel, &timers, strdup("user"),
                              strdup("password"), NULL, NULL, NULL);
  el_call_request request = {.method = "/etcdserverpb.KV/Txn",
                             .bytes = (const uint8_t *)"x",
                             .len = 1};
  bool is_answered = false;
  el_bytes token = fuzz_part(&in), answer = fuzz_part(&in);
  el_auth_call(auth, &request, on_answer, &is_answered);
  fuzz_answer(token);
  if (fuzz_channel.token != NULL) check_token(fuzz_channel.token);
  fuzz_answer(answer);
  FUZZ_CHECK(is_answered);
  el_bytes_free(token);
  el_bytes_free(answer);
  el_auth_free(auth);
  el_timers_destroy(&timers);
  fuzz_reset();
  return 0;
}
