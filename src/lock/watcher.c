/* watcher: counts changes of the keys with a common prefix. */
#include "lock/watcher.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/container_of.h"
#include "lock/task.h"

struct el_watcher {
  el_task task;    /* its events are el_watcher_event */
  el_bytes prefix; /* owned */
  el_command start_command, stop_command;
  bool is_closed; /* stop_command is posted; used by the Lua thread only */

  /* guards the next five; held while the events change */
  pthread_mutex_t mu;
  int64_t changes; /* number of changes so far */
  int64_t rev;     /* store revision of the last change, 0: unknown */
  int64_t passed;  /* value of |changes| at the last el_watcher_pass */
  /* Owned. While |changes| is |passed|, only a change of this key counts; without data: a change of
   * any key. */
  el_bytes only;
  el_error err; /* why the watcher has ended; code EL_OK: it has not */

  /* Used by the I/O thread only. */
  el_watch watch;
  bool is_listed; /* in the list shared->watchers, which has a reference */
  TAILQ_ENTRY(el_watcher) link;
};

/* ---- changes ---- */

/* Tells whether a change of |key| counts. If a change was counted but not passed yet, a change of
 * any key counts, because the earlier change may have made another key important. */
static bool is_counted(const el_watcher *watcher, el_bytes key) {
  return watcher->changes != watcher->passed || watcher->only.data == NULL ||
         key.data == NULL || el_bytes_are_equal(watcher->only, key);
}

/* Counts a change of |key| at the store's revision |rev| (0: unknown). |key| without data: any key
 * may have changed. */
static void count_change(el_watcher *watcher, el_bytes key, int64_t rev) {
  pthread_mutex_lock(&watcher->mu);
  if (is_counted(watcher, key)) {
    watcher->changes++;
    watcher->rev = rev;
    el_completion_complete(&watcher->task.completion, EL_WATCHER_CHANGED);
  }
  pthread_mutex_unlock(&watcher->mu);
}

/* Ends the watcher with |err|, unless it has ended for another reason. */
static void end(el_watcher *watcher, const el_error *err) {
  pthread_mutex_lock(&watcher->mu);
  if (watcher->err.code == EL_OK) watcher->err = *err;
  el_completion_complete(&watcher->task.completion,
                         EL_WATCHER_CHANGED | EL_WATCHER_ENDED);
  pthread_mutex_unlock(&watcher->mu);
}

static void on_watch_event(el_watch *watch, const el_watch_event *event) {
  el_watcher *watcher = EL_CONTAINER_OF(watch, el_watcher, watch);
  switch (event->kind) {
    case EL_WATCH_CREATED:
      EL_COUNT(&watcher->task.shared->counters, watches, 1);
      count_change(watcher, (el_bytes){0}, event->rev);
      return;
    case EL_WATCH_PUT:
    case EL_WATCH_DELETED:
      count_change(watcher, event->key, event->rev);
      return;
    case EL_WATCH_REFUSED:
      end(watcher, &event->err);
      return;
  }
}

int64_t el_watcher_changes(el_watcher *watcher, int64_t *rev, el_error *err) {
  int64_t changes;
  pthread_mutex_lock(&watcher->mu);
  changes = watcher->changes;
  *rev = watcher->rev;
  *err = watcher->err;
  pthread_mutex_unlock(&watcher->mu);
  return changes;
}

void el_watcher_pass(el_watcher *watcher, int64_t changes, el_bytes only) {
  pthread_mutex_lock(&watcher->mu);
  if (changes == watcher->changes) {
    watcher->passed = changes;
    el_bytes_free(watcher->only);
    /* If there is no memory for a copy, any key counts. */
    watcher->only =
        (el_bytes){only.data != NULL ? el_bytes_copy(only) : NULL, only.len};
    if (watcher->err.code == EL_OK) {
      el_completion_clear(&watcher->task.completion, EL_WATCHER_CHANGED);
    }
  }
  pthread_mutex_unlock(&watcher->mu);
}

bool el_watcher_wait(el_watcher *watcher, el_watcher_event event,
                     int64_t timeout_ms) {
  return el_task_wait(&watcher->task, event, timeout_ms);
}

el_completion *el_watcher_completion(el_watcher *watcher) {
  return &watcher->task.completion;
}

/* ---- start and stop ---- */

static void unref(el_watcher *watcher) {
  if (!el_task_unref(&watcher->task)) return;
  pthread_mutex_destroy(&watcher->mu);
  el_bytes_free(watcher->prefix);
  el_bytes_free(watcher->only);
  free(watcher);
}

static void unlist(el_watcher *watcher) {
  if (!watcher->is_listed) return;
  watcher->is_listed = false;
  TAILQ_REMOVE(&watcher->task.shared->watchers, watcher, link);
  el_watch_stop(watcher->task.shared->watches, &watcher->watch);
  unref(watcher);
}

static void run_start(el_command *command) {
  el_watcher *watcher = EL_CONTAINER_OF(command, el_watcher, start_command);
  el_shared *shared = watcher->task.shared;
  if (shared->closed.code != EL_OK) {
    end(watcher, &shared->closed);
    unref(watcher);
    return;
  }
  watcher->is_listed = true;
  TAILQ_INSERT_TAIL(&shared->watchers, watcher, link);
  watcher->watch.on_event = on_watch_event;
  el_watch_start_prefix(shared->watches, &watcher->watch, watcher->prefix);
}

static void run_stop(el_command *command) {
  el_watcher *watcher = EL_CONTAINER_OF(command, el_watcher, stop_command);
  unlist(watcher);
  unref(watcher);
}

static el_watcher *new_watcher(el_shared *shared, el_bytes prefix) {
  el_watcher *watcher = calloc(1, sizeof *watcher);
  if (watcher == NULL) return NULL;
  watcher->prefix = (el_bytes){el_bytes_copy(prefix), prefix.len};
  if (watcher->prefix.data == NULL) {
    free(watcher);
    return NULL;
  }
  el_task_init(&watcher->task, shared);
  watcher->start_command.run = run_start;
  watcher->stop_command.run = run_stop;
  pthread_mutex_init(&watcher->mu, NULL);
  return watcher;
}

el_watcher *el_watcher_new(el_shared *shared, el_bytes prefix, el_error *err) {
  el_watcher *watcher;
  if (!el_shared_is_usable(shared, err)) return NULL;
  watcher = new_watcher(shared, prefix);
  if (watcher == NULL) {
    el_error_set(err, EL_NOMEM, "no memory for a watcher");
    return NULL;
  }
  if (el_task_post(&watcher->task, &watcher->start_command, err)) {
    return watcher;
  }
  unref(watcher);
  return NULL;
}

void el_watcher_close(el_watcher *watcher) {
  el_error err;
  if (el_shared_is_forked(watcher->task.shared)) return;
  if (!watcher->is_closed) {
    el_task_post(&watcher->task, &watcher->stop_command, NULL);
  }
  watcher->is_closed = true;
  el_error_set(&err, EL_CLOSED, "the observer was closed");
  end(watcher, &err);
}

void el_watcher_drop(el_watcher *watcher) {
  if (el_shared_is_forked(watcher->task.shared))
    return; /* the parent's I/O thread owns the watcher */
  el_watcher_close(watcher);
  unref(watcher);
}

/* ---- all watchers of a client, on the I/O thread ---- */

void el_watcher_close_all(el_shared *shared) {
  el_watcher *watcher;
  TAILQ_FOREACH(watcher, &shared->watchers, link) {
    end(watcher, &shared->closed);
  }
}

void el_watcher_wake_all(el_shared *shared) {
  el_watcher *watcher;
  TAILQ_FOREACH(watcher, &shared->watchers, link) {
    count_change(watcher, (el_bytes){0}, 0);
  }
}

void el_watcher_free_all(el_shared *shared) {
  while (!TAILQ_EMPTY(&shared->watchers)) {
    unlist(TAILQ_FIRST(&shared->watchers));
  }
}
