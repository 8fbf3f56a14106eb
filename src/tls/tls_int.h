/* tls_int: declarations that tls.c, diagnose.c and the fuzz target handshake share. */
#ifndef ETCDLOCK_TLS_TLS_INT_H
#define ETCDLOCK_TLS_TLS_INT_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tls/pem.h"
#include "tls/tls.h"

/* ---- tls.c ---- */

enum { EL_TLS_CA, EL_TLS_CERT, EL_TLS_KEY, EL_TLS_PEMS };

/* el_tls is described in tls.h. After el_tls_new only |refs| and the texts in
 * |pems| change. */
struct el_tls {
  atomic_int refs;
  bool has_own_cas;  /* the option cacert or cacert_pem is set */
  char *server_name; /* the option; NULL: not set */
  /* guards the texts in |pems|, which the I/O thread writes and a diagnosis reads; no other mutex
   * is locked under it */
  pthread_mutex_t mu;
  el_pem pems[EL_TLS_PEMS];
};

/* el_tls_context returns an OpenSSL context for client connections, configured as gRPC configures
 * its own, with the certificates that |tls| holds now. The caller frees it. Returns NULL if there
 * is no memory. @thread any @locks tls->mu */
SSL_CTX *el_tls_context(el_tls *tls);

/* el_tls_bare_context returns a context like that of el_tls_context, but without CAs and
 * certificates: it trusts no server. The caller frees it. Returns NULL if there is no memory.
 * @thread any */
SSL_CTX *el_tls_bare_context(void);

/* ---- diagnose.c ---- */

enum { EL_DIAGNOSIS_FIRST_LEN = 9 }; /* length of an HTTP/2 frame header */

/* el_diagnosis_connection is the connection of a diagnosis, to a TCP port or a Unix socket. */
typedef struct el_diagnosis_connection {
  int fd;
  int stop_fd;         /* if it is readable, the diagnosis ends */
  int64_t deadline_ms; /* on the clock of el_now_ms */
  /* the first bytes that the diagnosis has received */
  uint8_t first[EL_DIAGNOSIS_FIRST_LEN];
  size_t n_first;
} el_diagnosis_connection;

/* el_diagnosis_protocol is the protocol that a server speaks, as far as its first bytes show. */
typedef enum el_diagnosis_protocol {
  EL_DIAGNOSIS_NOTHING, /* no bytes were received */
  EL_DIAGNOSIS_TLS,
  EL_DIAGNOSIS_HTTP2, /* without TLS */
  EL_DIAGNOSIS_OTHER
} el_diagnosis_protocol;

/* el_diagnosis_detect_protocol returns the protocol of the first bytes that |conn|
 * received. @thread any */
el_diagnosis_protocol
el_diagnosis_detect_protocol(const el_diagnosis_connection *conn);

/* el_diagnosis_handshake is the result of a TLS handshake. */
typedef struct el_diagnosis_handshake {
  /* The first problem with the server's certificates. */
  int verify_error; /* X509_V_ERR_*; X509_V_OK: none */
  int verify_depth; /* 0: the server's own certificate; more: a CA above it */
  char subject[EL_CERTIFICATE_TEXT_SIZE];
  char issuer[EL_CERTIFICATE_TEXT_SIZE];
  char hosts[EL_CERTIFICATE_TEXT_SIZE];
  /* empty: the certificate is within its validity period */
  char validity[EL_CERTIFICATE_TEXT_SIZE];
  bool is_cert_requested; /* the server asked for a client certificate */
  bool is_done;           /* the handshake succeeded */
  bool has_h2;            /* the server chose HTTP/2 by ALPN */
  int alert;              /* SSL_AD_* that the server sent; 0: none */
  /* SSL_R_*: OpenSSL's reason if the handshake failed, but neither because of a certificate nor
   * because of an alert; 0: none */
  int failure;
} el_diagnosis_handshake;

/* el_diagnosis_run_handshake performs a TLS handshake over |conn| with |ctx|.
 * |name|, a host name or an address, must be in the server's certificate. Fills
 * |hs|. Returns false if OpenSSL cannot prepare it. @thread any */
bool el_diagnosis_run_handshake(el_diagnosis_handshake *hs, SSL_CTX *ctx,
                                const char *name,
                                el_diagnosis_connection *conn);

#endif
