/* handle: what Lua threads and the I/O thread share of a client: the door to the
 * loop, who may pass it, and what can be read without asking.
 *
 * Reference-counted: locks and questions keep it, and may outlive their client.
 */
#ifndef ETCDLOCK_LOCK_HANDLE_H
#define ETCDLOCK_LOCK_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/wake_queue.h"
#include "lock/counters.h"
#include "lock/events.h"
#include "lock/last_cause.h"
#include "lock/outage.h"
#include "net/loop.h"

typedef struct el_handle {
  atomic_int refs;
  unsigned fork_generation;

  /* Lua's side. */
  el_loop *loop;             /* NULL: closed, or not open yet */
  el_wake_queue *wake_queue; /* for event loops, made on demand */

  /* The I/O thread's own. */
  struct el_local_queues *queues;

  /* Written by the I/O thread, read by any. */
  _Atomic int64_t lease;       /* the session's, 0: none */
  _Atomic int64_t alive_until; /* until when it is known to live */
  _Atomic int64_t due_at; /* when the session wants to be looked at; 0: never */
  el_counters counters;
  el_last_cause last_cause; /* of the session */
  el_outage outage;

  el_events events; /* written and read by any */
} el_handle;

/* One that is closed, with one reference. NULL: no memory. @thread lua */
el_handle *el_handle_new(void);

/* @thread any */
el_handle *el_handle_ref(el_handle *handle);

/* @thread any */
void el_handle_unref(el_handle *handle);

/* Does this process differ from the one that made it? @thread any */
bool el_handle_is_forked(const el_handle *handle);

/* Can it be used by this process? If not, |err| says closed or forked.
 * @thread lua */
bool el_handle_is_usable(const el_handle *handle, el_error *err);

/* Is the session looked at much later than it wanted? Then the process stood still,
 * or the machine, and |err| says for how long. @thread any */
bool el_handle_stood_still(const el_handle *handle, el_error *err);

/* Waits for what the I/O thread completes: is |event| there? See el_loop_wait.
 * @thread lua */
bool el_handle_wait(el_handle *handle, el_completion *awaited, unsigned event,
                    int64_t timeout_ms);

/* Hands |command| to the I/O thread, or runs it where that sleeps (el_loop_run_command); false:
 * the client is closed, or another process's. @thread lua */
bool el_handle_post(el_handle *handle, el_command *command);

/* Where completions are pushed for an event loop; NULL and |err| if there is no
 * descriptor to be had, or the client was closed before it was asked for. Lives
 * as long as the handle, its descriptor until the client is closed.
 * @thread lua */
el_wake_queue *el_handle_wake_queue(el_handle *handle, el_error *err);

#endif
