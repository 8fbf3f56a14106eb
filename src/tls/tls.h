/* tls: the certificates and keys of a client, and the cause of a connection that fails.
 *
 * gRPC accepts any text as a certificate and later reports a network error. Its handshake errors do
 * not name the cause either. So OpenSSL checks the certificates before gRPC gets them. If a
 * connection fails, a test connection finds the cause. Neither the check nor the test connection
 * decides whether a server is trusted: gRPC always verifies the server itself, and this cannot be
 * switched off.
 */
#ifndef ETCDLOCK_TLS_TLS_H
#define ETCDLOCK_TLS_TLS_H

#include <stdbool.h>

#include "base/error.h"

/* el_tls_options are the connect options for TLS. Each may be NULL. A file and the PEM string of
 * the same name exclude each other. The strings must live until the call returns. */
typedef struct el_tls_options {
  const char *cacert, *cert, *key;             /* file names */
  const char *cacert_pem, *cert_pem, *key_pem; /* PEM strings */
  const char *server_name; /* the name that the server's certificate must
                              contain; NULL: the endpoint's host */
} el_tls_options;

/* el_tls holds the certificates and keys of one client; reference-counted. */
typedef struct el_tls el_tls;

/* el_tls_new reads the certificates and the key in |options|, and checks them:
 *   - each text is valid PEM;
 *   - the client certificate and at least one CA are within their validity period;
 *   - the client certificate and the key are both given, or neither is;
 *   - the key matches the client certificate.
 * Without cacert and cacert_pem, the system's CA file is used. Returns NULL and fills |err| if a
 * check fails ("invalid"; the text names the option, the file and the problem, and contains no
 * secret) or there is no memory. The caller releases the result with el_tls_unref. @thread lua */
el_tls *el_tls_new(const el_tls_options *options, el_error *err);

/* el_tls_ref adds a reference to |tls| and returns it. @thread any */
el_tls *el_tls_ref(el_tls *tls);

/* el_tls_unref drops a reference. The last one overwrites and frees |tls|.
 * @thread any */
void el_tls_unref(el_tls *tls);

/* el_tls_reload reads the files again if one of them has changed since it was last read. Returns
 * true if |tls| now has new, valid content (el_tls_get_texts). It ignores an invalid state, such as
 * a file that is half written, or a new key with the old certificate. Then the next call reads the
 * files again. @thread io @locks tls->mu */
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

/* el_tls_client_name writes the common name of the client certificate to |to|, which has |size|
 * bytes; a longer name is cut. Returns false if there is no certificate, or it has no such name.
 * @thread io */
bool el_tls_client_name(const el_tls *tls, char *to, int size);

/* el_tls_diagnose makes connections of its own to |address| ("host:port", "[v6]:port"; "unix:path"
 * if |is_unix|), to find out why connections to it fail. If |tls| is NULL, the client uses no TLS,
 * and the diagnosis finds out whether the server requires TLS. Blocks for up to |timeout_ms|, or
 * until |stop_fd| is readable. The DNS resolver may block longer, and the time to prepare the
 * client's certificates does not count. Returns true and fills |err| if it finds a cause. The first
 * one is retriable, the others are not:
 * - EL_UNAVAILABLE: the host name cannot be resolved, the Unix socket does not exist, or connect()
 *   fails, for example because connections are refused;
 * - EL_UNAVAILABLE: the server's certificate (for example: unknown CA, outside its validity period,
 *   another name, not for servers);
 * - EL_UNAUTHENTICATED: a client certificate is required, and missing or rejected;
 * - EL_PROTOCOL: TLS to a port without TLS or the reverse, no HTTP/2, another failed handshake.
 * Returns false if it finds none, for example if the server does not answer. @thread any
 * @locks tls->mu */
bool el_tls_diagnose(el_tls *tls, const char *address, bool is_unix,
                     int timeout_ms, int stop_fd, el_error *err);

#endif
