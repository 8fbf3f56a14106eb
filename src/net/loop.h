/* loop: the event loop of one client.
 *
 * All work with etcd is done in the loop, by one thread at a time: completed gRPC calls, timers,
 * and commands that other threads post to the inbox. The I/O thread drives the loop unless a
 * waiting Lua thread does (loop_driver.h). "@thread io" in a prototype means the thread that is at
 * work in the loop, whichever it is.
 */
#ifndef ETCDLOCK_NET_LOOP_H
#define ETCDLOCK_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/completion.h"
#include "base/error.h"
#include "base/timer.h"

/* el_loop is the event loop of one client, with its I/O thread. */
typedef struct el_loop el_loop;

/* el_command is a piece of work for the loop; embedded in the object that it concerns. */
typedef struct el_command el_command;
struct el_command {
  void (*run)(el_command *command); /* called in the loop */
  STAILQ_ENTRY(el_command) link;
};

/* el_loop_events holds the callbacks of the loop's owner, all called in the loop. */
typedef struct el_loop_events {
  void (*after_event)(void *arg); /* after each event, command and timer */
  void (*on_stopping)(void *arg); /* before the remaining calls are cancelled */
  void (*on_stopped)(void *arg);  /* last, when no call is left */
} el_loop_events;

/* el_loop_start initializes gRPC and starts the I/O thread, in which all signals are blocked.
 * Returns NULL and fills |err| if there is not enough memory, or no thread or descriptor left.
 * @thread lua */
el_loop *el_loop_start(const el_loop_events *events, void *arg, el_error *err);

/* el_loop_has_ended returns whether a loop that was stopped has finished its work: el_loop_join
 * does not block then. @thread lua */
bool el_loop_has_ended(el_loop *loop);

/* el_loop_join waits until a loop that was stopped has finished its work, and releases it. The
 * I/O thread may live on for some time: see el_loop_defer_free. @thread any */
void el_loop_join(el_loop *loop);

/* el_loop_post has the loop run |command| exactly once; until then |command| belongs to the loop.
 * Returns false, and does nothing, if the loop is closed. @thread any */
bool el_loop_post(el_loop *loop, el_command *command);

/* el_loop_run_command does the same as el_loop_post, but runs the inbox in the calling thread if no
 * other thread is at work in the loop. No thread is woken up then, and the immediate effects of
 * |command| are visible on return. The caller must not hold a mutex.
 * @thread lua @locks loop->work_mu */
bool el_loop_run_command(el_loop *loop, el_command *command);

/* el_loop_wait does the same as el_completion_wait, for a completion that is completed by the
 * loop. The calling thread drives the loop meanwhile, if it can. Must not be called in the loop.
 * @thread lua @locks loop_driver->mu, loop->work_mu, loop->inbox_mu */
bool el_loop_wait(el_loop *loop, el_completion *awaited, unsigned event,
                  int64_t timeout_ms);

/* el_loop_stop ends the loop: the remaining calls are cancelled, their ends and the rest of the
 * inbox are processed, and the I/O thread ends. @thread io */
void el_loop_stop(el_loop *loop);

/* el_loop_timers returns the timers of |loop|. @thread io */
el_timers *el_loop_timers(el_loop *loop);

/* el_loop_is_io returns whether the calling thread is at work in |loop|. @thread any */
bool el_loop_is_io(const el_loop *loop);

/* el_loop_defer_free calls |try_free| with |arg| every 20 ms until it returns true: the object is
 * freed. The calls go on after the loop was stopped, and keep the I/O thread alive. @thread io */
void el_loop_defer_free(el_loop *loop, bool (*try_free)(void *arg), void *arg);

#endif
