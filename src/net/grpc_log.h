/* grpc_log: what gRPC writes to standard error. */
#ifndef ETCDLOCK_NET_GRPC_LOG_H
#define ETCDLOCK_NET_GRPC_LOG_H

/* Keeps gRPC from writing several lines about each failed TLS handshake: our
 * errors carry the cause. The rest stays, and GRPC_VERBOSITY brings all of it
 * back. Before grpc_init; the setting is the whole process's. @thread any */
void el_grpc_log_tame(void);

#endif
