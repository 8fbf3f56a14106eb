/* events: what happened to a client's locks, members and requests, kept until Lua reads it. */
#include "lock/events.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

void el_events_init(el_events *events) {
  memset(events, 0, sizeof *events);
  pthread_mutex_init(&events->mu, NULL);
}

void el_event_free(const el_event *event) {
  el_bytes_free(event->subject);
  el_bytes_free(event->why);
}

void el_events_destroy(el_events *events) {
  for (unsigned i = 0; i < events->n; i++) {
    el_event_free(&events->ring[(events->first + i) % EL_EVENTS_MAX]);
  }
  free(events->ring);
  pthread_mutex_destroy(&events->mu);
}

static bool has_room(el_events *events) {
  if (events->ring == NULL) {
    events->ring = calloc(EL_EVENTS_MAX, sizeof *events->ring);
  }
  return events->ring != NULL && events->n < EL_EVENTS_MAX;
}

static el_bytes copy_of(el_bytes bytes) {
  if (bytes.data == NULL) return (el_bytes){0};
  bytes.data = el_bytes_copy(bytes);
  if (bytes.data == NULL) bytes.len = 0;
  return bytes;
}

static bool is_retry_with(const el_event *event, el_bytes why) {
  return event->kind == EL_EVENT_RETRY && event->why.data != NULL &&
         el_bytes_are_equal(event->why, why);
}

/* Returns the recorded event to whose count |event| is to be added. NULL: there is none. */
static el_event *find_same(el_events *events, const el_event *event) {
  if (event->kind != EL_EVENT_RETRY) return NULL;
  for (unsigned i = 0; i < events->n; i++) {
    el_event *one = &events->ring[(events->first + i) % EL_EVENTS_MAX];
    if (is_retry_with(one, event->why)) return one;
  }
  return NULL;
}

static void add(el_events *events, const el_event *event) {
  el_event *added =
      &events->ring[(events->first + events->n++) % EL_EVENTS_MAX];
  *added = *event;
  added->subject = copy_of(event->subject);
  added->why = copy_of(event->why);
  added->at_ms = el_now_ms();
  added->count = 1;
  atomic_store(&events->has_some, true);
}

static bool is_wanted(const el_events *events, const el_event *event) {
  return events->are_wanted || event->kind == EL_EVENT_LEAKED ||
         event->kind == EL_EVENT_LOST;
}

static void note(el_events *events, const el_event *event) {
  el_event *same = find_same(events, event);
  if (same != NULL) {
    same->count++;
  } else if (has_room(events)) {
    add(events, event);
  } else {
    events->dropped[event->kind]++;
    atomic_store(&events->has_some, true);
  }
}

void el_events_note(el_events *events, const el_event *event) {
  if (!is_wanted(events, event)) return;
  pthread_mutex_lock(&events->mu);
  note(events, event);
  pthread_mutex_unlock(&events->mu);
}

/* |has_some| is set before the change, so a thread that sees the new state also sees |has_some|. It
 * then calls el_events_take, which waits for the mutex, and gets the event. */
bool el_events_note_change(el_events *events, const el_event *event,
                           atomic_int *state, int from, int to) {
  bool is_changed;
  if (!is_wanted(events, event)) {
    return atomic_compare_exchange_strong(state, &from, to);
  }
  pthread_mutex_lock(&events->mu);
  atomic_store(&events->has_some, true);
  is_changed = atomic_compare_exchange_strong(state, &from, to);
  if (is_changed) {
    note(events, event);
  }
  pthread_mutex_unlock(&events->mu);
  return is_changed;
}

void el_events_note_failure(el_events *events, const el_error *err) {
  if (!err->is_retriable || !events->are_wanted) return;
  if (err->code == EL_UNAVAILABLE && events->failing_since_ms == 0) {
    events->failing_since_ms = el_now_ms();
  }
  pthread_mutex_lock(&events->mu);
  events->has_recovered = false;
  note(events, &(el_event){.kind = EL_EVENT_RETRY,
                           .why = {err->text, strlen(err->text)}});
  pthread_mutex_unlock(&events->mu);
}

void el_events_note_answer(el_events *events) {
  int64_t now_ms;
  if (events->failing_since_ms == 0) return;
  now_ms = el_now_ms();
  pthread_mutex_lock(&events->mu);
  events->recovered =
      (el_event){.kind = EL_EVENT_RECOVERED,
                 .at_ms = now_ms,
                 .count = 1,
                 .lasted_us = (now_ms - events->failing_since_ms) * 1000};
  events->has_recovered = true;
  atomic_store(&events->has_some, true);
  pthread_mutex_unlock(&events->mu);
  events->failing_since_ms = 0;
}

bool el_events_has_some(const el_events *events) {
  return atomic_load_explicit(&events->has_some, memory_order_relaxed);
}

bool el_events_take(el_events *events, el_event *event) {
  bool has_one;
  pthread_mutex_lock(&events->mu);
  has_one = events->n > 0 || events->has_recovered;
  if (events->n > 0) {
    *event = events->ring[events->first];
    events->first = (events->first + 1) % EL_EVENTS_MAX;
    events->n--;
  } else if (has_one) {
    *event = events->recovered;
    events->has_recovered = false;
  }
  if (events->n == 0 && !events->has_recovered) {
    atomic_store(&events->has_some, false);
  }
  pthread_mutex_unlock(&events->mu);
  return has_one;
}

int64_t el_events_take_dropped(el_events *events, el_event_kind kind) {
  int64_t n;
  pthread_mutex_lock(&events->mu);
  n = events->dropped[kind];
  events->dropped[kind] = 0;
  pthread_mutex_unlock(&events->mu);
  return n;
}
