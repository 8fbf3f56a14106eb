/* pem: reads and parses certificates and keys, and formats certificates. */
#include "tls/pem.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* The size limit of a file. For comparison: the bundle of all public CAs has 220 kB. */
enum { FILE_BYTES_MAX = 4 << 20 };

/* Fills |err| with the message "LABEL PROBLEM". Returns false. */
static bool reject(el_error *err, const el_pem *pem, const char *problem) {
  el_error_set(err, EL_INVALID, "%s %s", pem->label, problem);
  return false;
}

static bool set_no_memory(el_error *err) {
  el_error_set(err, EL_NOMEM, "no memory for certificates");
  return false;
}

void el_pem_wipe(el_pem_text *text) {
  if (text->bytes == NULL) return;
  explicit_bzero(text->bytes, text->len);
  free(text->bytes);
  text->bytes = NULL;
}

/* ---- reading ---- */

static bool read_all(el_pem_text *to, int fd) {
  size_t n_read = 0;
  while (n_read < to->len) {
    ssize_t n = read(fd, to->bytes + n_read, to->len - n_read);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    n_read += (size_t)n;
  }
  return n_read == to->len;
}

/* Reads the file that is open as |fd|. It calls fstat first: if the file changes before it is read,
 * it differs from file_stat, and the next el_pem_has_changed finds the change. */
static bool read_open_file(el_pem_text *to, const el_pem *pem, int fd,
                           el_error *err) {
  if (fstat(fd, &to->file_stat) != 0 || !S_ISREG(to->file_stat.st_mode)) {
    return reject(err, pem, "is not a regular file");
  }
  if (to->file_stat.st_size > FILE_BYTES_MAX) {
    return reject(err, pem, "is too large for certificates");
  }
  to->len = (size_t)to->file_stat.st_size;
  to->bytes = calloc(1, to->len + 1);
  if (to->bytes == NULL) return set_no_memory(err);
  if (!read_all(to, fd)) {
    return reject(err, pem, "cannot be read completely");
  }
  if (strlen(to->bytes) != to->len) {
    return reject(err, pem, "is not PEM, but binary (DER?)");
  }
  return true;
}

static bool read_file(el_pem_text *to, const el_pem *pem, el_error *err) {
  /* O_NONBLOCK: if the file is a pipe, open must not wait for a writer. */
  int fd = open(pem->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  bool ok;
  if (fd < 0) {
    el_error_set(err, EL_INVALID, "%s cannot be read: %s", pem->label,
                 el_errno_text(errno));
    return false;
  }
  ok = read_open_file(to, pem, fd, err);
  close(fd);
  return ok;
}

static bool copy_text(el_pem_text *to, const char *text, el_error *err) {
  to->bytes = strdup(text);
  if (to->bytes == NULL) return set_no_memory(err);
  to->len = strlen(text);
  return true;
}

bool el_pem_reread(el_pem_text *to, const el_pem *pem, el_error *err) {
  bool ok = true;
  memset(to, 0, sizeof *to);
  if (pem->file != NULL) {
    ok = read_file(to, pem, err);
  } else if (pem->text.bytes != NULL) {
    ok = copy_text(to, pem->text.bytes, err);
  }
  if (!ok) {
    el_pem_wipe(to);
  }
  return ok;
}

bool el_pem_has_changed(const el_pem *pem) {
  const struct stat *old = &pem->text.file_stat;
  struct stat now;
  if (pem->file == NULL || stat(pem->file, &now) != 0) return false;
  return now.st_mtim.tv_sec != old->st_mtim.tv_sec ||
         now.st_mtim.tv_nsec != old->st_mtim.tv_nsec ||
         now.st_size != old->st_size || now.st_ino != old->st_ino ||
         now.st_dev != old->st_dev;
}

/* ---- init and destroy ---- */

static bool init_file(el_pem *pem, const char *option, const char *file,
                      el_error *err) {
  snprintf(pem->label, sizeof pem->label, "%s \"%.90s\"", option, file);
  pem->file = strdup(file);
  if (pem->file == NULL) return set_no_memory(err);
  return read_file(&pem->text, pem, err);
}

bool el_pem_init(el_pem *pem, const char *option, const char *file,
                 const char *text, el_error *err) {
  memset(pem, 0, sizeof *pem);
  if (file != NULL && text != NULL) {
    el_error_set(err, EL_INVALID,
                 "%s and %s_pem exclude each other: give one of them", option,
                 option);
    return false;
  }
  if (file != NULL) return init_file(pem, option, file, err);
  snprintf(pem->label, sizeof pem->label, "%s_pem", option);
  return text == NULL || copy_text(&pem->text, text, err);
}

void el_pem_destroy(el_pem *pem) {
  el_pem_wipe(&pem->text);
  free(pem->file);
  pem->file = NULL;
}

/* ---- parsing ---- */

/* OpenSSL calls this function for the password of an encrypted key. By default OpenSSL would ask
 * for the password at the terminal. */
static int refuse_password(char *to, int size, int is_writing,
                           void *is_encrypted) {
  (void)to, (void)size, (void)is_writing;
  *(bool *)is_encrypted = true;
  return -1;
}

/* Returns the reason of the last error if it comes from OpenSSL's PEM reader; otherwise 0. Also
 * removes the errors since ERR_set_mark from the thread's error queue, because other users of
 * OpenSSL on this thread do not expect them there. */
static int take_pem_reason(void) {
  unsigned long code = ERR_peek_last_error();
  ERR_pop_to_mark();
  return ERR_GET_LIB(code) == ERR_LIB_PEM ? ERR_GET_REASON(code) : 0;
}

static bool contains(const el_pem *pem, const char *text) {
  return strstr(pem->text.bytes, text) != NULL;
}

static void reject_certificates(const el_pem *pem, int reason, el_error *err) {
  if (reason != PEM_R_NO_START_LINE) {
    reject(err, pem, "contains a damaged certificate");
  } else if (contains(pem, "PRIVATE KEY-----")) {
    reject(err, pem, "holds a private key, but no certificate");
  } else {
    reject(err, pem, "holds no certificate in PEM form");
  }
}

STACK_OF(X509) * el_pem_certificates(const el_pem *pem, el_error *err) {
  STACK_OF(X509) *list = sk_X509_new_null();
  BIO *bio = BIO_new_mem_buf(pem->text.bytes, -1);
  bool is_encrypted = false;
  int reason;
  X509 *cert;
  if (list == NULL || bio == NULL) {
    sk_X509_free(list);
    BIO_free(bio);
    set_no_memory(err);
    return NULL;
  }
  ERR_set_mark();
  while ((cert = PEM_read_bio_X509_AUX(bio, NULL, refuse_password,
                                       &is_encrypted)) != NULL) {
    sk_X509_push(list, cert);
  }
  reason = take_pem_reason();
  BIO_free(bio);
  /* After the last certificate OpenSSL reports "no start line", so this reason is a success. */
  if (reason != PEM_R_NO_START_LINE || sk_X509_num(list) == 0) {
    reject_certificates(pem, reason, err);
    sk_X509_pop_free(list, X509_free);
    return NULL;
  }
  return list;
}

EVP_PKEY *el_pem_key(const el_pem *pem, el_error *err) {
  BIO *bio = BIO_new_mem_buf(pem->text.bytes, -1);
  bool is_encrypted = false;
  EVP_PKEY *key;
  if (bio == NULL) {
    set_no_memory(err);
    return NULL;
  }
  ERR_set_mark();
  key = PEM_read_bio_PrivateKey(bio, NULL, refuse_password, &is_encrypted);
  take_pem_reason();
  BIO_free(bio);
  if (key != NULL) return key;
  if (is_encrypted) {
    reject(err, pem, "is encrypted: decrypt it with openssl pkey");
  } else if (contains(pem, "PRIVATE KEY-----")) {
    reject(err, pem, "contains a damaged private key");
  } else if (contains(pem, "-----BEGIN CERTIFICATE-----")) {
    reject(err, pem, "holds a certificate, but no private key");
  } else {
    reject(err, pem, "holds no private key in PEM form");
  }
  return NULL;
}

/* ---- certificates in messages ---- */

/* Moves the text in |bio| to |to|, and frees |bio|. If |bio| is NULL, the text is empty. */
static void take_text(BIO *bio, char *to) {
  int len = bio != NULL ? BIO_read(bio, to, EL_CERTIFICATE_TEXT_SIZE - 1) : 0;
  to[len > 0 ? len : 0] = '\0';
  if (BIO_pending(bio) > 0) memcpy(to + EL_CERTIFICATE_TEXT_SIZE - 4, "...", 4);
  BIO_free(bio);
}

static void format_date(const char *prefix, const ASN1_TIME *date, char *to) {
  BIO *bio = BIO_new(BIO_s_mem());
  if (bio != NULL) {
    BIO_puts(bio, prefix);
    ASN1_TIME_print_ex(bio, date, ASN1_DTFLGS_ISO8601);
  }
  take_text(bio, to);
}

bool el_certificate_is_outside_validity(const X509 *cert, char *to) {
  const ASN1_TIME *first = X509_get0_notBefore(cert);
  const ASN1_TIME *last = X509_get0_notAfter(cert);
  if (X509_cmp_current_time(last) < 0) {
    format_date("expired on ", last, to);
    return true;
  }
  if (X509_cmp_current_time(first) > 0) {
    format_date("is not valid before ", first, to);
    return true;
  }
  return false;
}

void el_certificate_format_name(const X509_NAME *name, char *to) {
  BIO *bio = BIO_new(BIO_s_mem());
  if (bio != NULL) {
    X509_NAME_print_ex(bio, name, 0, XN_FLAG_ONELINE);
  }
  take_text(bio, to);
}

/* Returns the subject alternative names. Returns NULL if there are none or they are malformed.
 * Leaves no error in OpenSSL's error queue. */
static GENERAL_NAMES *alternative_names(const X509 *cert) {
  GENERAL_NAMES *names;
  ERR_set_mark();
  names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
  ERR_pop_to_mark();
  return names;
}

void el_certificate_format_hosts(const X509 *cert, char *to) {
  GENERAL_NAMES *names = alternative_names(cert);
  BIO *bio;
  if (names == NULL) {
    el_certificate_format_name(X509_get_subject_name(cert), to);
    return;
  }
  bio = BIO_new(BIO_s_mem());
  for (int i = 0; bio != NULL && i < sk_GENERAL_NAME_num(names); i++) {
    BIO_puts(bio, i == 0 ? "" : ", ");
    GENERAL_NAME_print(bio, sk_GENERAL_NAME_value(names, i));
  }
  take_text(bio, to);
  GENERAL_NAMES_free(names);
}
