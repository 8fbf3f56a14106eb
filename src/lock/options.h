/* options: the options of connect, checked and copied for the I/O thread. */
#ifndef ETCDLOCK_LOCK_OPTIONS_H
#define ETCDLOCK_LOCK_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/endpoint.h"
#include "lock/local_queue.h"
#include "tls/tls.h"

enum { EL_ENDPOINTS_MAX = 32 };

/* el_plain_options are the options that need no check in C. */
typedef struct el_plain_options {
  int64_t ttl_ms; /* TTL of the lease, without the lock delay */
  /* how long locks stay taken after the TTL if the client crashes; 0: not at all */
  int64_t lock_delay_ms;
  el_handoff_limits handoff; /* the handoff budget */
  bool fail_fast;            /* calls fail at once while etcd is unreachable */
  bool wants_events; /* record all events, not only leaked and lost locks */
} el_plain_options;

/* el_connect_options are the options as Lua passes them. Strings are borrowed for the call; NULL:
 * not given. */
typedef struct el_connect_options {
  const char *const *endpoints; /* URLs or HOST:PORT, see net/endpoint.h */
  size_t n_endpoints;           /* 1 to EL_ENDPOINTS_MAX */
  bool tls_default;             /* use TLS for endpoints without a scheme */
  const char *user, *password;  /* authenticate as this user */
  const char *token;            /* or use this token, which is never renewed */
  bool allow_plaintext_auth;    /* send a password or token without TLS */
  el_tls_options tls;
  el_plain_options plain;
} el_connect_options;

/* el_options is the checked copy of the options. The I/O thread takes |user|, |password| and |tls|,
 * and sets them to NULL. */
typedef struct el_options {
  char *user, *password, *token; /* NULL: not given */
  el_tls *tls; /* NULL: neither |tls_default| nor an endpoint asks for TLS */
  el_plain_options plain;
  size_t n; /* number of endpoints */
  el_endpoint endpoints[EL_ENDPOINTS_MAX];
} el_options;

/* el_options_new checks and copies |given|. It returns NULL and |err| if an endpoint, a file of TLS
 * or the token is wrong, or a password or token would be sent in plain text although
 * |allow_plaintext_auth| is false (invalid), or if there is no memory (nomem). @thread lua */
el_options *el_options_new(const el_connect_options *given, el_error *err);

/* el_options_free overwrites the secrets with zeros and frees |options|. @thread any */
void el_options_free(el_options *options);

#endif
