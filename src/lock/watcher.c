/* watcher: what happens to the keys that begin alike, in order. */
#include "lock/watcher.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/completion.h"
#include "base/of.h"

/* Nobody takes them: then only where things stand counts. */
enum { BYTES_MAX = 4 * 1024 * 1024 };

STAILQ_HEAD(event_list, el_watcher_event);

struct el_watcher {
  atomic_int refs;
  el_handle *handle;
  el_watcher_world *world;
  el_bytes prefix; /* owned */
  el_command start_command, stop_command;
  bool closed;             /* Lua's own: stop_command was posted */
  el_watcher_event *first; /* Lua's own: of the events, taken out */
  el_completion news;

  pthread_mutex_t mu; /* guards the rest; the completion is told under it */
  struct event_list events;
  size_t bytes; /* of the events */
  el_error err; /* code EL_OK: it goes on */

  /* The I/O thread's own. */
  el_watch watch;
  bool listed; /* in world->all */
  TAILQ_ENTRY(el_watcher) link;
};

/* ---- news ---- */

static void free_event(el_watcher_event *event) {
  if (event == NULL) return;
  el_bytes_free(event->key);
  el_bytes_free(event->value);
  free(event);
}

static size_t size_of(const el_watcher_event *event) {
  return sizeof *event + event->key.len + event->value.len;
}

static el_watcher_event *take_first(el_watcher *watcher) {
  el_watcher_event *event = STAILQ_FIRST(&watcher->events);
  if (event != NULL) {
    STAILQ_REMOVE_HEAD(&watcher->events, link);
    watcher->bytes -= size_of(event);
  }
  return event;
}

static void forget_events(el_watcher *watcher) {
  el_watcher_event *event;
  while ((event = take_first(watcher)) != NULL) {
    free_event(event);
  }
}

static el_watcher_event *new_event(int kind, int64_t rev) {
  el_watcher_event *event = el_alloc(sizeof *event);
  event->kind = kind;
  event->rev = rev;
  return event;
}

static el_bytes own(el_bytes bytes) {
  return (el_bytes){el_strndup(bytes.data, bytes.len), bytes.len};
}

static el_watcher_event *new_change(int kind, const el_watch_event *from) {
  el_watcher_event *event = new_event(kind, from->rev);
  event->create_rev = from->create_rev;
  event->more = from->more;
  event->key = own(from->key);
  if (kind == EL_WATCHER_PUT) event->value = own(from->value);
  return event;
}

/* Instead of |event|, which it frees: that there was one, of some revision. */
static el_watcher_event *reset_for(el_watcher_event *event) {
  el_watcher_event *reset = new_event(EL_WATCHER_RESET, event->rev);
  free_event(event);
  return reset;
}

static void push(el_watcher *watcher, el_watcher_event *event) {
  pthread_mutex_lock(&watcher->mu);
  if (watcher->bytes > BYTES_MAX && event->rev > 0) {
    forget_events(watcher);
    event = reset_for(event);
  }
  STAILQ_INSERT_TAIL(&watcher->events, event, link);
  watcher->bytes += size_of(event);
  el_completion_complete(&watcher->news, EL_WATCHER_NEWS);
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
  el_watcher *watcher = EL_OF(watch, el_watcher, watch);
  switch (event->kind) {
    case EL_WATCH_CREATED:
      EL_COUNT(watcher->world->counters, watches, 1);
      push(watcher, new_event(EL_WATCHER_RESET, event->rev));
      return;
    case EL_WATCH_PUT:
      push(watcher, new_change(EL_WATCHER_PUT, event));
      return;
    case EL_WATCH_DELETED:
      push(watcher, new_change(EL_WATCHER_DELETED, event));
      return;
    case EL_WATCH_REFUSED:
      end(watcher, &event->err);
      return;
  }
}

const el_watcher_event *el_watcher_first(el_watcher *watcher, el_error *err) {
  pthread_mutex_lock(&watcher->mu);
  *err = watcher->err;
  if (watcher->first == NULL) {
    watcher->first = take_first(watcher);
  }
  pthread_mutex_unlock(&watcher->mu);
  return err->code == EL_OK ? watcher->first : NULL;
}

void el_watcher_pass(el_watcher *watcher) {
  free_event(watcher->first);
  watcher->first = NULL;
  pthread_mutex_lock(&watcher->mu);
  if (STAILQ_EMPTY(&watcher->events) && watcher->err.code == EL_OK) {
    el_completion_clear(&watcher->news, EL_WATCHER_NEWS);
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
  forget_events(watcher);
  free_event(watcher->first);
  pthread_mutex_destroy(&watcher->mu);
  el_completion_destroy(&watcher->news);
  el_bytes_free(watcher->prefix);
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
  el_watcher *watcher = EL_OF(command, el_watcher, start_command);
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
  el_watcher *watcher = EL_OF(command, el_watcher, stop_command);
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
  STAILQ_INIT(&watcher->events);
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
    push(watcher, new_event(EL_WATCHER_AWAY, 0));
  }
}

void el_watcher_world_free(el_watcher_world *world) {
  while (!TAILQ_EMPTY(&world->all)) {
    unlist(TAILQ_FIRST(&world->all));
  }
}
