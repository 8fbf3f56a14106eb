/* settings: what connect was told, checked, on its way to the I/O thread. */
#include "lock/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "net/call.h"

void el_settings_free(el_settings *settings) {
  el_secret_free(settings->user);
  el_secret_free(settings->password);
  el_secret_free(settings->token);
  if (settings->tls != NULL) {
    el_tls_unref(settings->tls);
  }
  free(settings);
}

/* The message tells the position of the illegal byte, and nothing of the token. */
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

static bool check_auth(const el_settings *settings,
                       const el_connect_options *options, el_error *err) {
  if ((options->password == NULL && options->token == NULL) ||
      options->allow_plaintext_auth) {
    return true;
  }
  for (size_t i = 0; i < settings->n; i++) {
    if (el_endpoint_transport(&settings->endpoints[i]) ==
        EL_TRANSPORT_PLAINTEXT) {
      el_error_set(err, EL_INVALID,
                   "a password or token would pass in plain text to %s; use "
                   "https, or say allow_plaintext_auth = true",
                   settings->endpoints[i].address);
      return false;
    }
  }
  return true;
}

static bool load_tls(el_settings *settings, const el_connect_options *options,
                     el_error *err) {
  bool wanted = options->tls_default;
  for (size_t i = 0; i < settings->n; i++) {
    wanted = wanted || settings->endpoints[i].is_tls;
  }
  if (!wanted) return true;
  settings->tls = el_tls_new(&options->tls, err);
  return settings->tls != NULL;
}

el_settings *el_settings_new(const el_connect_options *options, el_error *err) {
  el_settings *settings = calloc(1, sizeof *settings);
  if (settings == NULL || !el_secret_copy(&settings->user, options->user) ||
      !el_secret_copy(&settings->password, options->password) ||
      !el_secret_copy(&settings->token, options->token)) {
    el_error_set(err, EL_NOMEM, "no memory for a client");
    goto fail;
  }
  settings->plain = options->plain;
  settings->n = options->n_endpoints;
  for (size_t i = 0; i < settings->n; i++) {
    if (!el_endpoint_parse(&settings->endpoints[i], options->endpoints[i],
                           options->tls_default, err)) {
      goto fail;
    }
  }
  if (!check_token(options->token, err) ||
      !check_auth(settings, options, err) ||
      !load_tls(settings, options, err)) {
    goto fail;
  }
  return settings;
fail:
  if (settings != NULL) el_settings_free(settings);
  return NULL;
}
