/* handshake: one TLS handshake of our own, and what was seen in it. */
#include "tls/handshake.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

typedef struct session {
  SSL *ssl;
  el_dial *wire;
  el_handshake *hs;
} session;

/* ---- notes on the way ---- */

/* OpenSSL's verdict stands; this only remembers the first complaint. */
static int on_verified(int ok, X509_STORE_CTX *store) {
  const SSL *ssl =
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
  el_handshake *hs = SSL_get_app_data(ssl);
  const X509 *cert = X509_STORE_CTX_get_current_cert(store);
  if (ok || hs->problem != X509_V_OK) return ok;
  hs->problem = X509_STORE_CTX_get_error(store);
  hs->depth = X509_STORE_CTX_get_error_depth(store);
  if (cert != NULL) {
    el_certificate_name(X509_get_subject_name(cert), hs->subject);
    el_certificate_name(X509_get_issuer_name(cert), hs->issuer);
    el_certificate_hosts(cert, hs->hosts);
    el_certificate_is_out(cert, hs->when);
  }
  return ok;
}

/* Called when the server asks for a client certificate. */
static int on_asked(SSL *ssl, void *arg) {
  el_handshake *hs = arg;
  (void)ssl;
  hs->asked = true;
  return 1;
}

/* An alert arrives as a reason of its own, above an offset. */
static void note_failure(el_handshake *hs) {
  unsigned long code = ERR_peek_error();
  int reason = ERR_GET_REASON(code);
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return;
  if (reason >= SSL_AD_REASON_OFFSET) {
    hs->alert = reason - SSL_AD_REASON_OFFSET;
  } else if (hs->problem == X509_V_OK) {
    hs->failure = reason;
  }
}

/* ---- the conversation ---- */

static void flush(const session *s) {
  char bytes[4096];
  int n;
  while ((n = BIO_read(SSL_get_wbio(s->ssl), bytes, sizeof bytes)) > 0) {
    el_dial_send(s->wire, bytes, (size_t)n);
  }
}

/* Repeats |step| with what arrives, until it succeeds or fails, or nothing
 * arrives any more. */
static bool drive(const session *s, int (*step)(SSL *ssl)) {
  char bytes[4096];
  for (;;) {
    size_t n;
    int rc;
    ERR_clear_error(); /* SSL_get_error looks at older ones, too */
    rc = step(s->ssl);
    flush(s);
    if (rc > 0) return true;
    if (SSL_get_error(s->ssl, rc) != SSL_ERROR_WANT_READ) {
      note_failure(s->hs);
      return false;
    }
    n = el_dial_recv(s->wire, bytes, sizeof bytes);
    if (n == 0) return false;
    BIO_write(SSL_get_rbio(s->ssl), bytes, (int)n);
  }
}

static int read_once(SSL *ssl) {
  char byte;
  return SSL_read(ssl, &byte, 1);
}

/* With TLS 1.3 the handshake is over, for the client, before the server has
 * seen its certificate: a refusal is the first thing to be read after it. A
 * server that is content says something else (HTTP/2's SETTINGS). */
static void converse(const session *s) {
  const unsigned char *alpn;
  unsigned len;
  s->hs->done = drive(s, SSL_do_handshake);
  if (!s->hs->done) return;
  SSL_get0_alpn_selected(s->ssl, &alpn, &len);
  s->hs->has_h2 = len == 2 && memcmp(alpn, "h2", 2) == 0;
  if (drive(s, read_once)) {
    SSL_shutdown(s->ssl);
    flush(s);
  }
}

/* ---- the session ---- */

static bool is_address(const char *name) {
  unsigned char address[16];
  return inet_pton(AF_INET, name, address) == 1 ||
         inet_pton(AF_INET6, name, address) == 1;
}

static bool set_name(SSL *ssl, const char *name) {
  X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
  if (is_address(name)) {
    return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1;
  }
  X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
         SSL_set_tlsext_host_name(ssl, name) == 1;
}

static bool set_buffers(SSL *ssl) {
  BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
  if (in == NULL || out == NULL) {
    BIO_free(in);
    BIO_free(out);
    return false;
  }
  SSL_set_bio(ssl, in, out);
  return true;
}

bool el_handshake_try(el_handshake *hs, SSL_CTX *ctx, const char *name,
                      el_dial *wire) {
  session s = {.ssl = SSL_new(ctx), .wire = wire, .hs = hs};
  bool ok = s.ssl != NULL && set_buffers(s.ssl) && set_name(s.ssl, name);
  memset(hs, 0, sizeof *hs);
  if (ok) {
    SSL_set_app_data(s.ssl, hs);
    SSL_set_verify(s.ssl, SSL_VERIFY_PEER, on_verified);
    SSL_set_cert_cb(s.ssl, on_asked, hs);
    SSL_set_connect_state(s.ssl);
    converse(&s);
  }
  SSL_free(s.ssl);
  ERR_clear_error();
  return ok;
}
