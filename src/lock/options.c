/* options: the options of connect, checked and copied for the I/O thread. */
#include "lock/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "net/call.h"

void el_options_free(el_options *options) {
  el_secret_free(options->user);
  el_secret_free(options->password);
  el_secret_free(options->token);
  if (options->tls != NULL) {
    el_tls_unref(options->tls);
  }
  free(options);
}

/* The token is a secret: the message shows no part of it. */
static bool check_token(const char *token, el_error *err) {
  size_t at = token != NULL ? el_header_illegal_at(token) : 0;
  if (at == 0) return true;
  el_error_set(err, EL_INVALID,
               "token (not shown) has an illegal character at position %zu of "
               "%zu, wanted printable ASCII with no space at either end%s",
               at, strlen(token),
               strpbrk(token, "\r\n") != NULL ? "; remove the line break" : "");
  return false;
}

static bool check_auth(const el_options *options,
                       const el_connect_options *given, el_error *err) {
  if ((given->password == NULL && given->token == NULL) ||
      given->allow_plaintext_auth) {
    return true;
  }
  for (size_t i = 0; i < options->n; i++) {
    if (el_endpoint_transport(&options->endpoints[i]) ==
        EL_TRANSPORT_PLAINTEXT) {
      el_error_set(err, EL_INVALID,
                   "a password or token would be sent in plain text to %s; use "
                   "https, or set allow_plaintext_auth = true",
                   options->endpoints[i].address);
      return false;
    }
  }
  return true;
}

static bool load_tls(el_options *options, const el_connect_options *given,
                     el_error *err) {
  bool is_wanted = given->tls_default;
  for (size_t i = 0; i < options->n; i++) {
    is_wanted = is_wanted || options->endpoints[i].is_tls;
  }
  if (!is_wanted) return true;
  options->tls = el_tls_new(&given->tls, err);
  return options->tls != NULL;
}

el_options *el_options_new(const el_connect_options *given, el_error *err) {
  el_options *options = calloc(1, sizeof *options);
  if (options == NULL || !el_secret_copy(&options->user, given->user) ||
      !el_secret_copy(&options->password, given->password) ||
      !el_secret_copy(&options->token, given->token)) {
    el_error_set(err, EL_NOMEM, "no memory for a client");
    goto fail;
  }
  options->plain = given->plain;
  options->n = given->n_endpoints;
  for (size_t i = 0; i < options->n; i++) {
    if (!el_endpoint_parse(&options->endpoints[i], given->endpoints[i],
                           given->tls_default, err)) {
      goto fail;
    }
  }
  if (!check_token(given->token, err) || !check_auth(options, given, err) ||
      !load_tls(options, given, err)) {
    goto fail;
  }
  return options;
fail:
  if (options != NULL) el_options_free(options);
  return NULL;
}
