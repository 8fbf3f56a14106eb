/* write_order: the order in which the guarded writes of one hold take effect, as a pure step
 * function (see entry.h).
 *
 *   IDLE -start-> WRITING -answered, or failed-> IDLE
 *     |           |     ^
 *     |   another |     | touched
 *     |  revision v     |
 *     +--start--> TOUCHING -key gone, or failed-> IDLE
 *        in doubt
 *
 * A write of unknown outcome may be applied later, after writes that the same hold has sent since.
 * So the writes of a hold are sent one at a time, and are guarded by the mod_revision of one key,
 * the order key. After a write in doubt, and before the next write, the client touches the order
 * key: the late write then finds another mod_revision and changes nothing.
 *
 * The order key is the hold's own key; for a write lock, whose key must not change (key.h), it is a
 * marker. No write is applied after the own key was deleted, because every write is guarded by the
 * own key, too. A hold with a write in doubt does not hand its key off. Read holds write nothing. A
 * downgrade is a write in this order, so no other write of the hold is applied after it.
 */
#ifndef ETCDLOCK_PROTOCOL_WRITE_ORDER_H
#define ETCDLOCK_PROTOCOL_WRITE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "protocol/key.h"

/* el_write_state is the state of a write order: see the diagram above. */
typedef enum el_write_state {
  EL_WRITE_IDLE,     /* no write is in progress */
  EL_WRITE_TOUCHING, /* a write is in progress; the order key is being
                        touched first */
  EL_WRITE_WRITING   /* a write is in progress */
} el_write_state;

/* el_write_event is one event for a write order. The comment of a field names the kinds that use
 * it. */
typedef struct el_write_event {
  enum {
    EL_WRITE_ON_START,  /* a write is to be sent */
    EL_WRITE_ON_RETRY,  /* the backoff after RETRY_LATER is over */
    EL_WRITE_ON_ANSWER, /* to the request in flight; outcome all zero: it is
                           no longer awaited */
    EL_WRITE_ON_CANCEL  /* the write in progress will not be sent, or not
                           again */
  } kind;
  bool is_held;       /* start, retry, answer: the hold has not been released
                         or lost */
  bool has_order_key; /* start: the write puts the order key itself */
  el_outcome outcome; /* answer; the fields below are set only if it is
                         |is_done| */
  bool succeeded;     /* answer: all guards held */
  bool is_whole;      /* answer, not succeeded: all keys of the hold exist,
                         attached to its lease */
  bool is_detached;   /* answer, not succeeded: all keys exist, but one is
                         off its lease */
  int64_t rev;        /* answer: the store's revision */
} el_write_event;

/* el_write_action is what the caller must do next. */
typedef enum el_write_action {
  EL_WRITE_WAIT,            /* give ON_START again when the write in progress
                               is over */
  EL_WRITE_SEND_TOUCH,      /* send the transaction that touches the order
                               key */
  EL_WRITE_SEND_WRITE,      /* send the write */
  EL_WRITE_RETRY_LATER,     /* give ON_RETRY after a backoff, or ON_CANCEL */
  EL_WRITE_REPORT_DONE,     /* the write was applied */
  EL_WRITE_REPORT_FAILED,   /* the write failed; only its outcome tells
                               whether it was applied */
  EL_WRITE_REPORT_UNSENT,   /* the write failed before it was sent: it is
                               never applied */
  EL_WRITE_REPORT_NOT_HELD, /* the hold is over: the write is not sent */
  EL_WRITE_REPORT_KEY_GONE, /* a key of the hold is gone: the write is not
                               applied */
} el_write_action;

/* el_write_order is the state machine of the guarded writes of one hold. */
typedef struct el_write_order {
  int64_t mod_rev; /* mod_revision of the order key; 0: it does not
                      exist */
  el_write_state state : 8;
  bool is_in_doubt : 1;   /* a write that was sent may be applied later */
  bool has_order_key : 1; /* WRITING: as in the event */
} el_write_order;

/* el_write_order_initial_rev returns the order key's mod_revision at the begin of a hold of |mode|
 * that etcd granted by a key with create_revision |rev|. @thread any */
int64_t el_write_order_initial_rev(el_mode mode, int64_t rev);

/* el_write_order_init begins the order of a new hold. |mod_rev| is el_write_order_initial_rev, or
 * after a handoff the el_write_order_handoff_rev of the hold before. @thread any */
void el_write_order_init(el_write_order *order, int64_t mod_rev);

/* el_write_order_handoff_rev returns the order key's mod_revision for the next hold by the same
 * key. -1: a write of this hold may be applied later, so there must be no handoff. @thread any */
int64_t el_write_order_handoff_rev(const el_write_order *order);

/* el_write_order_step applies |event| and returns what to do next. After each REPORT action |order|
 * is IDLE, and the next write may start. @thread any */
el_write_action el_write_order_step(el_write_order *order,
                                    const el_write_event *event);

/* el_write_may_retry tells whether a request that has |failed| may be sent again. A request that
 * |writes| may not if it was perhaps applied: another client may have written a newer value since.
 * @thread any */
bool el_write_may_retry(const el_outcome *failed, bool writes);

#endif
