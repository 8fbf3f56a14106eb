/* grpc_log: filters what gRPC writes to standard error. */
#ifndef ETCDLOCK_NET_GRPC_LOG_H
#define ETCDLOCK_NET_GRPC_LOG_H

/* el_grpc_log_filter makes gRPC write failed assertions only. By default gRPC writes several lines
 * about each failed TLS handshake, whose cause is in our error messages. If the environment
 * variable GRPC_VERBOSITY is set, nothing is filtered. Must be called before grpc_init; applies to
 * the whole process. @thread any */
void el_grpc_log_filter(void);

#endif
