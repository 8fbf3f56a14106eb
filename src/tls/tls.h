/* tls: certificates and keys, read and checked; and a second opinion when a
 * handshake fails.
 *
 * gRPC takes rubbish for a certificate without a word and reports a network
 * error later, and its handshake errors don't say what is wrong. So OpenSSL
 * checks what we are given before gRPC sees it, and, when a connection fails,
 * makes one handshake of its own to find the cause. It never decides: whether
 * a server is trusted is verified by gRPC, always, and can't be switched off.
 */
#ifndef ETCDLOCK_TLS_TLS_H
#define ETCDLOCK_TLS_TLS_H

#include <stdbool.h>

#include "base/error.h"

/* What the caller said; each may be NULL. A file and a text of the same thing
 * exclude each other. Strings are borrowed for the call. */
typedef struct el_tls_options {
  const char *cacert, *cert, *key;             /* file names */
  const char *cacert_pem, *cert_pem, *key_pem; /* texts */
  const char *server_name; /* to be found in the certificate instead of the
                              endpoint's host */
} el_tls_options;

typedef struct el_tls el_tls;

/* Reads and checks everything: PEM that is PEM, certificates that are in
 * force, a key that fits the certificate, both or neither. NULL and |err|
 * (invalid; the text names the option, the file and what is wrong, never a
 * secret) otherwise. With no option at all the system's CAs are used.
 * @thread lua */
el_tls *el_tls_new(const el_tls_options *options, el_error *err);

/* One more holder of |tls|, which is returned. @thread any */
el_tls *el_tls_ref(el_tls *tls);

/* One holder less; the last one wipes and frees. @thread any */
void el_tls_unref(el_tls *tls);

/* Reads the files again if one of them has changed since it was read. True if
 * new, valid contents were taken over, to be used by el_tls_get_texts; what
 * can't be used (a half-written file, a key whose certificate is still the old
 * one) is left for the next time. @thread io @locks tls->mu */
bool el_tls_reload(el_tls *tls);

/* What was read, as NUL-terminated PEM; NULL: not given. Good until the next
 * reload. */
typedef struct el_tls_texts {
  const char *cas, *cert, *key;
} el_tls_texts;

/* For a new channel's credentials. @thread io */
el_tls_texts el_tls_get_texts(const el_tls *tls);

/* The name to be found in the server's certificate, NULL: the endpoint's.
 * @thread any */
const char *el_tls_server_name(const el_tls *tls);

/* What is wrong between us and |host_port| ("host:port", "[v6]:port"), found
 * by a handshake of our own; |tls| NULL: there should be none, and the question
 * is whether the other end wants TLS. Reads our certificates first, however long
 * that takes; then blocks up to |timeout_ms|, to which the resolver of host names
 * may add its own time, or until |stop_fd| can be read. True and |err| (definite,
 * not retriable) if a cause was found that trying again won't mend:
 *   unavailable      the server's certificate: unknown CA, out of force,
 *                    another name, not for servers
 *   unauthenticated  a client certificate is wanted, and missing or refused
 *   protocol         TLS to a plain port or the reverse, TLS before 1.2, no
 *                    HTTP/2
 * False if not: nobody answers, or all is well. @thread any @locks tls->mu */
bool el_tls_explain(el_tls *tls, const char *host_port, int timeout_ms,
                    int stop_fd, el_error *err);

#endif
