/* alloc: allocation that cannot fail, byte ranges, and secrets.
 *
 * el_alloc, el_realloc and el_strndup abort the process if there is no memory, as gRPC core does.
 * They are for code that cannot report this, mainly on the I/O thread. Most code that runs in a Lua
 * call uses malloc instead and reports the failure.
 */
#ifndef ETCDLOCK_BASE_ALLOC_H
#define ETCDLOCK_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* ---- memory ---- */

/* el_alloc returns |size| zeroed bytes, which the caller frees with free().
 * @thread any */
void *el_alloc(size_t size);

/* el_realloc resizes |ptr| to |size| bytes, as realloc() does. @thread any */
void *el_realloc(void *ptr, size_t size);

/* el_strndup returns a NUL-terminated copy of the |len| bytes at |text|, which
 * the caller frees with free(). @thread any */
char *el_strndup(const char *text, size_t len);

/* EL_UNINITIALIZED exempts a local variable from the compiler option -ftrivial-auto-var-init, which
 * clears all local variables. It is for large structs of which only the parts that were filled are
 * read: to clear the 60 KB of an el_lock_txn takes longer than to build the transaction. */
#ifdef __has_attribute
#if __has_attribute(uninitialized)
#define EL_UNINITIALIZED __attribute__((uninitialized))
#endif
#endif
#ifndef EL_UNINITIALIZED
#define EL_UNINITIALIZED
#endif

/* ---- byte ranges ---- */

/* el_bytes is a byte range, which may contain NUL bytes. By default it does not
 * own |data|. */
typedef struct el_bytes {
  const char *data;
  size_t len;
} el_bytes;

/* el_bytes_copy returns a copy of |bytes| with a NUL after it, which the caller
 * frees with free(). Returns NULL if there is no memory. @thread any */
char *el_bytes_copy(el_bytes bytes);

/* el_bytes_are_equal returns whether |a| and |b| have the same length and content. @thread any */
bool el_bytes_are_equal(el_bytes a, el_bytes b);

/* el_bytes_free frees |copy|, which el_bytes_copy has made; copy.data may be NULL. @thread any */
void el_bytes_free(el_bytes copy);

/* ---- secrets ---- */

/* el_secret_copy stores a copy of |from|, a password or a token, in |*to|; NULL
 * is copied as NULL. The caller frees it with el_secret_free. Returns false if
 * there is no memory. @thread any */
bool el_secret_copy(char **to, const char *from);

/* el_secret_free overwrites |secret| and frees it; NULL is allowed.
 * @thread any */
void el_secret_free(char *secret);

#endif
