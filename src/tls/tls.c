/* tls: certificates and keys, read and checked. */
#include "tls/tls_int.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tls/certificate.h"

/* ---- OpenSSL's context ---- */

/* What OpenSSL has against |pem| that is PEM all the same, such as a key too
 * short for the system's security level. */
static bool refuse(el_error *err, const el_pem *pem) {
  const char *why = ERR_reason_error_string(ERR_peek_last_error());
  el_error_set(err, EL_INVALID, "%s is not usable: %s", pem->label,
               why != NULL ? why : "no reason given");
  return false;
}

static bool add_cas(SSL_CTX *ctx, const el_pem *pem, el_error *err) {
  X509_STORE *store = SSL_CTX_get_cert_store(ctx);
  STACK_OF(X509) *list = el_pem_certificates(pem, err);
  bool ok = list != NULL;
  for (int i = 0; ok && i < sk_X509_num(list); i++) {
    if (X509_STORE_add_cert(store, sk_X509_value(list, i)) != 1) {
      ok = refuse(err, pem);
    }
  }
  sk_X509_pop_free(list, X509_free);
  return ok;
}

/* The certificate comes first, then those that lead from it to a CA. */
static bool add_chain(SSL_CTX *ctx, const el_pem *pem, el_error *err) {
  STACK_OF(X509) *list = el_pem_certificates(pem, err);
  bool ok = list != NULL;
  if (ok && SSL_CTX_use_certificate(ctx, sk_X509_value(list, 0)) != 1) {
    ok = refuse(err, pem);
  }
  for (int i = 1; ok && i < sk_X509_num(list); i++) {
    if (SSL_CTX_add1_chain_cert(ctx, sk_X509_value(list, i)) != 1) {
      ok = refuse(err, pem);
    }
  }
  sk_X509_pop_free(list, X509_free);
  return ok;
}

static bool add_key(SSL_CTX *ctx, const el_pem pems[], el_error *err) {
  const el_pem *pem = &pems[EL_TLS_KEY];
  EVP_PKEY *key = el_pem_key(pem, err);
  bool ok = key != NULL;
  if (ok && X509_check_private_key(SSL_CTX_get0_certificate(ctx), key) != 1) {
    el_error_set(err, EL_INVALID, "%s does not fit the certificate in %s",
                 pem->label, pems[EL_TLS_CERT].label);
    ok = false;
  }
  if (ok && SSL_CTX_use_PrivateKey(ctx, key) != 1) {
    ok = refuse(err, pem);
  }
  EVP_PKEY_free(key);
  return ok;
}

/* The versions, ciphers, group and ALPN that gRPC 1.51 offers, so that its
 * failures are found here too. */
SSL_CTX *el_tls_bare_context(void) {
  static const unsigned char h2[] = {2, 'h', '2'};
  SSL_CTX *ctx;
  /* A process that exits while a diagnosis, or gRPC, is inside OpenSSL would
   * crash as OpenSSL cleans up under it. Only the first user can choose. */
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
  ctx = SSL_CTX_new(TLS_client_method());
  if (ctx == NULL) return NULL;
  if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM") != 1 ||
      SSL_CTX_set1_groups_list(ctx, "P-256") != 1 ||
      SSL_CTX_set_alpn_protos(ctx, h2, sizeof h2) != 0) {
    SSL_CTX_free(ctx);
    return NULL;
  }
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
  /* As gRPC: whatever is in cacert is trusted, be it a root or not. */
  X509_STORE_set_flags(SSL_CTX_get_cert_store(ctx),
                       X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  return ctx;
}

static SSL_CTX *make_context(const el_pem pems[], el_error *err) {
  SSL_CTX *ctx = el_tls_bare_context(); /* before any other use of OpenSSL */
  bool ok;
  ERR_set_mark();
  if (ctx == NULL) {
    el_error_set(err, EL_NOMEM, "no memory for TLS");
  }
  ok = ctx != NULL && add_cas(ctx, &pems[EL_TLS_CA], err) &&
       (pems[EL_TLS_CERT].text.bytes == NULL ||
        (add_chain(ctx, &pems[EL_TLS_CERT], err) && add_key(ctx, pems, err)));
  ERR_pop_to_mark();
  if (!ok) {
    SSL_CTX_free(ctx);
    return NULL;
  }
  return ctx;
}

SSL_CTX *el_tls_context(el_tls *tls) {
  el_error ignored;
  SSL_CTX *ctx;
  pthread_mutex_lock(&tls->mu);
  ctx = make_context(tls->pems, &ignored);
  pthread_mutex_unlock(&tls->mu);
  return ctx;
}

/* ---- checks ---- */

static bool is_in_force(const SSL_CTX *ctx, const el_pem *pem, el_error *err) {
  const X509 *own = SSL_CTX_get0_certificate(ctx);
  char why[EL_CERTIFICATE_WORDS];
  if (own == NULL || !el_certificate_is_out(own, why)) return true;
  el_error_set(err, EL_INVALID, "%s: the client certificate %s", pem->label,
               why);
  return false;
}

/* In a bundle old CAs may linger; but one must be good for something. */
static bool has_ca_in_force(const el_pem *pem, el_error *err) {
  STACK_OF(X509) *list = el_pem_certificates(pem, err);
  char why[EL_CERTIFICATE_WORDS];
  bool out = true;
  if (list == NULL) return false;
  for (int i = 0; out && i < sk_X509_num(list); i++) {
    out = el_certificate_is_out(sk_X509_value(list, i), why);
  }
  sk_X509_pop_free(list, X509_free);
  if (out) {
    el_error_set(err, EL_INVALID, "%s: the CA certificate %s", pem->label, why);
  }
  return !out;
}

static bool check(const el_pem pems[], el_error *err) {
  SSL_CTX *ctx = make_context(pems, err);
  bool ok = ctx != NULL && is_in_force(ctx, &pems[EL_TLS_CERT], err) &&
            has_ca_in_force(&pems[EL_TLS_CA], err);
  SSL_CTX_free(ctx);
  return ok;
}

/* ---- life ---- */

/* Where the distributions keep the CAs. Found here, not by gRPC, which says
 * nothing if there are none, and has a stale list of its own. */
static const char *system_cas(void) {
  static const char *const places[] = {
      "/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine, Arch */
      "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
      "/etc/ssl/ca-bundle.pem",             /* SUSE */
      "/etc/ssl/cert.pem",
  };
  const char *file = secure_getenv("SSL_CERT_FILE");
  if (file != NULL && *file != '\0') return file;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (access(places[i], R_OK) == 0) return places[i];
  }
  return NULL;
}

static bool load_cas(el_tls *tls, const el_tls_options *options,
                     el_error *err) {
  el_pem *pem = &tls->pems[EL_TLS_CA];
  const char *file;
  tls->own_cas = options->cacert != NULL || options->cacert_pem != NULL;
  if (tls->own_cas) {
    return el_pem_init(pem, "cacert", options->cacert, options->cacert_pem,
                       err);
  }
  file = system_cas();
  if (file == NULL) {
    el_error_set(err, EL_INVALID,
                 "this system has no file of CAs; say with cacert whom to "
                 "trust");
    return false;
  }
  return el_pem_init(pem, "the system's CA file", file, NULL, err);
}

static bool load(el_tls *tls, const el_tls_options *options, el_error *err) {
  el_pem *cert = &tls->pems[EL_TLS_CERT], *key = &tls->pems[EL_TLS_KEY];
  if (!load_cas(tls, options, err) ||
      !el_pem_init(cert, "cert", options->cert, options->cert_pem, err) ||
      !el_pem_init(key, "key", options->key, options->key_pem, err)) {
    return false;
  }
  if ((cert->text.bytes == NULL) != (key->text.bytes == NULL)) {
    bool lonely = key->text.bytes == NULL;
    el_error_set(err, EL_INVALID, "%s is given without a %s: give both or none",
                 lonely ? cert->label : key->label, lonely ? "key" : "cert");
    return false;
  }
  if (options->server_name != NULL) {
    tls->server_name = strdup(options->server_name);
    if (tls->server_name == NULL) {
      el_error_set(err, EL_NOMEM, "no memory for TLS");
      return false;
    }
  }
  return check(tls->pems, err);
}

el_tls *el_tls_new(const el_tls_options *options, el_error *err) {
  el_tls *tls = calloc(1, sizeof *tls);
  if (tls == NULL) {
    el_error_set(err, EL_NOMEM, "no memory for TLS");
    return NULL;
  }
  atomic_init(&tls->refs, 1);
  pthread_mutex_init(&tls->mu, NULL);
  if (!load(tls, options, err)) {
    el_tls_unref(tls);
    return NULL;
  }
  return tls;
}

el_tls *el_tls_ref(el_tls *tls) {
  atomic_fetch_add_explicit(&tls->refs, 1, memory_order_relaxed);
  return tls;
}

void el_tls_unref(el_tls *tls) {
  if (atomic_fetch_sub_explicit(&tls->refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  for (int i = 0; i < EL_TLS_PEMS; i++) {
    el_pem_destroy(&tls->pems[i]);
  }
  pthread_mutex_destroy(&tls->mu);
  free(tls->server_name);
  free(tls);
}

/* ---- reloading ---- */

static bool have_files_changed(const el_tls *tls) {
  bool changed = false;
  for (int i = 0; i < EL_TLS_PEMS; i++) {
    changed = changed || el_pem_has_changed(&tls->pems[i]);
  }
  return changed;
}

static bool is_same_text(const el_pem_text *a, const el_pem_text *b) {
  return a->bytes == NULL ||
         (a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0);
}

/* True if one of them has other contents than before. */
static bool take_over(el_tls *tls, el_pem fresh[]) {
  bool is_new = false;
  pthread_mutex_lock(&tls->mu);
  for (int i = 0; i < EL_TLS_PEMS; i++) {
    el_pem_text old = tls->pems[i].text;
    is_new = is_new || !is_same_text(&old, &fresh[i].text);
    tls->pems[i].text = fresh[i].text;
    fresh[i].text = old;
  }
  pthread_mutex_unlock(&tls->mu);
  return is_new;
}

bool el_tls_reload(el_tls *tls) {
  el_pem fresh[EL_TLS_PEMS];
  el_error ignored;
  bool ok = true;
  if (!have_files_changed(tls)) return false;
  /* Labels and file names are borrowed; only the texts are new. */
  for (int i = 0; i < EL_TLS_PEMS; i++) {
    fresh[i] = tls->pems[i];
    ok = el_pem_reread(&fresh[i].text, &tls->pems[i], &ignored) && ok;
  }
  ok = ok && check(fresh, &ignored) && take_over(tls, fresh);
  for (int i = 0; i < EL_TLS_PEMS; i++) {
    el_pem_wipe(&fresh[i].text);
  }
  return ok;
}

/* ---- for gRPC ---- */

el_tls_texts el_tls_get_texts(const el_tls *tls) {
  return (el_tls_texts){.cas = tls->pems[EL_TLS_CA].text.bytes,
                        .cert = tls->pems[EL_TLS_CERT].text.bytes,
                        .key = tls->pems[EL_TLS_KEY].text.bytes};
}

const char *el_tls_server_name(const el_tls *tls) { return tls->server_name; }
