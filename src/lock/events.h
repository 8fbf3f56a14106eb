/* events: what happened to a client's locks, members and requests, kept until Lua reads it.
 *
 * A ring of limited size: an event that finds it full is only counted. Many requests fail while
 * etcd is unreachable; failures with the same error text share one event, so that they leave room
 * for others. Unless the client has a log or metrics, only leaked locks are recorded: those are
 * defects of the program, and reported in any case.
 */
#ifndef ETCDLOCK_LOCK_EVENTS_H
#define ETCDLOCK_LOCK_EVENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "protocol/entry.h"

/* el_event_kind is what happened. */
typedef enum el_event_kind {
  EL_EVENT_LEAKED, /* a lock was garbage-collected while held */
  EL_EVENT_ENDED,  /* a hold ended with its nginx request, or with its client */
  EL_EVENT_LOST,   /* a hold was lost */
  EL_EVENT_FAILOVER, /* the client left a member for another one */
  EL_EVENT_RETRY,    /* a request failed with a retriable error */
  EL_EVENT_KINDS
} el_event_kind;

/* el_event is one event, or several failures with the same text. */
typedef struct el_event {
  el_event_kind kind;
  el_bytes subject; /* full name of the lock (el_lock_options), or the member */
  el_bytes why;  /* the error text of a loss, a change of member or a retry */
  int64_t at_ms; /* el_now_ms when it happened; of failures, the first */
  int64_t count; /* number of failures with this text; else 1 */
  /* The rest is about locks. */
  el_mode mode;    /* EL_MODE_READ after a downgrade */
  bool leads;      /* as in el_lock_options */
  bool is_in_with; /* as in el_lock_options */
  el_loss loss;    /* LOST: why */
  int64_t token;   /* of the hold */
  int64_t held_us; /* duration of the hold, in microseconds */
} el_event;

enum { EL_EVENTS_MAX = 128 };

/* el_events is the ring of the events of one client. Any thread may add an event; Lua takes them.
 */
typedef struct el_events {
  bool are_wanted; /* record all kinds; set before the I/O thread starts */
  /* set when an event is recorded, dropped or about to be; cleared when the ring is found empty */
  atomic_bool has_some;
  pthread_mutex_t mu; /* guards the rest; a leaf */
  unsigned first, n;  /* index of the oldest event, number of events */
  el_event *ring;     /* EL_EVENTS_MAX events; NULL until the first */
  int64_t dropped[EL_EVENT_KINDS]; /* not recorded, because the ring was full */
} el_events;

/* el_events_init sets |events| to empty. @thread any */
void el_events_init(el_events *events);

/* el_events_destroy frees what |events| owns. @thread any */
void el_events_destroy(el_events *events);

/* el_events_note records |event|, with a copy of its bytes and the present time. @thread any */
void el_events_note(el_events *events, const el_event *event);

/* el_events_note_change changes |state| from |from| to |to| and records |event|. A thread that sees
 * the new state finds the event, if it was wanted and the ring had room. False: |state| was not
 * |from|, and nothing is recorded. @thread any @locks events->mu */
bool el_events_note_change(el_events *events, const el_event *event,
                           atomic_int *state, int from, int to);

/* el_events_note_failure records that a request failed with |err|, if |err| is retriable.
 * @thread any */
void el_events_note_failure(el_events *events, const el_error *err);

/* el_events_has_some tells whether there may be events; it takes no mutex. @thread any */
bool el_events_has_some(const el_events *events);

/* el_events_take removes the oldest event; the caller frees it with el_event_free. False: there is
 * none. @thread any */
bool el_events_take(el_events *events, el_event *event);

/* el_events_take_dropped returns how many events of |kind| were dropped since the last call.
 * @thread any */
int64_t el_events_take_dropped(el_events *events, el_event_kind kind);

/* el_event_free frees the bytes of an event that was taken. @thread any */
void el_event_free(const el_event *event);

#endif
