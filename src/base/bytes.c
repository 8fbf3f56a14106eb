/* bytes: bytes that belong to somebody else. */
#include "base/bytes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

char *el_bytes_copy(el_bytes bytes) {
  char *copy = malloc(bytes.len + 1);
  if (copy == NULL) return NULL;
  if (bytes.len > 0) {
    memcpy(copy, bytes.data, bytes.len);
  }
  copy[bytes.len] = '\0';
  return copy;
}

bool el_bytes_are_equal(el_bytes a, el_bytes b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

void el_bytes_free(el_bytes copy) { free((void *)(uintptr_t)copy.data); }
