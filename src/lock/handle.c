/* handle: what Lua threads and the I/O thread share of a client. */
#include "lock/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/text.h"

/* A busy machine is as late as this now and then. */
enum { STANDSTILL_MS = 1000 };

el_handle *el_handle_new(void) {
  el_handle *handle = calloc(1, sizeof *handle);
  if (handle == NULL) return NULL;
  atomic_init(&handle->refs, 1);
  handle->fork_generation = el_fork_generation();
  el_last_cause_init(&handle->last_cause);
  el_outage_init(&handle->outage);
  el_events_init(&handle->events);
  return handle;
}

el_handle *el_handle_ref(el_handle *handle) {
  atomic_fetch_add(&handle->refs, 1);
  return handle;
}

void el_handle_unref(el_handle *handle) {
  if (atomic_fetch_sub(&handle->refs, 1) != 1) return;
  el_wake_queue_free(handle->wake_queue);
  el_last_cause_destroy(&handle->last_cause);
  el_outage_destroy(&handle->outage);
  el_events_destroy(&handle->events);
  free(handle);
}

bool el_handle_is_forked(const el_handle *handle) {
  return handle->fork_generation != el_fork_generation();
}

bool el_handle_is_usable(const el_handle *handle, el_error *err) {
  if (el_handle_is_forked(handle)) {
    el_error_set(err, EL_FORKED,
                 "this client belongs to the parent process, not to this "
                 "forked one");
    return false;
  }
  if (handle->loop == NULL) {
    el_error_set(err, EL_CLOSED, "the client is closed");
    return false;
  }
  return true;
}

bool el_handle_stood_still(const el_handle *handle, el_error *err) {
  int64_t due_at = atomic_load(&handle->due_at);
  int64_t late_ms = el_now_ms() - due_at;
  if (due_at == 0 || late_ms < STANDSTILL_MS) return false;
  el_error_set(err, EL_UNAVAILABLE, "this process stood still for %.1f s",
               (double)late_ms / 1000);
  return true;
}

static bool is_open(const el_handle *handle) {
  return handle->loop != NULL && !el_handle_is_forked(handle);
}

bool el_handle_wait(el_handle *handle, el_completion *awaited, unsigned event,
                    int64_t timeout_ms) {
  return is_open(handle)
             ? el_loop_wait(handle->loop, awaited, event, timeout_ms)
             : el_completion_wait(awaited, event, timeout_ms);
}

bool el_handle_post(el_handle *handle, el_command *command) {
  return is_open(handle) && el_loop_run_command(handle->loop, command);
}

/* In a forked child it is the parent's to read. */
el_wake_queue *el_handle_wake_queue(el_handle *handle, el_error *err) {
  bool usable = el_handle_is_usable(handle, err);
  if (!usable && (err->code == EL_FORKED || handle->wake_queue == NULL))
    return NULL;
  if (handle->wake_queue == NULL) {
    handle->wake_queue = el_wake_queue_new();
  }
  if (handle->wake_queue == NULL) {
    el_error_set(err, EL_NOMEM, "no descriptor to wait with: %s",
                 el_errno_text(errno));
  }
  return handle->wake_queue;
}
