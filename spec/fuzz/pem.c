/* Fuzz target pem: PEM texts, and the names and the validity in a certificate. */
#include "fuzz.h"

#include <openssl/err.h>

#include "tls/pem.h"

static void read_certificate(const X509 *cert) {
  char words[EL_CERTIFICATE_TEXT_SIZE];
  el_error err;
  el_certificate_is_outside_validity(cert, words);
  el_certificate_format_name(X509_get_subject_name(cert), words);
  el_error_set(&err, EL_INVALID, "%s", words);
  fuzz_check_line(err.text);
  el_certificate_format_hosts(cert, words);
  el_error_set(&err, EL_INVALID, "%s", words);
  fuzz_check_line(err.text);
  FUZZ_CHECK(ERR_peek_error() == 0); /* no error is left in OpenSSL's queue */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input in = {data, size};
  char *text = fuzz_text(&in);
  STACK_OF(X509) * list;
  EVP_PKEY *key;
  el_error err;
  el_pem pem;
  FUZZ_CHECK(el_pem_init(&pem, "cert", NULL, text, &err));
  list = el_pem_certificates(&pem, &err);
  if (list == NULL) fuzz_check_error(&err);
  for (int i = 0; list != NULL && i < sk_X509_num(list); i++) {
    read_certificate(sk_X509_value(list, i));
  }
  sk_X509_pop_free(list, X509_free);
  key = el_pem_key(&pem, &err);
  if (key == NULL) fuzz_check_error(&err);
  EVP_PKEY_free(key);
  FUZZ_CHECK(ERR_peek_error() == 0);
  el_pem_destroy(&pem);
  free(text);
  return 0;
}
