/* loop: the I/O thread of one client.
 *
 * One thread at a time sits in one gRPC completion queue (leader.h). Everything
 * that etcdlock does with etcd happens there: completed calls, timers, and the
 * commands that Lua threads hand over. The inbox is the only way in. A doorbell wakes
 * who sleeps there, unless whoever comes may do the work himself meanwhile.
 */
#ifndef ETCDLOCK_NET_LOOP_H
#define ETCDLOCK_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/completion.h"
#include "base/error.h"
#include "base/timer.h"

typedef struct el_loop el_loop;

/* Something for the I/O thread to do; embedded in what it is about. */
typedef struct el_command el_command;
struct el_command {
  void (*run)(el_command *command);
  STAILQ_ENTRY(el_command) link;
};

/* What the owner of a loop is told, all on the I/O thread. */
typedef struct el_loop_events {
  void (*after_each)(void *arg); /* after every event, command and timer */
  void (*stopping)(
      void *arg);             /* before the calls that are left are cancelled */
  void (*stopped)(void *arg); /* last, when no call is left */
} el_loop_events;

/* Starts gRPC and the thread, with all signals blocked there. NULL and |err|
 * if there is no memory or no thread to be had. @thread lua */
el_loop *el_loop_start(const el_loop_events *events, void *arg, el_error *err);

/* Has the loop that el_loop_stop stops done all its work, so that el_loop_join doesn't
 * wait? @thread lua */
bool el_loop_has_ended(el_loop *loop);

/* Waits until the loop that el_loop_stop stops has done all its work, and gives
 * it up. Its thread may still linger for a moment, see el_loop_linger.
 * @thread any */
void el_loop_join(el_loop *loop);

/* Hands |command| to the I/O thread, which runs it exactly once; the caller
 * gives it up. False, and nothing happens, once the loop has closed.
 * @thread any */
bool el_loop_post(el_loop *loop, el_command *command);

/* The same; but while that thread sleeps the caller runs what is in the inbox, as
 * "@thread io". Nobody is woken then, and what comes of the command at once is there
 * when this returns. The caller holds no mutex. @thread lua @locks loop->work_mu */
bool el_loop_run(el_loop *loop, el_command *command);

/* As el_completion_wait, for one of those that the loop completes, which the thread
 * runs itself meanwhile if it can. Not on the loop's own thread.
 * @thread lua @locks leader->mu */
bool el_loop_wait(el_loop *loop, el_completion *awaited, unsigned event,
                  int64_t timeout_ms);

/* Ends the loop: cancels the calls that are left, waits for their ends, runs
 * what is still in the inbox, and lets the thread return. @thread io */
void el_loop_stop(el_loop *loop);

/* The loop's timers. @thread io */
el_timers *el_loop_timers(el_loop *loop);

/* Does this thread run the loop? @thread any */
bool el_loop_is_io(const el_loop *loop);

/* Something that can't be freed yet needs the thread a while longer, also after
 * the stop: |look| is called with |arg| now and then, until it returns false: it
 * is freed. @thread io */
void el_loop_linger(el_loop *loop, bool (*look)(void *arg), void *arg);

#endif
