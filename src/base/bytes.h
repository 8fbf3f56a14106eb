/* bytes: bytes that belong to somebody else. */
#ifndef ETCDLOCK_BASE_BYTES_H
#define ETCDLOCK_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct el_bytes {
  const char *data;
  size_t len;
} el_bytes;

/* A copy with a NUL behind it, the caller's; NULL: no memory. @thread any */
char *el_bytes_copy(el_bytes bytes);

/* @thread any */
bool el_bytes_are_equal(el_bytes a, el_bytes b);

/* Frees such a copy; harmless if there is none. @thread any */
void el_bytes_free(el_bytes copy);

#endif
