/* net_int: declarations that the files of net/ share and that need gRPC's headers. Nothing above
 * net/ may include this file. */
#ifndef ETCDLOCK_NET_NET_INT_H
#define ETCDLOCK_NET_NET_INT_H

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "net/channel.h"
#include "net/health.h"
#include "net/loop.h"

/* ---- loop.c ---- */

/* el_tag is what a tag of the completion queue points to: it receives the end of one batch. */
typedef struct el_tag el_tag;
struct el_tag {
  void (*done)(el_tag *tag, bool ok); /* |ok|: gRPC's success flag */
};

/* el_live_call is a call under way; embedded in the call. The loop cancels it when it stops. */
typedef struct el_live_call el_live_call;
struct el_live_call {
  void (*cancel)(el_live_call *call);
  TAILQ_ENTRY(el_live_call) link;
};

/* el_loop_queue returns the queue on which the calls of |loop| complete. @thread io */
grpc_completion_queue *el_loop_queue(el_loop *loop);

/* el_loop_add_call registers |call|: the loop does not end before el_loop_remove_call.
 * @thread io */
void el_loop_add_call(el_loop *loop, el_live_call *call);

/* el_loop_remove_call unregisters |call|, which has ended. @thread io */
void el_loop_remove_call(el_loop *loop, el_live_call *call);

/* el_deadline_in returns the time |ms| milliseconds from now on gRPC's monotonic clock.
 * @thread any */
gpr_timespec el_deadline_in(int64_t ms);

/* ---- channel.c ---- */

/* el_channel_new_call creates a call of |method| ("/package.Service/Method") to |member|, and
 * before that the member's gRPC channel, if it has none. @thread io */
grpc_call *el_channel_new_call(el_channel *ch, size_t member,
                               const char *method, gpr_timespec deadline);

/* el_channel_call_started includes |call|, which was sent to the member in use, in the health check
 * of that member. If the member stops answering, its calls are cancelled and the channel fails
 * over. @thread io */
void el_channel_call_started(el_channel *ch, el_health_call *call);

/* el_channel_call_ended takes |call| out of the health check; |is_answered|: etcd has answered it.
 * @thread io */
void el_channel_call_ended(el_channel *ch, el_health_call *call,
                           bool is_answered);

/* el_channel_record_result records that a call to |member| has ended with |err|, and fails over if
 * the member cannot serve. If a diagnosis has found why connections to it fail (a certificate, no
 * TLS at the other end), |err| becomes that cause. @thread io */
void el_channel_record_result(el_channel *ch, size_t member, el_error *err);

/* el_channel_set_refusal fills |err| for a call to |member| of which gRPC core has refused a batch
 * for the reason |rc|: the request was not sent, and would be refused again. That is not a failure
 * of the member, which stays in use. @thread io */
void el_channel_set_refusal(const el_channel *ch, size_t member,
                            grpc_call_error rc, el_error *err);

/* ---- call.c ---- */

/* el_metadata is the initial metadata of one call; embedded in the call, because the batch points
 * to it. */
typedef struct el_metadata {
  size_t n;
  grpc_metadata list[2];
} el_metadata;

/* el_metadata_init fills |md|. If |needs_leader|, it has "hasleader: true" (rpctypes/md.go): a
 * member that is cut off from the quorum then refuses the call at once, and ends a stream, instead
 * of going quiet. Unless |token| is NULL, it has "token" (rpctypes/metadatafields.go).
 * @thread io */
void el_metadata_init(el_metadata *md, bool needs_leader, const char *token);

/* el_metadata_destroy frees what |md| holds; only after the batch has completed. @thread io */
void el_metadata_destroy(el_metadata *md);

/* el_metadata_set_op makes |op| send |md|. @thread io */
void el_metadata_set_op(grpc_op *op, el_metadata *md);

#endif
