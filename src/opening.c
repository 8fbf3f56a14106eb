/* L3 opening: what connect was told, checked, on its way to the I/O thread. */
#include "opening.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "secret.h"

void el_opening_free(el_opening *open) {
  el_secret_free(open->user);
  el_secret_free(open->password);
  el_secret_free(open->token);
  if (open->tls != NULL) {
    el_tls_unref(open->tls);
  }
  free(open);
}

/* Does |address|, "host:port", lead to this machine? */
static bool is_loopback(const char *address) {
  char host[64];
  struct in_addr ip;
  size_t len = (size_t)(strrchr(address, ':') - address);
  if (len >= sizeof host) return false;
  memcpy(host, address, len);
  host[len] = '\0';
  return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
         (inet_pton(AF_INET, host, &ip) == 1 && ntohl(ip.s_addr) >> 24 == 127);
}

static bool is_open_line(const el_endpoint *endpoint) {
  return !endpoint->tls && !endpoint->path && !is_loopback(endpoint->address);
}

static bool check_auth(const el_opening *open, const el_client_options *options,
                       el_error *err) {
  if ((options->password == NULL && options->token == NULL) ||
      options->allow_plaintext_auth) {
    return true;
  }
  for (size_t i = 0; i < open->n; i++) {
    if (is_open_line(&open->endpoints[i])) {
      el_error_set(err, EL_INVALID,
                   "a password or token would pass in plain text to %s; use "
                   "https, or say allow_plaintext_auth = true",
                   open->endpoints[i].address);
      return false;
    }
  }
  return true;
}

static bool load_tls(el_opening *open, const el_client_options *options,
                     el_error *err) {
  el_tls_options files = {.cacert = options->cacert,
                          .cert = options->cert,
                          .key = options->key,
                          .cacert_pem = options->cacert_pem,
                          .cert_pem = options->cert_pem,
                          .key_pem = options->key_pem,
                          .server_name = options->server_name};
  bool wanted = options->tls_default;
  for (size_t i = 0; i < open->n; i++) {
    wanted = wanted || open->endpoints[i].tls;
  }
  if (!wanted) return true;
  open->tls = el_tls_new(&files, err);
  return open->tls != NULL;
}

el_opening *el_opening_new(const el_client_options *options, el_error *err) {
  el_opening *open = calloc(1, sizeof *open);
  if (open == NULL || !el_secret_copy(&open->user, options->user) ||
      !el_secret_copy(&open->password, options->password) ||
      !el_secret_copy(&open->token, options->token)) {
    el_error_set(err, EL_NOMEM, "no memory for a client");
    goto fail;
  }
  open->n = options->n_endpoints;
  for (size_t i = 0; i < open->n; i++) {
    if (!el_endpoint_parse(&open->endpoints[i], options->endpoints[i],
                           options->tls_default, err)) {
      goto fail;
    }
  }
  if (!check_auth(open, options, err) || !load_tls(open, options, err)) {
    goto fail;
  }
  return open;
fail:
  if (open != NULL) el_opening_free(open);
  return NULL;
}
