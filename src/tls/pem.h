/* pem: a file or a text with certificates or a key in it, as the caller
 * gave it.
 *
 * It may be a private key, so it is read without buffers in between, wiped
 * before it is freed, and never quoted in a message.
 */
#ifndef ETCDLOCK_TLS_PEM_H
#define ETCDLOCK_TLS_PEM_H

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

enum { EL_PEM_LABEL = 112 };

/* What was read, and when its file was of which size. */
typedef struct el_pem_text {
  char *bytes; /* NUL-terminated; NULL: nothing was given */
  size_t len;
  struct stat stamp;
} el_pem_text;

typedef struct el_pem {
  char label[EL_PEM_LABEL]; /* for messages: 'cert "file"' or 'cert_pem' */
  char *file;               /* NULL: a text was given, or nothing */
  el_pem_text text;
} el_pem;

/* Reads |file|, or copies |text|, of which one may be given; |option| is the
 * name of the file's option. False and |err| (invalid, nomem) if that can't be
 * done; |pem| is to be destroyed in any case. @thread lua */
bool el_pem_init(el_pem *pem, const char *option, const char *file,
                 const char *text, el_error *err);

/* Wipes and frees what is in |pem|. @thread any */
void el_pem_destroy(el_pem *pem);

/* Has the file changed since it was read? @thread io */
bool el_pem_has_changed(const el_pem *pem);

/* Reads the file again, or copies the text, into |to|, which the caller wipes.
 * False and |err| as above. @thread io */
bool el_pem_reread(el_pem_text *to, const el_pem *pem, el_error *err);

/* Wipes and frees. @thread any */
void el_pem_wipe(el_pem_text *text);

/* All certificates in |pem|, in order, at least one; the caller frees them.
 * NULL and |err| (invalid) if one can't be read, or there is none.
 * @thread any */
STACK_OF(X509) * el_pem_certificates(const el_pem *pem, el_error *err);

/* The private key in |pem|; the caller frees it. NULL and |err| (invalid) if
 * there is none, or it is encrypted. @thread any */
EVP_PKEY *el_pem_key(const el_pem *pem, el_error *err);

#endif
