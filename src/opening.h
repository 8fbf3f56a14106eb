/* L3 opening: what connect was told, checked, on its way to the I/O thread. */
#ifndef ETCDLOCK_OPENING_H
#define ETCDLOCK_OPENING_H

#include "client.h"
#include "endpoint.h"
#include "loop.h"
#include "tls.h"

typedef struct el_opening {
  el_command command; /* first; run is the client's affair */
  el_client *cl;
  char *user, *password, *token;
  el_tls *tls; /* NULL: no endpoint wants it */
  size_t n;
  el_endpoint endpoints[EL_ENDPOINTS_MAX];
} el_opening;

/* Copies and checks |options|. NULL and |err| (invalid, nomem) if an endpoint
 * can't be read, a certificate can't be used, or a secret would pass over an
 * open line. @thread lua */
el_opening *el_opening_new(const el_client_options *options, el_error *err);

/* Wipes and frees. @thread any */
void el_opening_free(el_opening *open);

#endif
