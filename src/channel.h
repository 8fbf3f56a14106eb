/* L1 channel: the connection to one etcd member. */
#ifndef ETCDLOCK_CHANNEL_H
#define ETCDLOCK_CHANNEL_H

#include <grpc/grpc.h>

#include "error.h"
#include "loop.h"

typedef struct el_channel el_channel;

/* Is |endpoint| "[http://]host:port", with a name, an IPv4 address or an IPv6
 * address in brackets? If not, false and |err| (invalid). @thread any */
bool el_channel_check(const char *endpoint, el_error *err);

/* A channel to |endpoint|, which has been checked. Connecting is left to the
 * first call. @thread io */
el_channel *el_channel_new(el_loop *loop, const char *endpoint);

/* Frees |ch|; its calls must have ended. @thread io */
void el_channel_free(el_channel *ch);

/* "host:port", for messages. @thread any */
const char *el_channel_endpoint(const el_channel *ch);

/* The loop on which calls of |ch| complete. @thread io */
el_loop *el_channel_loop(const el_channel *ch);

/* A new call of |method| ("/package.Service/Method"). @thread io */
grpc_call *el_channel_call(el_channel *ch, const char *method,
                           gpr_timespec deadline);

#endif
