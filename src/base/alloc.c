/* alloc: memory for the I/O thread. */
#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *ptr) {
  if (ptr == NULL) {
    fputs("etcdlock: out of memory on the I/O thread\n", stderr);
    abort();
  }
  return ptr;
}

void *el_alloc(size_t size) { return must(calloc(1, size ? size : 1)); }

void *el_realloc(void *ptr, size_t size) {
  return must(realloc(ptr, size ? size : 1));
}

char *el_strndup(const char *text, size_t len) {
  char *copy = el_alloc(len + 1);
  if (len > 0) memcpy(copy, text, len); /* of nothing, |text| may be NULL */
  return copy;
}
