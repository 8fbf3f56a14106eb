/* simulation network: connections from processes to the members of clusters, and what happens to
 * them: distance, loss, partitions, silence, load balancers, name servers, members that hang.
 *
 * What is sent over one connection arrives in its order, or not at all, as with TCP. */
#ifndef SIMULATION_NETWORK_H
#define SIMULATION_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "etcd.h"
#include "fiber.h"

enum { PROCESSES_MAX = 4, ADDRESSES_MAX = 8, TARGETS_MAX = 3 };

/* The way between one process and one address. Chances are per mille. */
typedef struct path {
  int64_t min_us, max_us; /* one way */
  int slow;               /* of messages that take up to |slow_max_us| more */
  int64_t slow_max_us;
  int lost;                     /* of packets, which TCP sends again */
  int64_t partitioned_until_us; /* nothing passes before */
} path;

/* Something that a client can connect to: a member, or a load balancer before several. */
typedef struct address {
  const char *name; /* the end of gRPC's target, such as "10.0.0.1:2379" */
  etcd *cluster;
  int members[TARGETS_MAX];
  int n_members;
  int next; /* of a load balancer: where the next connection leads */
  /* how long the name server takes to answer; negative: it does not answer */
  int64_t resolve_us;
  path paths[PROCESSES_MAX]; /* by process */
} address;

/* ---- for the history ---- */

/* Ends all connections, whose processes must have gone, and forgets all addresses. */
void network_reset(void);

/* Adds an address. The caller fills in its other fields, which are zero. */
address *network_add(const char *name, etcd *cluster, int member);

/* |member| does not run until |until_us|: messages to and from it wait. */
void network_pause(const etcd *cluster, int member, int64_t until_us);

/* Ends all connections to |member|, as when it restarts. */
void network_break(const etcd *cluster, int member);

/* All present connections of |of| become silent, as if a firewall had forgotten them. */
void network_mute(const process *of);

/* Cuts off |of|, as if it had crashed. The members learn at once that its connections are gone. */
void network_unplug(process *of);

/* Ends network_unplug, for new connections. */
void network_plug_in(process *of);

/* ---- for grpc.c ---- */

typedef struct connection connection;

typedef struct connection_events {
  void (*on_open)(void *arg);
  /* The connection is gone, or was never established. It is the last event. */
  void (*on_broken)(void *arg, const char *why);
} connection_events;

/* Connects. When nothing is received for |keepalive_us| while calls are under way, the client sends
 * a ping; if nothing arrives within |timeout_us|, the connection is broken. */
connection *network_connect(process *of, const char *name, int64_t keepalive_us,
                            int64_t timeout_us, const connection_events *events,
                            void *arg);

/* Closes the connection. No event follows, neither of it nor of its calls. */
void network_close(connection *conn);

typedef struct exchange exchange; /* one call on a connection */

/* Begins a call. etcd's events come when they arrive at the client. Unless on_status or on_broken
 * comes, the caller ends the call with network_cancel or network_close. */
exchange *network_call(connection *conn, const char *method, bool needs_leader,
                       const char *token, const etcd_call_events *events,
                       void *arg);
void network_send(exchange *ex, const uint8_t *bytes, size_t len);
void network_half_close(exchange *ex);
void network_cancel(exchange *ex);

#endif
