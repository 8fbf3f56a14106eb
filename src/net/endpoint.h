/* endpoint: the address of one etcd member, as etcdctl accepts it. */
#ifndef ETCDLOCK_NET_ENDPOINT_H
#define ETCDLOCK_NET_ENDPOINT_H

#include <stdbool.h>

#include "base/error.h"

enum { EL_ENDPOINT_MAX = 320 };

/* el_endpoint is one parsed address. */
typedef struct el_endpoint {
  bool is_tls;
  bool is_unix;                      /* a Unix socket */
  char address[EL_ENDPOINT_MAX];     /* "host:port" or "unix:path": messages */
  char target[EL_ENDPOINT_MAX + 16]; /* the URI that gRPC gets */
} el_endpoint;

/* el_transport tells whether others can read what is sent to a member. */
typedef enum el_transport {
  EL_TRANSPORT_TLS,       /* encrypted */
  EL_TRANSPORT_LOCAL,     /* plain text that does not leave this machine */
  EL_TRANSPORT_PLAINTEXT, /* plain text on the network */
} el_transport;

/* el_endpoint_parse reads |text|: "host:port" (TLS if |is_tls_default|), "http://host:port",
 * "https://host:port", "unix:path" or "unixs:path" (TLS); "//" may precede the path. The host is a
 * name, an IPv4 address or an IPv6 address in brackets. Returns false and fills |err| (invalid) for
 * anything else. @thread any */
bool el_endpoint_parse(el_endpoint *to, const char *text, bool is_tls_default,
                       el_error *err);

/* el_endpoint_transport returns the transport to |endpoint|. @thread any */
el_transport el_endpoint_transport(const el_endpoint *endpoint);

#endif
