/* endpoint: the address of one etcd member, as etcdctl writes it. */
#ifndef ETCDLOCK_NET_ENDPOINT_H
#define ETCDLOCK_NET_ENDPOINT_H

#include <stdbool.h>

#include "base/error.h"

enum { EL_ENDPOINT_MAX = 320 };

typedef struct el_endpoint {
  bool tls;
  bool path;                         /* a unix socket */
  char address[EL_ENDPOINT_MAX];     /* "host:port" or "unix:path": messages */
  char target[EL_ENDPOINT_MAX + 16]; /* what gRPC calls it */
} el_endpoint;

/* How we get there: who can read along? */
typedef enum el_transport {
  EL_TRANSPORT_TLS,   /* nobody */
  EL_TRANSPORT_LOCAL, /* plain text, which doesn't leave this machine */
  EL_TRANSPORT_OPEN,  /* plain text, which all on the way can read */
} el_transport;

/* Reads |text|: "host:port" (TLS if |tls_default|), "http://host:port",
 * "https://host:port", "unix:path" or "unixs:path" (TLS), the latter two also
 * with "//" before the path. The host is a name, an IPv4 address or an IPv6
 * address in brackets. False and |err| (invalid) for anything else.
 * @thread any */
bool el_endpoint_parse(el_endpoint *to, const char *text, bool tls_default,
                       el_error *err);

/* @thread any */
el_transport el_endpoint_transport(const el_endpoint *endpoint);

#endif
