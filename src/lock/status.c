/* status: one question to all members of a cluster, each by itself. */
#include "lock/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/completion.h"
#include "base/container_of.h"

enum { ANSWERED = 1 }; /* its one event */

typedef struct question {
  el_status *status;
  el_status_answer *answer;
} question;

struct el_status {
  atomic_int refs; /* Lua's, and the I/O thread's until all have answered */
  el_handle *handle;
  el_status_world *world;
  el_command command;
  int64_t timeout_ms;
  el_completion news;
  size_t n, left; /* the I/O thread's until then */
  el_status_answer *answers;
};

static void free_texts(el_member_status *said) {
  for (size_t i = 0; i < said->n_problems; i++) {
    free((char *)(uintptr_t)said->problems[i]);
  }
  free((void *)(uintptr_t)said->problems);
  free((char *)(uintptr_t)said->version);
}

static void unref(el_status *status) {
  if (atomic_fetch_sub(&status->refs, 1) != 1) return;
  for (size_t i = 0; i < status->n; i++) {
    free_texts(&status->answers[i].said);
  }
  free(status->answers);
  el_completion_destroy(&status->news);
  el_handle_unref(status->handle);
  free(status);
}

/* ---- on the I/O thread ---- */

static char *copy_text(const char *text) {
  return el_strndup(text, strlen(text));
}

static void keep(el_member_status *to, const el_member_status *said) {
  char **problems = NULL;
  *to = *said;
  if (said->err.code != EL_OK) return;
  to->version = copy_text(said->version);
  if (said->n_problems > 0) {
    problems = el_alloc(said->n_problems * sizeof *problems);
  }
  for (size_t i = 0; i < said->n_problems; i++) {
    problems[i] = copy_text(said->problems[i]);
  }
  to->problems = (const char *const *)problems;
}

static void finish_one(el_status *status) {
  if (--status->left > 0) return;
  el_completion_complete(&status->news, ANSWERED);
  unref(status);
}

static void on_answered(void *arg, const el_member_status *said) {
  question *asked = arg;
  keep(&asked->answer->said, said);
  finish_one(asked->status);
  free(asked);
}

static void ask(el_status *status, size_t member) {
  el_status_world *world = status->world;
  question *asked = el_alloc(sizeof *asked);
  *asked = (question){status, &status->answers[member]};
  EL_COUNT(world->counters, calls, 1);
  el_maintenance_status(world->auth, member, status->timeout_ms, on_answered,
                        asked);
}

static void run_start(el_command *command) {
  el_status *status = EL_CONTAINER_OF(command, el_status, command);
  el_status_world *world = status->world;
  const el_channel *ch = el_auth_channel(world->auth);
  size_t n = el_channel_count(ch);
  status->answers = el_alloc(n * sizeof *status->answers);
  status->n = n;
  status->left = n + 1; /* ours, so that none ends it before all are asked */
  for (size_t i = 0; i < n; i++) {
    el_status_answer *answer = &status->answers[i];
    snprintf(answer->address, sizeof answer->address, "%s",
             el_channel_address(ch, i));
    answer->transport = el_channel_transport(ch, i);
    if (world->closed.code == EL_OK) {
      ask(status, i);
    } else {
      answer->said.err = world->closed;
      status->left--;
    }
  }
  finish_one(status);
}

void el_status_world_init(el_status_world *world, el_auth *auth,
                          el_counters *counters) {
  *world = (el_status_world){.auth = auth, .counters = counters};
}

void el_status_world_close(el_status_world *world, const el_error *err) {
  world->closed = *err;
}

/* ---- on Lua's side ---- */

static el_status *new_status(el_handle *handle, el_status_world *world) {
  el_status *status = calloc(1, sizeof *status);
  if (status == NULL) return NULL;
  atomic_init(&status->refs, 2);
  status->handle = el_handle_ref(handle);
  status->world = world;
  status->command.run = run_start;
  el_completion_init(&status->news);
  return status;
}

el_status *el_status_start(el_handle *handle, el_status_world *world,
                           int64_t timeout_ms, el_error *err) {
  el_status *status;
  if (!el_handle_is_usable(handle, err)) return NULL;
  status = new_status(handle, world);
  if (status == NULL) {
    el_error_set(err, EL_NOMEM, "no memory for a question");
    return NULL;
  }
  status->timeout_ms = timeout_ms;
  if (el_handle_post(handle, &status->command)) return status;
  unref(status);
  unref(status);
  el_error_set(err, EL_CLOSED, "the client is closed");
  return NULL;
}

void el_status_drop(el_status *status) {
  if (!el_handle_is_forked(status->handle)) {
    unref(status);
  }
}

const el_status_answer *el_status_wait(el_status *status, int64_t timeout_ms,
                                       size_t *n) {
  if (!el_handle_wait(status->handle, &status->news, ANSWERED, timeout_ms)) {
    return NULL;
  }
  *n = status->n;
  return status->answers;
}

bool el_status_arm(el_status *status, el_wake *wake, uint64_t id) {
  return el_completion_arm(&status->news, ANSWERED, wake, id);
}
