/* watcher: counts the changes of the keys that begin alike. */
#include "lock/watcher.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/completion.h"
#include "base/container_of.h"

struct el_watcher {
  atomic_int refs;
  el_handle *handle;
  el_watcher_world *world;
  el_bytes prefix; /* owned */
  el_command start_command, stop_command;
  bool closed; /* stop_command was posted; for the Lua thread only */
  el_completion news;

  pthread_mutex_t mu; /* guards the next five; held while news is completed */
  int64_t changes;    /* number of changes so far */
  int64_t rev;        /* store revision of the last change, 0: unknown */
  int64_t passed;     /* value of |changes| at the last el_watcher_pass */
  el_bytes only; /* owned; after |passed| only this key counts, NULL: all do */
  el_error err;  /* why the watcher has ended; EL_OK: it has not */

  /* For the I/O thread only. */
  el_watch watch;
  bool listed; /* in world->all */
  TAILQ_ENTRY(el_watcher) link;
};

/* ---- changes ---- */

/* After one change that was not passed yet, every key counts: the change may
 * have made another key important. */
static bool counts(const el_watcher *watcher, el_bytes key) {
  return watcher->changes != watcher->passed || watcher->only.data == NULL ||
         key.data == NULL || el_bytes_are_equal(watcher->only, key);
}

/* |key|: what has changed; no data: any key may have. |rev| 0: unknown. */
static void note_change(el_watcher *watcher, el_bytes key, int64_t rev) {
  pthread_mutex_lock(&watcher->mu);
  if (counts(watcher, key)) {
    watcher->changes++;
    watcher->rev = rev;
    el_completion_complete(&watcher->news, EL_WATCHER_NEWS);
  }
  pthread_mutex_unlock(&watcher->mu);
}

/* The first reason counts. */
static void end(el_watcher *watcher, const el_error *err) {
  pthread_mutex_lock(&watcher->mu);
  if (watcher->err.code == EL_OK) watcher->err = *err;
  el_completion_complete(&watcher->news, EL_WATCHER_NEWS | EL_WATCHER_END);
  pthread_mutex_unlock(&watcher->mu);
}

static void on_watch_event(el_watch *watch, const el_watch_event *event) {
  el_watcher *watcher = EL_CONTAINER_OF(watch, el_watcher, watch);
  switch (event->kind) {
    case EL_WATCH_CREATED:
      EL_COUNT(watcher->world->counters, watches, 1);
      note_change(watcher, (el_bytes){0}, event->rev);
      return;
    case EL_WATCH_PUT:
    case EL_WATCH_DELETED:
      note_change(watcher, event->key, event->rev);
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
    /* Without memory for a copy every key counts. */
    watcher->only =
        (el_bytes){only.data != NULL ? el_bytes_copy(only) : NULL, only.len};
    if (watcher->err.code == EL_OK) {
      el_completion_clear(&watcher->news, EL_WATCHER_NEWS);
    }
  }
  pthread_mutex_unlock(&watcher->mu);
}

bool el_watcher_wait(el_watcher *watcher, el_watcher_news news,
                     int64_t timeout_ms) {
  return el_handle_wait(watcher->handle, &watcher->news, news, timeout_ms);
}

bool el_watcher_arm(el_watcher *watcher, el_watcher_news news, el_wake *wake,
                    uint64_t id) {
  return el_completion_arm(&watcher->news, news, wake, id);
}

void el_watcher_disarm(el_watcher *watcher, el_watcher_news news, uint64_t id) {
  el_completion_disarm(&watcher->news, news, id);
}

/* ---- life ---- */

static void unref(el_watcher *watcher) {
  if (atomic_fetch_sub(&watcher->refs, 1) != 1) return;
  pthread_mutex_destroy(&watcher->mu);
  el_completion_destroy(&watcher->news);
  el_bytes_free(watcher->prefix);
  el_bytes_free(watcher->only);
  el_handle_unref(watcher->handle);
  free(watcher);
}

/* Its reference is the list's. */
static void unlist(el_watcher *watcher) {
  if (!watcher->listed) return;
  watcher->listed = false;
  TAILQ_REMOVE(&watcher->world->all, watcher, link);
  el_watch_stop(watcher->world->watches, &watcher->watch);
  unref(watcher);
}

static void run_start(el_command *command) {
  el_watcher *watcher = EL_CONTAINER_OF(command, el_watcher, start_command);
  el_watcher_world *world = watcher->world;
  if (world->closed.code != EL_OK) {
    end(watcher, &world->closed);
    unref(watcher);
    return;
  }
  watcher->listed = true;
  TAILQ_INSERT_TAIL(&world->all, watcher, link);
  watcher->watch.on_event = on_watch_event;
  el_watch_start_prefix(world->watches, &watcher->watch, watcher->prefix);
}

static void run_stop(el_command *command) {
  el_watcher *watcher = EL_CONTAINER_OF(command, el_watcher, stop_command);
  unlist(watcher);
  unref(watcher);
}

/* Posts |command| with a reference of its own. */
static bool post(el_watcher *watcher, el_command *command) {
  atomic_fetch_add(&watcher->refs, 1);
  if (el_handle_post(watcher->handle, command)) return true;
  unref(watcher);
  return false;
}

static el_watcher *new_watcher(el_handle *handle, el_bytes prefix) {
  el_watcher *watcher = calloc(1, sizeof *watcher);
  if (watcher == NULL) return NULL;
  watcher->prefix = (el_bytes){el_bytes_copy(prefix), prefix.len};
  if (watcher->prefix.data == NULL) {
    free(watcher);
    return NULL;
  }
  atomic_init(&watcher->refs, 1);
  watcher->handle = el_handle_ref(handle);
  watcher->start_command.run = run_start;
  watcher->stop_command.run = run_stop;
  pthread_mutex_init(&watcher->mu, NULL);
  el_completion_init(&watcher->news);
  return watcher;
}

el_watcher *el_watcher_new(el_handle *handle, el_watcher_world *world,
                           el_bytes prefix, el_error *err) {
  el_watcher *watcher;
  if (!el_handle_is_usable(handle, err)) return NULL;
  watcher = new_watcher(handle, prefix);
  if (watcher == NULL) {
    el_error_set(err, EL_NOMEM, "no memory to watch with");
    return NULL;
  }
  watcher->world = world;
  if (post(watcher, &watcher->start_command)) return watcher;
  unref(watcher);
  el_error_set(err, EL_CLOSED, "the client is closed");
  return NULL;
}

void el_watcher_close(el_watcher *watcher) {
  el_error err;
  if (el_handle_is_forked(watcher->handle)) return;
  if (!watcher->closed) post(watcher, &watcher->stop_command);
  watcher->closed = true;
  el_error_set(&err, EL_CLOSED, "it was closed");
  end(watcher, &err);
}

void el_watcher_drop(el_watcher *watcher) {
  if (el_handle_is_forked(watcher->handle)) return; /* the parent's: leaked */
  el_watcher_close(watcher);
  unref(watcher);
}

/* ---- of all ---- */

void el_watcher_world_init(el_watcher_world *world, el_watches *watches,
                           el_counters *counters) {
  world->watches = watches;
  world->counters = counters;
  world->closed.code = EL_OK;
  TAILQ_INIT(&world->all);
}

void el_watcher_world_close(el_watcher_world *world, const el_error *err) {
  el_watcher *watcher;
  world->closed = *err;
  TAILQ_FOREACH(watcher, &world->all, link) { end(watcher, err); }
}

void el_watcher_world_tell_outage(el_watcher_world *world) {
  el_watcher *watcher;
  TAILQ_FOREACH(watcher, &world->all, link) {
    note_change(watcher, (el_bytes){0}, 0);
  }
}

void el_watcher_world_free(el_watcher_world *world) {
  while (!TAILQ_EMPTY(&world->all)) {
    unlist(TAILQ_FIRST(&world->all));
  }
}
