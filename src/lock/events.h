/* events: what happens to a client's locks, members and requests while its program does
 * something else, kept until that asks.
 *
 * A ring of bounded size: what finds no room is counted. Requests that fail are many in
 * an outage: those that fail for one reason are one event, and leave room to the others.
 * Unless somebody wants to read of everything, only those locks are noted
 * that nobody has kept, because their owners must hear of them in any case.
 */
#ifndef ETCDLOCK_LOCK_EVENTS_H
#define ETCDLOCK_LOCK_EVENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "rules/entry.h"

typedef enum el_event_kind {
  EL_EVENT_COLLECTED, /* a lock was dropped while it was held */
  EL_EVENT_ENDED, /* a hold has ended with its request of nginx, or its client */
  EL_EVENT_LOST,  /* a hold was lost */
  EL_EVENT_MEMBER_LEFT, /* another member of the cluster is used from now on */
  EL_EVENT_RETRY,       /* a request has failed that is worth another try */
  EL_EVENT_KINDS
} el_event_kind;

typedef struct el_event {
  el_event_kind kind;
  el_bytes
      subject; /* the lock, as el_lock_options names it; the member that was left */
  el_bytes why; /* it was lost, a member was left, a request has failed */
  int64_t at_ms;
  int64_t count; /* of requests that have failed so */
  /* Of a lock. */
  el_mode mode; /* a writer's that was downgraded is a reader's */
  bool leads;   /* as el_lock_options */
  el_loss loss;
  int64_t token;
  int64_t held_us; /* how long it was held */
} el_event;

enum { EL_EVENTS_MAX = 128 };

typedef struct el_events {
  bool are_wanted; /* all kinds; set before anybody else knows them */
  atomic_bool has_some;
  pthread_mutex_t mu; /* guards the rest; a leaf */
  unsigned first, n;
  el_event *ring; /* of EL_EVENTS_MAX; NULL: there was none yet */
  int64_t left_out[EL_EVENT_KINDS];
} el_events;

/* @thread any */
void el_events_init(el_events *events);

/* @thread any */
void el_events_destroy(el_events *events);

/* Notes |event|, whose bytes are copied, and whose time is now. @thread any */
void el_events_note(el_events *events, const el_event *event);

/* Changes |state| from |from| to |to|, and notes |event| of it: whoever sees the change
 * finds the event, if it was wanted and had room. False if it was not |from|. @thread any @locks events->mu */
bool el_events_note_change(el_events *events, const el_event *event,
                           atomic_int *state, int from, int to);

/* Notes that a request has ended with |err|, if it is worth another try.
 * @thread any */
void el_events_note_failure(el_events *events, const el_error *err);

/* May there be some? Cheap. @thread any */
bool el_events_has_some(const el_events *events);

/* Takes the oldest one; its bytes are the caller's. False: there is none.
 * @thread any */
bool el_events_take(el_events *events, el_event *event);

/* How many of |kind| found no room since the last time. @thread any */
int64_t el_events_take_left_out(el_events *events, el_event_kind kind);

/* Frees the bytes of one that was taken. @thread any */
void el_event_free(const el_event *event);

#endif
