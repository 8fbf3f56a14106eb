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

/* el_tag is the object behind a tag of the completion queue. |done| is called when the batch with
 * this tag completes. */
typedef struct el_tag el_tag;
struct el_tag {
  void (*done)(el_tag *tag, bool ok); /* |ok| is gRPC's success flag */
};

/* el_live_call represents a call under way in the loop's list of calls; embedded in the call. When
 * the loop is stopped, it calls |cancel|. */
typedef struct el_live_call el_live_call;
struct el_live_call {
  void (*cancel)(el_live_call *call);
  TAILQ_ENTRY(el_live_call) link;
};

/* el_loop_queue returns the queue on which the calls of |loop| complete. @thread io */
grpc_completion_queue *el_loop_queue(el_loop *loop);

/* el_loop_add_call registers |call|. The loop does not end before el_loop_remove_call.
 * @thread io */
void el_loop_add_call(el_loop *loop, el_live_call *call);

/* el_loop_remove_call unregisters |call|, which has ended. @thread io */
void el_loop_remove_call(el_loop *loop, el_live_call *call);

/* el_deadline_in returns the time |ms| milliseconds from now on gRPC's monotonic clock.
 * @thread any */
gpr_timespec el_deadline_in(int64_t ms);

/* ---- channel.c ---- */

/* el_channel_new_call creates a call of |method| ("/package.Service/Method", a string literal) to
 * |member|. If the member has no gRPC channel, it creates that first. @thread io */
grpc_call *el_channel_new_call(el_channel *ch, size_t member,
                               const char *method);

/* el_channel_call_started adds |call|, which was sent to the member in use, to the health check. If
 * the member stops answering, the health check cancels all its calls, and the channel fails over.
 * @thread io */
void el_channel_call_started(el_channel *ch, el_health_call *call);

/* el_channel_call_ended removes |call|, which was sent to |member|, from the health check.
 * |is_answered| tells that etcd has answered |call|. @thread io */
void el_channel_call_ended(el_channel *ch, size_t member, el_health_call *call,
                           bool is_answered);

/* el_channel_record_result records that a call to |member|, which began at |begun_ms| (el_now_ms;
 * 0: long ago), has ended with |err|. If the member in use cannot serve, the channel fails over to
 * another one, if there is any. |is_given_up|: the health check has cancelled the call, and fails
 * over. If a diagnosis has found why connections to the member fail (a certificate, no TLS at the
 * other end), |err| becomes that cause. May set err->has_other_member. @thread io */
void el_channel_record_result(el_channel *ch, size_t member, int64_t begun_ms,
                              bool is_given_up, el_error *err);

/* el_channel_set_refusal fills |err| for a call to |member| with a batch that gRPC core refused for
 * the reason |rc|. The request was not sent, and gRPC core would refuse it again. The member is not
 * at fault, so it stays in use. @thread io */
void el_channel_set_refusal(const el_channel *ch, size_t member,
                            grpc_call_error rc, el_error *err);

/* ---- call.c ---- */

/* el_metadata is the initial metadata of one call; embedded in the call, because the batch points
 * to it. */
typedef struct el_metadata {
  size_t n;
  grpc_metadata list[2];
} el_metadata;

/* el_metadata_init fills |md|. If |needs_leader|, |md| gets "hasleader: true" (rpctypes/md.go).
 * With this, a member that is cut off from the quorum refuses a call at once and ends a stream;
 * without it, the member would just not answer. Unless |token| is NULL, |md| gets "token"
 * (rpctypes/metadatafields.go). @thread io */
void el_metadata_init(el_metadata *md, bool needs_leader, const char *token);

/* el_metadata_destroy frees what |md| holds. It may be called only after the batch has completed or
 * was refused. @thread io */
void el_metadata_destroy(el_metadata *md);

/* el_metadata_set_op makes |op| send |md|. @thread io */
void el_metadata_set_op(grpc_op *op, el_metadata *md);

#endif
