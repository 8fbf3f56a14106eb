/* pem: reads and parses certificates and keys, and formats certificates.
 *
 * A PEM text may be a private key. So it is read without intermediate buffers, overwritten before
 * it is freed, and never quoted in a message.
 */
#ifndef ETCDLOCK_TLS_PEM_H
#define ETCDLOCK_TLS_PEM_H

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

/* ---- PEM texts ---- */

enum { EL_PEM_LABEL_SIZE = 112 };

/* el_pem_text is the content of a file or of a PEM string. It may be a private key. */
typedef struct el_pem_text {
  char *bytes; /* NUL-terminated; NULL: the option is not set */
  size_t len;
  struct stat file_stat; /* the state of the file when it was read */
} el_pem_text;

/* el_pem is the value of an option that is a file name or a PEM string. */
typedef struct el_pem {
  char label[EL_PEM_LABEL_SIZE]; /* for messages: 'cert "file"' or 'cert_pem' */
  /* the file name; NULL: a PEM string, or not set */
  char *file;
  el_pem_text text;
} el_pem;

/* el_pem_init reads |file| or copies |text|. Both may be NULL; to give both is a failure. |option|
 * is the name of the option for the file. Returns false and fills |err| ("invalid", "nomem") on
 * failure. The caller calls el_pem_destroy also after a failure. @thread lua */
bool el_pem_init(el_pem *pem, const char *option, const char *file,
                 const char *text, el_error *err);

/* el_pem_destroy overwrites and frees what |pem| holds. @thread any */
void el_pem_destroy(el_pem *pem);

/* el_pem_has_changed returns whether the time, the size, the inode or the device of the file has
 * changed since the file was read. Returns false if there is no file, or `stat` fails.
 * @thread io */
bool el_pem_has_changed(const el_pem *pem);

/* el_pem_reread reads the file again, or copies the PEM string, into |to|,
 * which the caller frees with el_pem_wipe. Returns false and fills |err| as
 * el_pem_init does. @thread io */
bool el_pem_reread(el_pem_text *to, const el_pem *pem, el_error *err);

/* el_pem_wipe overwrites and frees |text|. @thread any */
void el_pem_wipe(el_pem_text *text);

/* ---- parsing ---- */

/* el_pem_certificates returns all certificates in |pem|, at least one, in their order. The caller
 * frees them. Returns NULL and fills |err| if |pem| contains a damaged certificate or none
 * ("invalid"), or there is no memory. @thread any */
STACK_OF(X509) * el_pem_certificates(const el_pem *pem, el_error *err);

/* el_pem_key returns the private key in |pem|, which the caller frees. Returns NULL and fills |err|
 * if the key is missing, damaged or encrypted ("invalid"), or there is no memory. @thread any */
EVP_PKEY *el_pem_key(const el_pem *pem, el_error *err);

/* ---- certificates in messages ----
 *
 * The functions below write to |to|, which must have EL_CERTIFICATE_TEXT_SIZE bytes. A longer text
 * is cut and ends with "...". The text comes from the certificate, so it is untrusted: pass it to
 * el_error_set, which escapes it. */

enum { EL_CERTIFICATE_TEXT_SIZE = 96 };

/* el_certificate_is_outside_validity returns whether |cert| has expired or is
 * not valid yet. If so, it writes "expired on <time>" or "is not valid before
 * <time>" to |to|. @thread any */
bool el_certificate_is_outside_validity(const X509 *cert, char *to);

/* el_certificate_format_name writes |name|, a subject or an issuer, to |to|.
 * @thread any */
void el_certificate_format_name(const X509_NAME *name, char *to);

/* el_certificate_format_hosts writes the host names and addresses in |cert| to |to|. If |cert| has
 * none, it writes the subject. @thread any */
void el_certificate_format_hosts(const X509 *cert, char *to);

#endif
