/* certificate: what a certificate says, in words for a message. */
#include "tls/certificate.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

/* Moves what was printed to |bio| into |to|. NULL prints nothing. */
static void take_words(BIO *bio, char *to) {
  int len = bio != NULL ? BIO_read(bio, to, EL_CERTIFICATE_WORDS) : 0;
  to[len > 0 ? len : 0] = '\0';
  if (len == EL_CERTIFICATE_WORDS) {
    memcpy(to + EL_CERTIFICATE_WORDS - 4, "...", 4);
  }
  BIO_free(bio);
}

static void put_date(const char *before, const ASN1_TIME *date, char *to) {
  BIO *bio = BIO_new(BIO_s_mem());
  if (bio != NULL) {
    BIO_puts(bio, before);
    ASN1_TIME_print_ex(bio, date, ASN1_DTFLGS_ISO8601);
  }
  take_words(bio, to);
}

bool el_certificate_is_out(const X509 *cert, char *to) {
  const ASN1_TIME *first = X509_get0_notBefore(cert);
  const ASN1_TIME *last = X509_get0_notAfter(cert);
  if (X509_cmp_current_time(last) < 0) {
    put_date("expired on ", last, to);
    return true;
  }
  if (X509_cmp_current_time(first) > 0) {
    put_date("is not valid before ", first, to);
    return true;
  }
  return false;
}

void el_certificate_name(const X509_NAME *name, char *to) {
  BIO *bio = BIO_new(BIO_s_mem());
  if (bio != NULL) {
    X509_NAME_print_ex(bio, name, 0, XN_FLAG_ONELINE);
  }
  take_words(bio, to);
}

/* NULL: it has none, or they can't be read, of which OpenSSL's queue of errors says
 * nothing afterwards. */
static GENERAL_NAMES *names_of(const X509 *cert) {
  GENERAL_NAMES *names;
  ERR_set_mark();
  names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
  ERR_pop_to_mark();
  return names;
}

void el_certificate_hosts(const X509 *cert, char *to) {
  GENERAL_NAMES *names = names_of(cert);
  BIO *bio;
  if (names == NULL) {
    el_certificate_name(X509_get_subject_name(cert), to);
    return;
  }
  bio = BIO_new(BIO_s_mem());
  for (int i = 0; bio != NULL && i < sk_GENERAL_NAME_num(names); i++) {
    BIO_puts(bio, i == 0 ? "" : ", ");
    GENERAL_NAME_print(bio, sk_GENERAL_NAME_value(names, i));
  }
  take_words(bio, to);
  GENERAL_NAMES_free(names);
}
