/* alloc: memory for the I/O thread, where a failure can't be answered.
 *
 * gRPC core, which shares that thread, aborts the process when memory runs
 * out; so do these. What a Lua call allocates uses plain malloc instead and
 * answers "nomem".
 */
#ifndef ETCDLOCK_BASE_ALLOC_H
#define ETCDLOCK_BASE_ALLOC_H

#include <stddef.h>

/* |size| zeroed bytes; the caller frees them. @thread any */
void *el_alloc(size_t size);

/* |ptr| grown or shrunk to |size| bytes. @thread any */
void *el_realloc(void *ptr, size_t size);

/* A NUL-terminated copy of |len| bytes. @thread any */
char *el_strndup(const char *text, size_t len);

#endif
