/* tls: the certificates and keys of a client, and the cause of a connection
 * that fails.
 *
 * gRPC accepts any text as a certificate and later reports a network error, and
 * its handshake errors do not name the cause. So OpenSSL checks the
 * certificates before gRPC gets them, and if a connection fails, a test
 * connection finds the cause. Neither decides whether a server is trusted: gRPC
 * always verifies that itself, and this cannot be switched off.
 */
#ifndef ETCDLOCK_TLS_TLS_H
#define ETCDLOCK_TLS_TLS_H

#include <stdbool.h>

#include "base/error.h"

/* el_tls_options are the connect options for TLS. Each may be NULL. A file and
 * its _pem string exclude each other. The strings are borrowed for the call. */
typedef struct el_tls_options {
  const char *cacert, *cert, *key;             /* file names */
  const char *cacert_pem, *cert_pem, *key_pem; /* PEM strings */
  const char *server_name; /* the name that the server's certificate must
                              contain; NULL: the endpoint's host */
} el_tls_options;

/* el_tls holds the certificates and keys of one client; reference-counted. */
typedef struct el_tls el_tls;

/* el_tls_new reads and checks the certificates and the key in |options|: valid
 * PEM, certificates within their validity period, a key that matches the
 * certificate, both or neither. Without cacert, the system's CA file is used.
 * Returns NULL and fills |err| if something is wrong ("invalid"; the text names
 * the option, the file and the problem, and contains no secret) or there is no
 * memory. The caller releases the result with el_tls_unref. @thread lua */
el_tls *el_tls_new(const el_tls_options *options, el_error *err);

/* el_tls_ref adds a reference to |tls| and returns it. @thread any */
el_tls *el_tls_ref(el_tls *tls);

/* el_tls_unref drops a reference. The last one overwrites and frees |tls|.
 * @thread any */
void el_tls_unref(el_tls *tls);

/* el_tls_reload reads the files again if one of them has changed since it was
 * read. Returns true if |tls| now has new, valid content (el_tls_get_texts). An
 * invalid state, such as a file that is half written or a new key beside the
 * old certificate, is ignored; the next call reads again.
 * @thread io @locks tls->mu */
bool el_tls_reload(el_tls *tls);

/* el_tls_texts are NUL-terminated PEM strings; NULL: not given. They are valid
 * until the next el_tls_reload. */
typedef struct el_tls_texts {
  const char *cas, *cert, *key;
} el_tls_texts;

/* el_tls_get_texts returns the PEM strings for the credentials of a new gRPC
 * channel. @thread io */
el_tls_texts el_tls_get_texts(const el_tls *tls);

/* el_tls_server_name returns the option server_name; NULL if it is not set.
 * @thread any */
const char *el_tls_server_name(const el_tls *tls);

/* el_tls_probe finds out why a connection to |address| ("host:port",
 * "[v6]:port") fails, by a connection of its own. If |tls| is NULL, the client
 * uses no TLS, and the probe finds out whether the server requires it. Blocks
 * up to |timeout_ms| or until |stop_fd| is readable, plus the time that the DNS
 * resolver and the preparation of the client's certificates take. Returns true
 * and fills |err| (definite, not retriable) for a cause that a retry does not
 * remove:
 *   unavailable      the server's certificate: unknown CA, outside its validity
 *                    period, another name, not for servers
 *   unauthenticated  a client certificate is required, and missing or rejected
 *   protocol         TLS to a port without TLS or the reverse, TLS before 1.2,
 *                    no HTTP/2
 * Returns false if there is no answer, or no problem.
 * @thread any @locks tls->mu */
bool el_tls_probe(el_tls *tls, const char *address, int timeout_ms, int stop_fd,
                  el_error *err);

#endif
