/* events: what happened to a client's locks, members and requests, kept until Lua reads it.
 *
 * The events are kept in a ring of limited size. If the ring is full, a further event is only
 * counted. While etcd is unreachable many requests fail. Failures with the same error text share
 * one event, so that they leave room for other events. That etcd answers again is recorded beside
 * the ring, at most once, and is taken after all other events. If the client has neither a log nor
 * metrics, only leaked and lost locks are recorded, because they are reported in any case. */
#ifndef ETCDLOCK_LOCK_EVENTS_H
#define ETCDLOCK_LOCK_EVENTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "protocol/key.h"
#include "protocol/loss.h"

/* el_event_kind is the kind of an event. */
typedef enum el_event_kind {
  EL_EVENT_LEAKED, /* a lock was garbage-collected while held */
  /* a hold ended because its nginx request ended or its client was closed */
  EL_EVENT_ENDED,
  EL_EVENT_LOST,     /* a hold was lost */
  EL_EVENT_REQUEUED, /* the lease has ended during a wait, which goes on */
  EL_EVENT_FAILOVER, /* the client left a member for another one */
  EL_EVENT_RETRY,    /* a request failed with a retriable error */
  /* etcd has answered a request after failures with EL_UNAVAILABLE */
  EL_EVENT_RECOVERED,
  EL_EVENT_KINDS
} el_event_kind;

/* el_event is one event, or several failures with the same text. */
typedef struct el_event {
  el_event_kind kind;
  /* full name of the lock (el_lock_options); of a failover: the member that was left */
  el_bytes subject;
  el_bytes why; /* the error text of a loss, a failover or a retry */
  /* el_now_ms when the event, or the first of the failures, happened */
  int64_t at_ms;
  int64_t count; /* number of failures with this text; other kinds: 1 */
  /* duration of the hold, or of the failures before etcd answered again, in microseconds */
  int64_t lasted_us;
  /* The fields below are set in events of locks; EL_EVENT_REQUEUED: only |mode|, |leads|. */
  el_mode mode;    /* mode of the lock; EL_MODE_READ after a downgrade */
  bool leads;      /* as in el_lock_options */
  bool is_in_with; /* as in el_lock_options */
  el_loss loss;    /* EL_EVENT_LOST: the reason */
  int64_t token;   /* fencing token of the hold */
} el_event;

enum { EL_EVENTS_MAX = 128 };

/* el_events is the ring of the events of one client. Any thread may add an event; Lua takes them.
 */
typedef struct el_events {
  /* record all kinds, not only leaked and lost locks; set before the I/O thread starts */
  bool are_wanted;
  /* Set when an event is recorded or dropped, or is about to be. Cleared when el_events_take leaves
   * no event. */
  atomic_bool has_some;
  /* when the first failure with EL_UNAVAILABLE since the last answer happened (el_now_ms); 0: none.
   * Used by the I/O thread only. */
  int64_t failing_since_ms;
  /* guards the fields below; no other mutex is locked under it */
  pthread_mutex_t mu;
  unsigned first, n; /* index of the oldest event, number of events */
  el_event *ring;    /* EL_EVENTS_MAX events; NULL until the first */
  /* EL_EVENT_RECOVERED, if |has_recovered|: no request has failed since */
  el_event recovered;
  bool has_recovered;
  /* number of events that were not recorded, because the ring was full or there was no memory */
  int64_t dropped[EL_EVENT_KINDS];
} el_events;

/* el_events_init sets |events| to empty. @thread any */
void el_events_init(el_events *events);

/* el_events_destroy frees what |events| owns. @thread any */
void el_events_destroy(el_events *events);

/* el_events_note records |event|, with a copy of its bytes and the present time, if the client
 * wants events of its kind. @thread any */
void el_events_note(el_events *events, const el_event *event);

/* el_events_note_change changes |state| from |from| to |to| and records |event|. If the event is
 * wanted and the ring has room, a thread that sees the new state also finds the event. Returns
 * false if |state| was not |from|; nothing is recorded then. @thread any @locks events->mu */
bool el_events_note_change(el_events *events, const el_event *event,
                           atomic_int *state, int from, int to);

/* el_events_note_failure records that a request failed with |err|, if |err| is retriable and the
 * client wants events of this kind. @thread io */
void el_events_note_failure(el_events *events, const el_error *err);

/* el_events_note_answer records that etcd has answered a request, if requests have failed with
 * EL_UNAVAILABLE since the last answer. @thread io */
void el_events_note_answer(el_events *events);

/* el_events_has_some tells whether there may be events; it takes no mutex. @thread any */
bool el_events_has_some(const el_events *events);

/* el_events_take moves the oldest event to |event|, which the caller frees with el_event_free.
 * Returns false if there is none. @thread any */
bool el_events_take(el_events *events, el_event *event);

/* el_events_take_dropped returns how many events of |kind| were dropped since the last call.
 * @thread any */
int64_t el_events_take_dropped(el_events *events, el_event_kind kind);

/* el_event_free frees the bytes of an event that was taken. @thread any */
void el_event_free(const el_event *event);

#endif
