/* Fuzz target status: answers to Status. */
#include "fuzz.h"

#include "base/timer.h"
#include "etcd/maintenance.h"

static void on_status(void *arg, const el_member_status *status) {
  size_t len = 0;
  (void)arg;
  if (status->err.code != EL_OK) {
    fuzz_check_error(&status->err);
    return;
  }
  len += strlen(status->version);
  for (size_t i = 0; i < status->n_problems; i++) {
    len += strlen(status->problems[i]);
  }
  FUZZ_CHECK(len < 1 << 20);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  el_timers timers = {0};
  el_auth *auth =
      el_auth_new(&fuzz_channel, &timers, NULL, NULL, NULL, NULL, NULL);
  el_bytes answer = fuzz_part(&in);
  el_maintenance_status(auth, 0, 1000, on_status, NULL);
  fuzz_answer(answer);
  el_bytes_free(answer);
  el_auth_free(auth);
  fuzz_reset();
  return 0;
}
