/* grpc_log: filters what gRPC writes to standard error. */
#ifndef ETCDLOCK_NET_GRPC_LOG_H
#define ETCDLOCK_NET_GRPC_LOG_H

/* el_grpc_log_filter makes gRPC write nothing but failed assertions. By default gRPC writes several
 * lines about each failed TLS handshake, but our error messages already name the cause. With newer
 * versions of gRPC, or if the environment variable GRPC_VERBOSITY is set, the function does
 * nothing. It must be called before grpc_init, and applies to the whole process. @thread any */
void el_grpc_log_filter(void);

#endif
