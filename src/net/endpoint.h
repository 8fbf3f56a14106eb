/* endpoint: the address of one etcd member, as etcdctl accepts it. */
#ifndef ETCDLOCK_NET_ENDPOINT_H
#define ETCDLOCK_NET_ENDPOINT_H

#include <stdbool.h>

#include "base/error.h"

enum { EL_ENDPOINT_MAX = 320 };

/* el_endpoint is one parsed address. */
typedef struct el_endpoint {
  bool is_tls;
  bool is_unix; /* a Unix socket */
  /* "host:port" or "unix:path" */
  char address[EL_ENDPOINT_MAX];
  char target[EL_ENDPOINT_MAX + 16]; /* the URI of the member for gRPC */
} el_endpoint;

/* el_transport tells whether others can read what the client sends to a member. */
typedef enum el_transport {
  EL_TRANSPORT_TLS,       /* encrypted */
  EL_TRANSPORT_LOCAL,     /* plain text that does not leave this machine */
  EL_TRANSPORT_PLAINTEXT, /* plain text on the network */
} el_transport;

/* el_endpoint_parse reads |text|, which has one of these forms:
 *   host:port            with TLS if |is_tls_default|
 *   http://host:port     without TLS
 *   https://host:port    with TLS
 *   unix:path            without TLS
 *   unixs:path           with TLS
 * "//" may precede the path. The host is a name, an IPv4 address, or an IPv6 address in brackets.
 * Returns false and fills |err| (invalid) if |text| has no such form. @thread any */
bool el_endpoint_parse(el_endpoint *to, const char *text, bool is_tls_default,
                       el_error *err);

/* el_endpoint_transport returns the transport to |endpoint|. @thread any */
el_transport el_endpoint_transport(const el_endpoint *endpoint);

#endif
