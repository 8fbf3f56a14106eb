/* Fuzz target endpoint: endpoints of a configuration or of the environment. */
#include "fuzz.h"

#include "net/endpoint.h"

/* Checks a parsed endpoint. The path of a Unix socket may contain any character; el_error_set
 * escapes it. */
static void check(const el_endpoint *endpoint) {
  el_endpoint_transport(endpoint);
  FUZZ_CHECK(strlen(endpoint->address) < sizeof endpoint->address);
  FUZZ_CHECK(strlen(endpoint->target) < sizeof endpoint->target);
  if (!endpoint->is_unix) {
    fuzz_check_line(endpoint->address);
    FUZZ_CHECK(strpbrk(endpoint->address, "/?# @") == NULL);
    FUZZ_CHECK(endpoint->address[0] == '[' ||
               strchr(endpoint->address, '%') == NULL);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  bool tls = fuzz_number(&in, 2) == 1;
  char *text = fuzz_text(&in);
  el_endpoint endpoint;
  el_error err;
  if (el_endpoint_parse(&endpoint, text, tls, &err)) {
    check(&endpoint);
  } else {
    fuzz_check_error(&err);
    FUZZ_CHECK(err.code == EL_INVALID);
  }
  free(text);
  return 0;
}
