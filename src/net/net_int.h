/* net_int: what the files of net/ share, with gRPC's types. Not for those above net/. */
#ifndef ETCDLOCK_NET_NET_INT_H
#define ETCDLOCK_NET_NET_INT_H

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "net/channel.h"
#include "net/loop.h"
#include "net/silence.h"

/* ---- loop.c ---- */

/* A tag of the completion queue is always the address of one of these. */
typedef struct el_tag el_tag;
struct el_tag {
  void (*done)(el_tag *tag, bool ok);
};

/* A call under way, so that stopping can cancel it and wait for its end. */
typedef struct el_live_call el_live_call;
struct el_live_call {
  void (*cancel)(el_live_call *entry);
  TAILQ_ENTRY(el_live_call) link;
};

/* The queue on which calls of this loop complete. @thread io */
grpc_completion_queue *el_loop_queue(el_loop *loop);

/* Registers a call, or takes out one that has ended. @thread io */
void el_loop_add_call(el_loop *loop, el_live_call *entry);

/* The counterpart of el_loop_add_call. @thread io */
void el_loop_remove_call(el_loop *loop, el_live_call *entry);

/* gRPC's monotonic time |ms| milliseconds from now. @thread any */
gpr_timespec el_deadline_in(int64_t ms);

/* ---- channel.c ---- */

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

/* ---- call.c ---- */

/* What one call sends; embedded in the call, because the batch points to it. */
typedef struct el_metadata {
  size_t n;
  grpc_metadata list[2];
} el_metadata;

/* "hasleader: true" (rpctypes/md.go), if |wants_leader|: a member that is cut off
 * from the quorum then refuses at once, and ends streams, instead of going quiet. And
 * "token" (rpctypes/metadatafields.go), unless |token| is NULL. @thread io */
void el_metadata_init(el_metadata *md, bool wants_leader, const char *token);

/* After the batch has completed. @thread io */
void el_metadata_destroy(el_metadata *md);

/* Makes |op| send |md|. @thread io */
void el_metadata_send(grpc_op *op, el_metadata *md);

#endif
