/* loop: the event loop of one client.
 *
 * All work with etcd is done in the loop, by one thread at a time: completed gRPC calls, timers,
 * and commands that other threads post to the inbox. The I/O thread normally drives the loop, or a
 * waiting Lua thread does (loop_driver.h). In a prototype, "@thread io" means the thread that is at
 * work in the loop, whichever thread that is.
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

/* el_command is a piece of work for the loop; embedded in the object that the work concerns. */
typedef struct el_command el_command;
struct el_command {
  void (*run)(el_command *command); /* called in the loop */
  STAILQ_ENTRY(el_command) link;
};

/* el_loop_events holds the callbacks of the loop's owner. All are called in the loop. */
typedef struct el_loop_events {
  /* after each event and command, and after the timers that are due together */
  void (*after_event)(void *arg);
  /* called before the loop cancels the calls that are left */
  void (*on_stopping)(void *arg);
  void (*on_stopped)(void *arg); /* the last callback; no call is left */
} el_loop_events;

/* el_loop_start initializes gRPC and starts the I/O thread, in which all signals are blocked.
 * Returns NULL and fills |err| if memory, threads or descriptors are not sufficient, or the clock
 * cannot be read. @thread lua */
el_loop *el_loop_start(const el_loop_events *events, void *arg, el_error *err);

/* el_loop_has_ended returns whether |loop|, which was stopped, has finished its work. If so,
 * el_loop_join does not block. @thread lua */
bool el_loop_has_ended(el_loop *loop);

/* el_loop_join waits until |loop|, which was stopped, has finished its work, and then releases
 * |loop|. The I/O thread may live on for some time: see el_loop_defer_free. @thread any */
void el_loop_join(el_loop *loop);

/* el_loop_post has the loop run |command| exactly once; until then |command| belongs to the loop.
 * Returns false, and does nothing, if the loop is closed. @thread any */
bool el_loop_post(el_loop *loop, el_command *command);

/* el_loop_run_command does the same as el_loop_post, but saves a wake-up if it can. If no thread is
 * at work in the loop, and no Lua thread drives it, the calling thread runs the inbox itself. Then
 * the immediate effects of |command| are visible on return. The caller must not hold a mutex.
 * @thread any @locks loop->work_mu */
bool el_loop_run_command(el_loop *loop, el_command *command);

/* el_loop_wait does the same as el_completion_wait, for an event that the loop completes. If no
 * other thread drives the loop, the calling thread drives it during the wait. Must not be called in
 * the loop. @thread lua @locks loop_driver->mu, loop->work_mu, loop->inbox_mu */
bool el_loop_wait(el_loop *loop, el_completion *awaited, unsigned event,
                  int64_t timeout_ms);

/* el_loop_stop makes the loop end. The I/O thread then cancels the remaining calls, processes their
 * ends and the rest of the inbox, and then terminates. @thread io */
void el_loop_stop(el_loop *loop);

/* el_loop_timers returns the timers of |loop|. @thread io */
el_timers *el_loop_timers(el_loop *loop);

/* el_loop_is_io returns whether the calling thread is at work in |loop|. @thread any */
bool el_loop_is_io(const el_loop *loop);

/* el_loop_defer_free calls |try_free| with |arg| every 20 ms, until |try_free| returns true because
 * it has freed the object. The calls go on after the loop was stopped, and keep the I/O thread
 * alive. @thread io */
void el_loop_defer_free(el_loop *loop, bool (*try_free)(void *arg), void *arg);

#endif
