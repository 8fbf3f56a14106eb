/* settings: what connect was told, checked, on its way to the I/O thread. */
#ifndef ETCDLOCK_LOCK_SETTINGS_H
#define ETCDLOCK_LOCK_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/endpoint.h"
#include "rules/turn.h"
#include "tls/tls.h"

enum { EL_ENDPOINTS_MAX = 32 };

/* What needs no check of its own here and is handed on as it is. */
typedef struct el_plain_settings {
  int64_t ttl_ms;         /* of the lease */
  el_turn_limits handoff; /* among the owners of the client */
  bool fail_fast;         /* nobody waits for an etcd that is away */
  bool wants_events;      /* somebody reads of all that happens */
} el_plain_settings;

/* What connect is told. Strings are borrowed for the call; NULL: not given. */
typedef struct el_connect_options {
  const char *const *endpoints; /* as endpoint.h takes them */
  size_t n_endpoints;           /* 1 to EL_ENDPOINTS_MAX */
  bool tls_default;             /* for endpoints that don't say */
  const char *user, *password;  /* authenticate as this user, ... */
  const char *token;            /* ... or carry this, renewed elsewhere */
  bool allow_plaintext_auth;    /* a password over an open line */
  el_tls_options tls;
  el_plain_settings plain;
} el_connect_options;

typedef struct el_settings {
  char *user, *password, *token;
  el_tls *tls; /* NULL: no endpoint wants it */
  el_plain_settings plain;
  size_t n;
  el_endpoint endpoints[EL_ENDPOINTS_MAX];
} el_settings;

/* Copies and checks |options|. NULL and |err| (invalid, nomem) if an endpoint
 * can't be read, a certificate can't be used, or a secret would pass over an
 * open line. @thread lua */
el_settings *el_settings_new(const el_connect_options *options, el_error *err);

/* Wipes and frees. @thread any */
void el_settings_free(el_settings *settings);

#endif
