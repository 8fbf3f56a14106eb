/* channel_calls: what a call needs of its channel. Not for those above net/. */
#ifndef ETCDLOCK_NET_CHANNEL_CALLS_H
#define ETCDLOCK_NET_CHANNEL_CALLS_H

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "net/silence.h"

typedef struct el_channel el_channel;

/* A new call of |method| ("/package.Service/Method") to |member|. @thread io */
grpc_call *el_channel_call(el_channel *ch, size_t member, const char *method,
                           gpr_timespec deadline);

/* A unary call to the member in use is out, or has come to its end; |answered|:
 * by an answer of etcd's. Those that are out are given up together when the
 * member falls silent, and it is left. @thread io */
void el_channel_asked(el_channel *ch, el_asked *asked);

/* The counterpart of el_channel_asked. @thread io */
void el_channel_ended(el_channel *ch, el_asked *asked, bool answered);

/* Tells how a call to |member| ended, so that a member that can't serve is
 * left. If the reason is known to be one that time won't mend (a certificate,
 * TLS where there is none), |err| becomes that reason. @thread io */
void el_channel_note(el_channel *ch, size_t member, el_error *err);

/* el_channel_refused fills |err| for a call to |member| of which gRPC core has refused a
 * batch for the reason |rc|: the request was never sent, and a repetition would be
 * refused, too. The member is not at fault, and stays in use. @thread io */
void el_channel_refused(const el_channel *ch, size_t member, grpc_call_error rc,
                        el_error *err);

#endif
