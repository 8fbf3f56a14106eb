/* explain: why a connection fails: asks, and says what the answer
 * means and what to do. */
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "tls/certificate.h"
#include "base/clock.h"
#include "tls/handshake.h"
#include "tls/tls_int.h"
#include "tls/dial.h"

/* How every message begins; its argument is asked->host_port. */
#define AT "etcd %.80s: "

typedef struct question {
  el_tls *tls; /* NULL: there should be no TLS */
  const char *host_port;
  char host[256], port[8];
  int64_t deadline_ms;
  int stop_fd;
  SSL_CTX *ctx;
} question;

/* ---- the server's certificate ---- */

static void say_unknown_ca(const question *q, const el_handshake *hs,
                           el_error *err) {
  const char *cas = q->tls->pems[EL_TLS_CA].label;
  const char *hint = q->tls->own_cas ? "" : "; set cacert";
  if (hs->problem == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT) {
    el_error_set(err, EL_UNAVAILABLE,
                 AT "its certificate is self-signed, and not in %s%s",
                 q->host_port, cas, hint);
  } else {
    el_error_set(err, EL_UNAVAILABLE,
                 AT "its certificate is signed by a CA that is not in %s%s "
                    "(the CA is %s)",
                 q->host_port, cas, hint, hs->issuer);
  }
}

static void say_out_of_force(const question *q, const el_handshake *hs,
                             el_error *err) {
  const char *hint = hs->problem == X509_V_ERR_CERT_HAS_EXPIRED
                         ? "it must be renewed"
                         : "are both clocks right?";
  if (hs->depth == 0) {
    el_error_set(err, EL_UNAVAILABLE, AT "its certificate %s; %s", q->host_port,
                 hs->when, hint);
  } else {
    el_error_set(err, EL_UNAVAILABLE,
                 AT "the CA certificate above its own %s; %s (%s)",
                 q->host_port, hs->when, hint, hs->subject);
  }
}

static const char *expected_name(const question *q) {
  const char *name = q->tls != NULL ? el_tls_server_name(q->tls) : NULL;
  return name != NULL ? name : q->host;
}

static void say_other_name(const question *q, const el_handshake *hs,
                           el_error *err) {
  const char *override = el_tls_server_name(q->tls);
  el_error_set(err, EL_UNAVAILABLE,
               AT "its certificate is for %s, not for %s%.80s; %s",
               q->host_port, hs->hosts, override != NULL ? "server_name " : "",
               expected_name(q),
               override != NULL ? "set that to one of them"
                                : "set server_name to one of them");
}

static void say_problem(const question *q, const el_handshake *hs,
                        el_error *err) {
  switch (hs->problem) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE: /* another CA of the same name */
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      say_unknown_ca(q, hs, err);
      break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      say_out_of_force(q, hs, err);
      break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      say_other_name(q, hs, err);
      break;
    case X509_V_ERR_INVALID_PURPOSE:
      el_error_set(err, EL_UNAVAILABLE,
                   AT "its certificate is not made for a server "
                      "(extendedKeyUsage lacks serverAuth)",
                   q->host_port);
      break;
    default:
      el_error_set(err, EL_UNAVAILABLE,
                   AT "its certificate can't be trusted: %s", q->host_port,
                   X509_verify_cert_error_string(hs->problem));
  }
}

/* ---- our certificate, and other complaints of the server ---- */

/* Servers hardly say what they have against a certificate (Go 1.19: "bad
 * certificate" for everything), so look at it ourselves. */
static void say_refused(const question *q, const el_handshake *hs,
                        el_error *err) {
  X509 *own = SSL_CTX_get0_certificate(q->ctx);
  const char *label = q->tls->pems[EL_TLS_CERT].label;
  char out[EL_CERTIFICATE_WORDS];
  if (own == NULL) {
    el_error_set(err, EL_UNAUTHENTICATED,
                 AT "it wants a client certificate: set cert and key",
                 q->host_port);
  } else if (el_certificate_is_out(own, out)) {
    el_error_set(err, EL_UNAUTHENTICATED,
                 AT "it refuses the client certificate in %s, which %s",
                 q->host_port, label, out);
  } else if (X509_check_purpose(own, X509_PURPOSE_SSL_CLIENT, 0) != 1) {
    el_error_set(err, EL_UNAUTHENTICATED,
                 AT "it refuses the client certificate in %s, which is not "
                    "made for a client (extendedKeyUsage lacks clientAuth)",
                 q->host_port, label);
  } else {
    el_error_set(err, EL_UNAUTHENTICATED,
                 AT "it refuses the client certificate in %s (%s): is it "
                    "signed by a CA in etcd's --trusted-ca-file?",
                 q->host_port, label, SSL_alert_desc_string_long(hs->alert));
  }
}

static bool say_not_etcd(const question *q, el_error *err) {
  el_error_set(err, EL_PROTOCOL,
               AT "it speaks TLS, but not HTTP/2, so it is not an etcd client "
                  "port",
               q->host_port);
  return true;
}

static bool say_nothing_in_common(const question *q, el_error *err) {
  el_error_set(err, EL_PROTOCOL,
               AT "it has no TLS version, cipher and curve in common with us: "
                  "TLS 1.2 or newer with AES-GCM and P-256 is needed",
               q->host_port);
  return true;
}

/* False for what may be a passing trouble of the server's. */
static bool say_alert(const question *q, const el_handshake *hs,
                      el_error *err) {
  switch (hs->alert) {
    case SSL_AD_PROTOCOL_VERSION:
    case SSL_AD_INSUFFICIENT_SECURITY:
      return say_nothing_in_common(q, err);
    case SSL_AD_NO_APPLICATION_PROTOCOL:
      return say_not_etcd(q, err);
    case SSL_AD_HANDSHAKE_FAILURE:
      /* OpenSSL's word, until TLS 1.2, for a missing client certificate. */
      if (!hs->asked) return say_nothing_in_common(q, err);
      break;
    case SSL_AD_UNRECOGNIZED_NAME:
      el_error_set(err, EL_UNAVAILABLE,
                   AT "it has no certificate for %.80s; set server_name",
                   q->host_port, expected_name(q));
      return true;
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_CERTIFICATE_REQUIRED:
      break;
    default:
      return false;
  }
  say_refused(q, hs, err);
  return true;
}

static bool say_failure(const question *q, const el_handshake *hs,
                        el_error *err) {
  const char *why =
      ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, hs->failure));
  if (hs->failure == SSL_R_UNSUPPORTED_PROTOCOL ||
      hs->failure == SSL_R_WRONG_SSL_VERSION) {
    return say_nothing_in_common(q, err);
  }
  el_error_set(err, EL_PROTOCOL, AT "the TLS handshake fails: %s", q->host_port,
               why != NULL ? why : "no reason given");
  return true;
}

/* ---- conversations ---- */

/* What the other end says to the start of TLS, which is carried as far as it
 * goes. */
static el_speech try_tls(const question *q, el_handshake *hs) {
  el_dial wire;
  memset(hs, 0, sizeof *hs);
  if (!el_dial_open(&wire, q->host, q->port, q->deadline_ms, q->stop_fd)) {
    return EL_SPEECH_NONE;
  }
  el_handshake_try(hs, q->ctx, expected_name(q), &wire);
  el_dial_close(&wire);
  return el_dial_speech(&wire);
}

/* What it says to the start of HTTP/2 without TLS. */
static el_speech try_plain(const question *q) {
  static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" /* preface */
                              "\0\0\0\4\0\0\0\0"; /* SETTINGS, with the NUL */
  char bytes[64];
  el_dial wire;
  if (!el_dial_open(&wire, q->host, q->port, q->deadline_ms, q->stop_fd)) {
    return EL_SPEECH_NONE;
  }
  el_dial_send(&wire, hello, sizeof hello);
  while (wire.n_first < EL_DIAL_FIRST &&
         el_dial_recv(&wire, bytes, sizeof bytes) > 0) {
  }
  el_dial_close(&wire);
  return el_dial_speech(&wire);
}

/* TLS is wanted. A plain etcd closes without a word when TLS is spoken to it,
 * as does anybody in trouble; so it is asked again, in plain words. */
static bool ask_tls(const question *q, el_error *err) {
  el_handshake hs;
  el_speech speech = try_tls(q, &hs);
  if (speech == EL_SPEECH_NONE && try_plain(q) != EL_SPEECH_HTTP2) return false;
  if (speech != EL_SPEECH_TLS) {
    el_error_set(err, EL_PROTOCOL,
                 AT "it doesn't speak TLS; write http://%.80s if that is right",
                 q->host_port, q->host_port);
    return true;
  }
  if (hs.problem != X509_V_OK) {
    say_problem(q, &hs, err);
    return true;
  }
  if (hs.alert != 0) return say_alert(q, &hs, err);
  if (hs.failure != 0) return say_failure(q, &hs, err);
  return hs.done && !hs.has_h2 && say_not_etcd(q, err);
}

/* No TLS is wanted. An etcd with TLS closes without a word when HTTP/2 is
 * spoken to it; so it is asked again, with the start of a handshake. */
static bool ask_plain(const question *q, el_error *err) {
  el_handshake hs;
  el_speech speech = try_plain(q);
  if (speech == EL_SPEECH_HTTP2 ||
      (speech != EL_SPEECH_TLS && try_tls(q, &hs) != EL_SPEECH_TLS)) {
    return false;
  }
  el_error_set(err, EL_PROTOCOL, AT "it wants TLS; write https://%.80s",
               q->host_port, q->host_port);
  return true;
}

/* ---- the question ---- */

static bool parse(question *q) {
  const char *from = q->host_port, *colon = strrchr(from, ':');
  const char *end = colon;
  if (colon == NULL) return false;
  if (*from == '[') {
    from++;
    end--; /* the other bracket */
  }
  if (end <= from || (size_t)(end - from) >= sizeof q->host ||
      strlen(colon + 1) >= sizeof q->port) {
    return false;
  }
  memcpy(q->host, from, (size_t)(end - from));
  strcpy(q->port, colon + 1);
  return true;
}

bool el_tls_explain(el_tls *tls, const char *host_port, int timeout_ms,
                    int stop_fd, el_error *err) {
  question q = {.tls = tls, .host_port = host_port, .stop_fd = stop_fd};
  bool found;
  if (!parse(&q)) return false;
  q.ctx = tls != NULL ? el_tls_context(tls) : el_tls_bare_context();
  if (q.ctx == NULL) return false;
  q.deadline_ms =
      el_now_ms() + timeout_ms; /* of theirs, not of our certificates */
  found = tls != NULL ? ask_tls(&q, err) : ask_plain(&q, err);
  SSL_CTX_free(q.ctx);
  return found;
}
