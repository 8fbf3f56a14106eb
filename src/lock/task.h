/* task: what a Lua thread has the I/O thread do: a lock, a transaction, a status query, a watcher.
 *
 * Each of these embeds an el_task, which has what they share: the client, the events for which Lua
 * waits, and a reference count, because either thread may be done with the task first. */
#ifndef ETCDLOCK_LOCK_TASK_H
#define ETCDLOCK_LOCK_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/completion.h"
#include "lock/shared.h"

/* el_task is one task. Any thread that has a reference may use it. */
typedef struct el_task {
  el_shared *shared; /* of the client; constant */
  el_completion completion;
  atomic_int refs;
} el_task;

/* el_task_init sets up |task| with one reference. @thread lua */
void el_task_init(el_task *task, el_shared *shared);

/* el_task_ref adds a reference. @thread any */
void el_task_ref(el_task *task);

/* el_task_unref drops a reference. If it was the last one, the function frees what |task| holds and
 * returns true: then the caller frees the struct that embeds |task|. @thread any */
bool el_task_unref(el_task *task);

/* el_task_post passes |command| to the loop (el_shared_post), with a reference of its own, which
 * the command gives back. If that fails, the function drops the reference, sets |err|, if it is not
 * NULL, and returns false. The caller must have another reference. @thread any */
bool el_task_post(el_task *task, el_command *command, el_error *err);

/* el_task_wait waits up to |timeout_ms| for |event|. Returns whether |event| has occurred.
 * See el_loop_wait. @thread lua */
bool el_task_wait(el_task *task, unsigned event, int64_t timeout_ms);

#endif
