/* pem: a file or a text with certificates or a key in it. */
#include "tls/pem.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/plain_locale.h"

/* The bundle of all public CAs is 220 kB. */
enum { MAX_BYTES = 4 << 20 };

static bool refuse(el_error *err, const el_pem *pem, const char *why) {
  el_error_set(err, EL_INVALID, "%s %s", pem->label, why);
  return false;
}

static bool no_memory(el_error *err) {
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
  size_t got = 0;
  while (got < to->len) {
    ssize_t n = read(fd, to->bytes + got, to->len - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += (size_t)n;
  }
  return got == to->len;
}

/* The stamp is taken before the bytes: a change in between is seen next time,
 * as a change. */
static bool read_open_file(el_pem_text *to, const el_pem *pem, int fd,
                           el_error *err) {
  if (fstat(fd, &to->stamp) != 0 || !S_ISREG(to->stamp.st_mode)) {
    return refuse(err, pem, "is not a file");
  }
  if (to->stamp.st_size > MAX_BYTES) {
    return refuse(err, pem, "is too large for certificates");
  }
  to->len = (size_t)to->stamp.st_size;
  to->bytes = calloc(1, to->len + 1);
  if (to->bytes == NULL) return no_memory(err);
  if (!read_all(to, fd)) {
    return refuse(err, pem, "can't be read to its end");
  }
  if (strlen(to->bytes) != to->len) {
    return refuse(err, pem, "is not PEM, but binary (DER?)");
  }
  return true;
}

static bool read_file(el_pem_text *to, const el_pem *pem, el_error *err) {
  /* Should it be a pipe, don't wait for its other end. */
  int fd = open(pem->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  bool ok;
  if (fd < 0) {
    el_error_set(err, EL_INVALID, "%s can't be read: %s", pem->label,
                 el_errno_text(errno));
    return false;
  }
  ok = read_open_file(to, pem, fd, err);
  close(fd);
  return ok;
}

static bool copy_text(el_pem_text *to, const char *text, el_error *err) {
  to->bytes = strdup(text);
  if (to->bytes == NULL) return no_memory(err);
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
  const struct stat *old = &pem->text.stamp;
  struct stat now;
  if (pem->file == NULL || stat(pem->file, &now) != 0) return false;
  return now.st_mtim.tv_sec != old->st_mtim.tv_sec ||
         now.st_mtim.tv_nsec != old->st_mtim.tv_nsec ||
         now.st_size != old->st_size || now.st_ino != old->st_ino ||
         now.st_dev != old->st_dev;
}

/* ---- life ---- */

static bool init_file(el_pem *pem, const char *option, const char *file,
                      el_error *err) {
  snprintf(pem->label, sizeof pem->label, "%s \"%.90s\"", option, file);
  pem->file = strdup(file);
  if (pem->file == NULL) return no_memory(err);
  return read_file(&pem->text, pem, err);
}

bool el_pem_init(el_pem *pem, const char *option, const char *file,
                 const char *text, el_error *err) {
  memset(pem, 0, sizeof *pem);
  if (file != NULL && text != NULL) {
    el_error_set(err, EL_INVALID,
                 "%s and %s_pem say the same thing: give one of them", option,
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

/* OpenSSL would ask at the terminal. */
static int no_password(char *to, int size, int writing, void *asked) {
  (void)to, (void)size, (void)writing;
  *(bool *)asked = true;
  return -1;
}

/* What the last failure of OpenSSL was, which is then forgotten: other users
 * of OpenSSL on this thread don't expect it in their queue. */
static int take_reason(void) {
  unsigned long code = ERR_peek_last_error();
  ERR_pop_to_mark();
  return ERR_GET_LIB(code) == ERR_LIB_PEM ? ERR_GET_REASON(code) : 0;
}

static bool has(const el_pem *pem, const char *text) {
  return strstr(pem->text.bytes, text) != NULL;
}

static void refuse_certificates(const el_pem *pem, int reason, el_error *err) {
  if (reason != PEM_R_NO_START_LINE) {
    refuse(err, pem, "has a damaged certificate in it");
  } else if (has(pem, "PRIVATE KEY-----")) {
    refuse(err, pem, "holds a private key, but no certificate");
  } else {
    refuse(err, pem, "holds no certificate in PEM form");
  }
}

STACK_OF(X509) * el_pem_certificates(const el_pem *pem, el_error *err) {
  STACK_OF(X509) *list = sk_X509_new_null();
  BIO *bio = BIO_new_mem_buf(pem->text.bytes, -1);
  bool asked = false;
  int reason;
  X509 *cert;
  if (list == NULL || bio == NULL) {
    sk_X509_free(list);
    BIO_free(bio);
    no_memory(err);
    return NULL;
  }
  ERR_set_mark();
  while ((cert = PEM_read_bio_X509_AUX(bio, NULL, no_password, &asked)) !=
         NULL) {
    sk_X509_push(list, cert);
  }
  reason = take_reason();
  BIO_free(bio);
  /* The only good end is that there is no more. */
  if (reason != PEM_R_NO_START_LINE || sk_X509_num(list) == 0) {
    refuse_certificates(pem, reason, err);
    sk_X509_pop_free(list, X509_free);
    return NULL;
  }
  return list;
}

EVP_PKEY *el_pem_key(const el_pem *pem, el_error *err) {
  BIO *bio = BIO_new_mem_buf(pem->text.bytes, -1);
  bool asked = false;
  EVP_PKEY *key;
  if (bio == NULL) {
    no_memory(err);
    return NULL;
  }
  ERR_set_mark();
  key = PEM_read_bio_PrivateKey(bio, NULL, no_password, &asked);
  take_reason();
  BIO_free(bio);
  if (key != NULL) return key;
  if (asked) {
    refuse(err, pem,
           "is encrypted, and nobody is there to give the password; decrypt "
           "it with: openssl pkey");
  } else if (has(pem, "PRIVATE KEY-----")) {
    refuse(err, pem, "has a damaged private key in it");
  } else if (has(pem, "-----BEGIN CERTIFICATE-----")) {
    refuse(err, pem, "holds a certificate, but no private key");
  } else {
    refuse(err, pem, "holds no private key in PEM form");
  }
  return NULL;
}
