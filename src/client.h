/* L3 client: one connection to one etcd cluster, with its I/O thread, its
 * session and its locks. The door through which Lua threads come in.
 */
#ifndef ETCDLOCK_CLIENT_H
#define ETCDLOCK_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "wake_server.h"

typedef struct el_client el_client;

enum { EL_ENDPOINTS_MAX = 32 };

/* Strings are borrowed for the call; NULL: not given. */
typedef struct el_client_options {
  const char *const *endpoints;    /* as endpoint.h takes them */
  size_t n_endpoints;              /* 1 to EL_ENDPOINTS_MAX */
  bool tls_default;                /* for endpoints that don't say */
  int64_t ttl_ms;                  /* of the lease */
  const char *user, *password;     /* authenticate as this user, ... */
  const char *token;               /* ... or carry this, renewed elsewhere */
  bool allow_plaintext_auth;       /* a password over an open line */
  const char *cacert, *cert, *key; /* see tls.h */
  const char *cacert_pem, *cert_pem, *key_pem;
  const char *server_name;
} el_client_options;

/* What a client has done so far, and has now. */
typedef struct el_stats {
  /* requests sent to etcd, one round trip each */
  int64_t enqueues, tries, looks, deletes, probes;
  int64_t keepalives, grants, revokes, watches, calls;
  /* what came of them */
  int64_t acquired, lost, failed_attempts;
  /* now */
  int64_t held, waiting;
} el_stats;

/* Starts the I/O thread; nothing is sent yet. NULL and |err| (invalid, nomem)
 * if that can't be. The caller owns one reference. @thread lua */
el_client *el_client_new(const el_client_options *options, el_error *err);

/* @thread any */
el_client *el_client_ref(el_client *cl);

/* Closing must come before the last one goes. @thread any */
void el_client_unref(el_client *cl);

/* Releases everything, revokes the lease, stops and joins the I/O thread:
 * within |budget_ms| and a moment, whether or not etcd answers (what it didn't
 * hear of ends with the lease). Idempotent; does nothing in a forked child.
 * @thread lua */
void el_client_close(el_client *cl, int64_t budget_ms);

/* Can |cl| be used by this process? If not, |err| says closed or forked.
 * @thread lua */
bool el_client_is_usable(const el_client *cl, el_error *err);

/* Does this process differ from the one that made |cl|? @thread lua */
bool el_client_is_forked(const el_client *cl);

/* @thread lua */
void el_client_stats(const el_client *cl, el_stats *stats);

/* Where completions are pushed for an event loop; NULL and |err| if there is no
 * descriptor to be had, or the client was closed before it was asked for. Lives
 * as long as the client, its descriptor until that is closed. @thread lua */
el_wake *el_client_wake(el_client *cl, el_error *err);

/* Has number 0, which is no wait's, pushed there |ms| milliseconds from now,
 * unless one is due earlier: then that comes instead. False if the client is
 * closed. @thread lua */
bool el_client_alarm(el_client *cl, int64_t ms);

/* The same for a host that waits on connections; lives until the client is
 * closed. @thread lua */
el_wake_server *el_client_wake_server(el_client *cl, el_error *err);

/* What that server takes from, NULL if there was none. Lives as long as the
 * client. @thread lua */
el_wake *el_client_served_wake(el_client *cl);

/* The session's lease, 0 while there is none. @thread lua */
int64_t el_client_lease(const el_client *cl);

/* For how many milliseconds the session's lease is known to live: since the
 * last answered renewal; 0 if it isn't. @thread lua */
int64_t el_client_alive_ms(const el_client *cl);

#endif
