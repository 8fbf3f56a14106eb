/* Fuzz target handshake: the bytes that a server sends to the TLS diagnosis. */
#include "fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tls/tls_int.h"

enum { PATIENCE_MS = 1000 };

static void check(const el_diagnosis_handshake *hs) {
  el_error err;
  el_error_set(&err, EL_PROTOCOL, "%s %s %s %s", hs->subject, hs->issuer,
               hs->hosts, hs->validity);
  fuzz_check_line(err.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static SSL_CTX *ctx;
  int ends[2];
  el_diagnosis_connection wire = {.deadline_ms = el_now_ms() + PATIENCE_MS,
                                  .stop_fd = -1};
  el_diagnosis_handshake hs;
  ssize_t sent;
  if (ctx == NULL) ctx = el_tls_bare_context();
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  sent = write(ends[1], data, size);
  FUZZ_CHECK(sent >= 0 || size == 0);
  shutdown(ends[1], SHUT_WR);
  wire.fd = ends[0];
  FUZZ_CHECK(el_diagnosis_run_handshake(&hs, ctx, "localhost", &wire));
  check(&hs);
  el_diagnosis_detect_protocol(&wire);
  close(wire.fd);
  close(ends[1]);
  return 0;
}
