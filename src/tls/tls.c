/* tls: the certificates and keys of a client. */
#include "tls/tls_int.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- OpenSSL contexts ---- */

/* Fills |err| with OpenSSL's reason for rejecting valid PEM. Example: a key is too short for the
 * system's security level. Returns false. */
static bool reject(el_error *err, const el_pem *pem) {
  const char *reason = ERR_reason_error_string(ERR_peek_last_error());
  el_error_set(err, EL_INVALID, "%s is not usable: %s", pem->label,
               reason != NULL ? reason : "no reason given");
  return false;
}

static bool add_cas(SSL_CTX *ctx, const el_pem *pem, el_error *err) {
  X509_STORE *store = SSL_CTX_get_cert_store(ctx);
  STACK_OF(X509) *list = el_pem_certificates(pem, err);
  bool ok = list != NULL;
  for (int i = 0; ok && i < sk_X509_num(list); i++) {
    if (X509_STORE_add_cert(store, sk_X509_value(list, i)) != 1) {
      ok = reject(err, pem);
    }
  }
  sk_X509_pop_free(list, X509_free);
  return ok;
}

/* Adds the certificates in |pem|: the first is the client's certificate, the others are
 * intermediate CAs. */
static bool add_chain(SSL_CTX *ctx, const el_pem *pem, el_error *err) {
  STACK_OF(X509) *list = el_pem_certificates(pem, err);
  bool ok = list != NULL;
  if (ok && SSL_CTX_use_certificate(ctx, sk_X509_value(list, 0)) != 1) {
    ok = reject(err, pem);
  }
  for (int i = 1; ok && i < sk_X509_num(list); i++) {
    if (SSL_CTX_add1_chain_cert(ctx, sk_X509_value(list, i)) != 1) {
      ok = reject(err, pem);
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
    ok = reject(err, pem);
  }
  EVP_PKEY_free(key);
  return ok;
}

/* The context offers the same versions, ciphers, group and ALPN protocol as gRPC 1.51, so that a
 * diagnosis fails for the same reasons as gRPC. */
SSL_CTX *el_tls_bare_context(void) {
  static const unsigned char h2[] = {2, 'h', '2'};
  SSL_CTX *ctx;
  /* Without NO_ATEXIT, OpenSSL frees its state when the process exits. If a diagnosis or gRPC is
   * inside OpenSSL at that time, the process crashes. Only the first call in a process has an
   * effect. */
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
  /* As in gRPC, each certificate in cacert is trusted, even if it is not a root. */
  X509_STORE_set_flags(SSL_CTX_get_cert_store(ctx),
                       X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  return ctx;
}

static SSL_CTX *make_context(const el_pem pems[], el_error *err) {
  /* Must be etcdlock's first use of OpenSSL, because of NO_ATEXIT. */
  SSL_CTX *ctx = el_tls_bare_context();
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

static bool is_cert_valid_now(const SSL_CTX *ctx, const el_pem *pem,
                              el_error *err) {
  const X509 *own = SSL_CTX_get0_certificate(ctx);
  char validity[EL_CERTIFICATE_TEXT_SIZE];
  if (own == NULL || !el_certificate_is_outside_validity(own, validity)) {
    return true;
  }
  el_error_set(err, EL_INVALID, "%s: the client certificate %s", pem->label,
               validity);
  return false;
}

/* Returns whether at least one CA certificate in |pem| is valid now. The other ones may have
 * expired. */
static bool has_valid_ca(const el_pem *pem, el_error *err) {
  STACK_OF(X509) *list = el_pem_certificates(pem, err);
  char validity[EL_CERTIFICATE_TEXT_SIZE];
  bool has_valid = false;
  if (list == NULL) return false;
  for (int i = 0; !has_valid && i < sk_X509_num(list); i++) {
    has_valid =
        !el_certificate_is_outside_validity(sk_X509_value(list, i), validity);
  }
  sk_X509_pop_free(list, X509_free);
  if (!has_valid) {
    el_error_set(err, EL_INVALID, "%s: the CA certificate %s", pem->label,
                 validity);
  }
  return has_valid;
}

static bool check(const el_pem pems[], el_error *err) {
  SSL_CTX *ctx = make_context(pems, err);
  bool ok = ctx != NULL && is_cert_valid_now(ctx, &pems[EL_TLS_CERT], err) &&
            has_valid_ca(&pems[EL_TLS_CA], err);
  SSL_CTX_free(ctx);
  return ok;
}

/* ---- new, ref and unref ---- */

/* Returns the system's CA file: the environment variable SSL_CERT_FILE, or if it is not set, the
 * file of the distribution. Returns NULL if there is none. gRPC's own search is not used, because
 * it does not report a missing file, and its list of places is outdated. */
static const char *system_ca_file(void) {
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
  tls->has_own_cas = options->cacert != NULL || options->cacert_pem != NULL;
  if (tls->has_own_cas) {
    return el_pem_init(pem, "cacert", options->cacert, options->cacert_pem,
                       err);
  }
  file = system_ca_file();
  if (file == NULL) {
    el_error_set(err, EL_INVALID, "this system has no CA file: set cacert");
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
    bool is_key_missing = key->text.bytes == NULL;
    el_error_set(err, EL_INVALID, "%s is given without a %s: give both or none",
                 is_key_missing ? cert->label : key->label,
                 is_key_missing ? "key" : "cert");
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

static bool has_changed_file(const el_tls *tls) {
  bool has_changed = false;
  for (int i = 0; i < EL_TLS_PEMS; i++) {
    has_changed = has_changed || el_pem_has_changed(&tls->pems[i]);
  }
  return has_changed;
}

static bool is_same_text(const el_pem_text *a, const el_pem_text *b) {
  return a->bytes == NULL ||
         (a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0);
}

/* Exchanges the texts of |tls| and |fresh|. Returns whether any text of |tls| has changed. */
static bool swap_texts(el_tls *tls, el_pem fresh[]) {
  bool is_different = false;
  pthread_mutex_lock(&tls->mu);
  for (int i = 0; i < EL_TLS_PEMS; i++) {
    el_pem_text old = tls->pems[i].text;
    is_different = is_different || !is_same_text(&old, &fresh[i].text);
    tls->pems[i].text = fresh[i].text;
    fresh[i].text = old;
  }
  pthread_mutex_unlock(&tls->mu);
  return is_different;
}

bool el_tls_reload(el_tls *tls) {
  el_pem fresh[EL_TLS_PEMS];
  el_error ignored;
  bool ok = true;
  if (!has_changed_file(tls)) return false;
  /* |fresh| borrows the labels and file names of |tls|; only the texts are read again. */
  for (int i = 0; i < EL_TLS_PEMS; i++) {
    fresh[i] = tls->pems[i];
    ok = el_pem_reread(&fresh[i].text, &tls->pems[i], &ignored) && ok;
  }
  ok = ok && check(fresh, &ignored) && swap_texts(tls, fresh);
  for (int i = 0; i < EL_TLS_PEMS; i++) {
    el_pem_wipe(&fresh[i].text);
  }
  return ok;
}

/* ---- for messages ---- */

bool el_tls_client_name(const el_tls *tls, char *to, int size) {
  const el_pem *pem = &tls->pems[EL_TLS_CERT];
  el_error ignored;
  STACK_OF(X509) *list =
      pem->text.bytes != NULL ? el_pem_certificates(pem, &ignored) : NULL;
  int len = -1;
  if (list != NULL) {
    X509_NAME *subject = X509_get_subject_name(sk_X509_value(list, 0));
    len = X509_NAME_get_text_by_NID(subject, NID_commonName, to, size);
  }
  sk_X509_pop_free(list, X509_free);
  return len > 0;
}

/* ---- for gRPC ---- */

el_tls_texts el_tls_get_texts(const el_tls *tls) {
  return (el_tls_texts){.cas = tls->pems[EL_TLS_CA].text.bytes,
                        .cert = tls->pems[EL_TLS_CERT].text.bytes,
                        .key = tls->pems[EL_TLS_KEY].text.bytes};
}

const char *el_tls_server_name(const el_tls *tls) { return tls->server_name; }
