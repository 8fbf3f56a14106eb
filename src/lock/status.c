/* status: a query of the status of all members, each asked on its own connection. */
#include "lock/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/container_of.h"
#include "lock/task.h"

/* The request for the status of one member. */
typedef struct member_request {
  el_status *status;
  el_status_answer *answer;
} member_request;

struct el_status {
  /* references: of Lua, and of the I/O thread until all members have answered */
  el_task task;
  el_command command;
  int64_t timeout_ms;
  /* Used by the I/O thread only, until it completes EL_STATUS_ANSWERED. */
  /* number of members; number of those that have not answered */
  size_t n, left;
  el_status_answer *answers;
};

static void free_texts(el_member_status *status) {
  for (size_t i = 0; i < status->n_problems; i++) {
    free((char *)(uintptr_t)status->problems[i]);
  }
  free((void *)(uintptr_t)status->problems);
  free((char *)(uintptr_t)status->version);
}

static void unref(el_status *status) {
  if (!el_task_unref(&status->task)) return;
  for (size_t i = 0; i < status->n; i++) {
    free_texts(&status->answers[i].status);
  }
  free(status->answers);
  free(status);
}

/* ---- on the I/O thread ---- */

static char *copy_text(const char *text) {
  return el_strndup(text, strlen(text));
}

static void copy_status(el_member_status *to, const el_member_status *status) {
  char **problems = NULL;
  *to = *status;
  if (status->err.code != EL_OK) return;
  to->version = copy_text(status->version);
  if (status->n_problems > 0) {
    problems = el_alloc(status->n_problems * sizeof *problems);
  }
  for (size_t i = 0; i < status->n_problems; i++) {
    problems[i] = copy_text(status->problems[i]);
  }
  to->problems = (const char *const *)problems;
}

static void end_one(el_status *status) {
  if (--status->left > 0) return;
  el_completion_complete(&status->task.completion, EL_STATUS_ANSWERED);
  unref(status);
}

static void on_answered(void *arg, const el_member_status *status) {
  member_request *request = arg;
  copy_status(&request->answer->status, status);
  end_one(request->status);
  free(request);
}

static void ask(el_status *status, size_t member) {
  el_shared *shared = status->task.shared;
  member_request *request = el_alloc(sizeof *request);
  *request = (member_request){status, &status->answers[member]};
  EL_COUNT(&shared->counters, calls, 1);
  el_maintenance_status(shared->auth, member, status->timeout_ms, on_answered,
                        request);
}

static void run_start(el_command *command) {
  el_status *status = EL_CONTAINER_OF(command, el_status, command);
  el_shared *shared = status->task.shared;
  const el_channel *ch = el_auth_channel(shared->auth);
  size_t n = el_channel_count(ch);
  status->answers = el_alloc(n * sizeof *status->answers);
  status->n = n;
  /* + 1, so that the query does not end before all are asked */
  status->left = n + 1;
  for (size_t i = 0; i < n; i++) {
    el_status_answer *answer = &status->answers[i];
    snprintf(answer->address, sizeof answer->address, "%s",
             el_channel_address(ch, i));
    answer->transport = el_channel_transport(ch, i);
    if (shared->closed.code == EL_OK) {
      ask(status, i);
    } else {
      answer->status.err = shared->closed;
      status->left--;
    }
  }
  end_one(status);
}

/* ---- on a Lua thread ---- */

static el_status *new_status(el_shared *shared) {
  el_status *status = calloc(1, sizeof *status);
  if (status == NULL) return NULL;
  el_task_init(&status->task, shared);
  status->command.run = run_start;
  return status;
}

el_status *el_status_start(el_shared *shared, int64_t timeout_ms,
                           el_error *err) {
  el_status *status;
  if (!el_shared_is_usable(shared, err)) return NULL;
  status = new_status(shared);
  if (status == NULL) {
    el_error_set(err, EL_NOMEM, "no memory for a status query");
    return NULL;
  }
  status->timeout_ms = timeout_ms;
  if (el_task_post(&status->task, &status->command, err)) return status;
  unref(status);
  return NULL;
}

void el_status_drop(el_status *status) {
  if (!el_shared_is_forked(status->task.shared)) {
    unref(status);
  }
}

const el_status_answer *el_status_wait(el_status *status, int64_t timeout_ms,
                                       size_t *n) {
  if (!el_task_wait(&status->task, EL_STATUS_ANSWERED, timeout_ms)) {
    return NULL;
  }
  *n = status->n;
  return status->answers;
}

el_completion *el_status_completion(el_status *status) {
  return &status->task.completion;
}
