/* loop_calls: what a call needs of its loop. Not for those above net/. */
#ifndef ETCDLOCK_NET_LOOP_CALLS_H
#define ETCDLOCK_NET_LOOP_CALLS_H

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

typedef struct el_loop el_loop;

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

#endif
