/* handshake: one TLS handshake of our own, and what was seen in it.
 *
 * The bytes go through memory buffers, so that what the other end says first
 * can be looked at whatever OpenSSL makes of it. Verification is on, as
 * everywhere; nothing is sent but the handshake.
 */
#ifndef ETCDLOCK_TLS_HANDSHAKE_H
#define ETCDLOCK_TLS_HANDSHAKE_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "tls/certificate.h"
#include "tls/dial.h"

typedef struct el_handshake {
  /* The server's certificate. */
  int problem; /* X509_V_ERR_* */
  int depth;   /* whose: 0 is its own, more is a CA's above it */
  char subject[EL_CERTIFICATE_WORDS];
  char issuer[EL_CERTIFICATE_WORDS];
  char hosts[EL_CERTIFICATE_WORDS];
  char when[EL_CERTIFICATE_WORDS]; /* how it is out of force */
  /* Ours. */
  bool asked; /* the server asked for one */
  /* The whole. */
  bool done;   /* to its end, and whatever followed */
  bool has_h2; /* the server chose HTTP/2 */
  int alert;   /* the server's, 0: none */
  int failure; /* OpenSSL's reason, if that was neither certificate nor alert;
                  0: none */
} el_handshake;

/* Starts one over |wire| with |ctx|, and wants |name| (a host or an address) in
 * the server's certificate. False if there is no memory. @thread any */
bool el_handshake_try(el_handshake *hs, SSL_CTX *ctx, const char *name,
                      el_dial *wire);

#endif
