/* alloc: allocation that cannot fail, byte ranges, and secrets. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static void *abort_if_null(void *ptr) {
  if (ptr == NULL) {
    fputs("etcdlock: out of memory\n", stderr);
    abort();
  }
  return ptr;
}

/* Uses malloc, because calloc of glibc before 2.41 does not take memory from the cache of the
 * thread, to which free returns it, and so takes five times as long. */
void *el_alloc(size_t size) {
  size_t some = size ? size : 1;
  return memset(abort_if_null(malloc(some)), 0, some);
}

void *el_realloc(void *ptr, size_t size) {
  return abort_if_null(realloc(ptr, size ? size : 1));
}

char *el_strndup(const char *text, size_t len) {
  char *copy = el_alloc(len + 1);
  if (len > 0) memcpy(copy, text, len); /* |text| may be NULL if |len| is 0 */
  return copy;
}

/* ---- byte ranges ---- */

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

/* ---- secrets ---- */

bool el_secret_copy(char **to, const char *from) {
  *to = from != NULL ? strdup(from) : NULL;
  return *to != NULL || from == NULL;
}

void el_secret_free(char *secret) {
  if (secret == NULL) return;
  explicit_bzero(secret, strlen(secret));
  free(secret);
}
