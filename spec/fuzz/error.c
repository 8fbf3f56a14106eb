/* Fuzz target error: the error texts of a server, header values, and texts in a message. */
#include "fuzz.h"

#include "base/text.h"
#include "net/call.h"

enum { STATUSES = 20 };

static void check_escape(const char *text) {
  char escaped[64];
  for (size_t size = 1; size <= sizeof escaped; size *= 2) {
    el_escape(escaped, size, text);
    FUZZ_CHECK(strlen(escaped) < size);
    fuzz_check_line(escaped);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  int status = (int)fuzz_number(&in, STATUSES);
  char *text = fuzz_text(&in);
  size_t illegal_at = el_header_illegal_at(text);
  el_error err;
  FUZZ_CHECK(illegal_at <= strlen(text));
  check_escape(text);
  el_error_from_status(&err, status, text, "fuzz:2379");
  fuzz_check_error(&err);
  free(text);
  return 0;
}
