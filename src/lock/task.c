/* task: what a Lua thread has the I/O thread do. */
#include "lock/task.h"

void el_task_init(el_task *task, el_shared *shared) {
  atomic_init(&task->refs, 1);
  task->shared = el_shared_ref(shared);
  el_completion_init(&task->completion);
}

void el_task_ref(el_task *task) { atomic_fetch_add(&task->refs, 1); }

bool el_task_unref(el_task *task) {
  if (atomic_fetch_sub(&task->refs, 1) != 1) return false;
  el_completion_destroy(&task->completion);
  el_shared_unref(task->shared);
  return true;
}

bool el_task_post(el_task *task, el_command *command, el_error *err) {
  el_task_ref(task);
  if (el_shared_post(task->shared, command)) return true;
  atomic_fetch_sub(&task->refs, 1); /* not the last one */
  if (err != NULL) el_error_set(err, EL_CLOSED, "the client is closed");
  return false;
}

bool el_task_wait(el_task *task, unsigned event, int64_t timeout_ms) {
  return el_shared_wait(task->shared, &task->completion, event, timeout_ms);
}
