/* L1 loop: the I/O thread of one client.
 *
 * One thread sits in one gRPC completion queue. Everything that etcdlock does
 * with etcd happens there: completed calls, timers, and the commands that Lua
 * threads post. The inbox and its doorbell are the only way in.
 */
#ifndef ETCDLOCK_LOOP_H
#define ETCDLOCK_LOOP_H

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "error.h"
#include "timer.h"

typedef struct el_loop el_loop;

/* Something for the I/O thread to do; embedded in what it is about. */
typedef struct el_command el_command;
struct el_command {
  void (*run)(el_command *command);
  STAILQ_ENTRY(el_command) link;
};

/* A tag of the completion queue is always the address of one of these. */
typedef struct el_tag el_tag;
struct el_tag {
  void (*done)(el_tag *tag, bool ok);
};

/* A call under way, so that stopping can cancel it and wait for its end. */
typedef struct el_call_entry el_call_entry;
struct el_call_entry {
  void (*cancel)(el_call_entry *entry);
  TAILQ_ENTRY(el_call_entry) link;
};

/* What the owner of a loop is told, all on the I/O thread. */
typedef struct el_loop_events {
  void (*after_each)(void *arg); /* after every event, command and timer */
  void (*on_stop)(void *arg);    /* last, when no call is left */
} el_loop_events;

/* Starts gRPC and the thread, with all signals blocked there. NULL and |err|
 * if there is no memory or no thread to be had. @thread lua */
el_loop *el_loop_start(const el_loop_events *events, void *arg, el_error *err);

/* Waits until the loop that el_loop_stop stops has done all its work, and gives
 * it up. Its thread may still linger for a moment, see el_loop_linger.
 * @thread lua */
void el_loop_join(el_loop *loop);

/* Hands |command| to the I/O thread, which runs it exactly once; the caller
 * gives it up. False, and nothing happens, once the loop has closed.
 * @thread any */
bool el_loop_post(el_loop *loop, el_command *command);

/* Ends the loop: cancels the calls that are left, waits for their ends, runs
 * what is still in the inbox, and lets the thread return. @thread io */
void el_loop_stop(el_loop *loop);

/* The loop's timers. @thread io */
el_timers *el_loop_timers(el_loop *loop);

/* True on the loop's own thread. @thread any */
bool el_loop_is_io(const el_loop *loop);

/* The queue on which calls of this loop complete. @thread io */
grpc_completion_queue *el_loop_queue(el_loop *loop);

/* Registers a call, or takes out one that has ended. @thread io */
void el_loop_add_call(el_loop *loop, el_call_entry *entry);

/* The counterpart of el_loop_add_call. @thread io */
void el_loop_remove_call(el_loop *loop, el_call_entry *entry);

/* Something that can't be freed yet needs the thread a while longer, also after
 * the stop: |look| is called with |arg| now and then, until it returns false: it
 * is freed. @thread io */
void el_loop_linger(el_loop *loop, bool (*look)(void *arg), void *arg);

/* gRPC's monotonic time |ms| milliseconds from now. @thread any */
gpr_timespec el_deadline_in(int64_t ms);

#endif
