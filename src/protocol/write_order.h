/* write_order: the order in which the guarded writes of one hold take effect.
 *
 *   IDLE --send--> WRITING --end--> IDLE
 *     |            |     ^
 *     |    another |     | touched
 *     |   revision v     |
 *     +--send--> TOUCHING --end--> IDLE
 *      in doubt
 *
 * A write of unknown outcome (a write in doubt) may be applied later, after writes that the same
 * hold has sent since. So the client sends the writes of a hold one at a time, and guards each of
 * them by the mod_revision of one key, the order key. After a write in doubt, the client touches
 * the order key before the next write: it puts the key again without another change. If the write
 * in doubt is applied later, it finds another mod_revision and changes nothing.
 *
 * The order key is the hold's own key (of a multi-lock, the first); for a write lock, whose key
 * must not change (key.h), it is a marker. Every write is also guarded by all keys of the hold, so
 * no write is applied after one of them was deleted. A hold with a write in doubt neither hands its
 * key off nor lets it linger, because the write could be applied during the next hold. Read holds
 * write nothing. A downgrade is a write in this order, so no earlier write of the hold is applied
 * after it.
 */
#ifndef ETCDLOCK_PROTOCOL_WRITE_ORDER_H
#define ETCDLOCK_PROTOCOL_WRITE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "protocol/key.h"

/* el_write_state is the state of a write order: see the diagram above. */
typedef enum el_write_state {
  EL_WRITE_IDLE, /* no write is in progress */
  /* a write is in progress; the order key is being touched first */
  EL_WRITE_TOUCHING,
  EL_WRITE_WRITING /* a write is in progress */
} el_write_state;

/* el_write_answer is how the request in flight has ended. */
typedef struct el_write_answer {
  el_outcome outcome; /* the fields below are set only if outcome.is_done */
  bool succeeded;     /* all guards were true */
  /* not succeeded: all keys of the hold exist and are attached to its lease */
  bool is_whole;
  /* not succeeded: all keys exist, but one is not attached to the hold's lease */
  bool is_detached;
  int64_t rev; /* the store's revision */
} el_write_answer;

/* el_write_action is what the caller must do next. */
typedef enum el_write_action {
  EL_WRITE_SEND_TOUCH,  /* send the transaction that touches the order key */
  EL_WRITE_SEND_WRITE,  /* send the write */
  EL_WRITE_RETRY_LATER, /* call el_write_order_send again after a backoff */
  EL_WRITE_REPORT_DONE, /* the write was applied */
  /* the write failed; its outcome tells whether it may have been applied */
  EL_WRITE_REPORT_FAILED,
  /* the write is never applied: it was not sent, or its failure is definite */
  EL_WRITE_REPORT_UNSENT,
  EL_WRITE_REPORT_NOT_HELD, /* the hold is over: the write is not sent */
  /* a key of the hold is gone or detached from the lease: the write is not applied */
  EL_WRITE_REPORT_KEY_GONE,
} el_write_action;

/* el_write_order is the state machine of the guarded writes of one hold. */
typedef struct el_write_order {
  int64_t mod_rev; /* mod_revision of the order key; 0: it does not exist */
  el_write_state state : 8;
  /* a write that was sent may be applied later, or |mod_rev| is outdated: touch the order key first
   */
  bool is_in_doubt : 1;
} el_write_order;

/* el_write_order_initial_rev returns the mod_revision of the order key at the beginning of a hold
 * that etcd has granted. |mode| is the mode of the lock, |rev| the create_revision of the hold's
 * key. @thread any */
int64_t el_write_order_initial_rev(el_mode mode, int64_t rev);

/* el_write_order_init begins the order of a new hold. |mod_rev| is the result of
 * el_write_order_initial_rev; after a handoff or a linger, it is the result of
 * el_write_order_handoff_rev for the previous hold. @thread any */
void el_write_order_init(el_write_order *order, int64_t mod_rev);

/* el_write_order_handoff_rev returns the mod_revision of the order key for the next hold by the
 * same key. -1: a write of this hold may be applied later, so the key must not be handed off.
 * @thread any */
int64_t el_write_order_handoff_rev(const el_write_order *order);

/* el_write_order_send begins a write, or repeats the write in progress, and returns what to send.
 * Another write may begin only when |order| is IDLE. |is_held|: the hold was neither released nor
 * lost. @thread any */
el_write_action el_write_order_send(el_write_order *order, bool is_held);

/* el_write_order_take_answer applies |answer|, to the request in flight, and returns what to do
 * next. |puts_order_key|: the write puts the order key itself. @thread any */
el_write_action el_write_order_take_answer(el_write_order *order,
                                           const el_write_answer *answer,
                                           bool is_held, bool puts_order_key);

/* el_write_order_give_up notes that the caller no longer waits for the answer to the request in
 * flight. Returns true if that was a touch, so that the write is never applied. The caller calls
 * el_write_order_end next. @thread any */
bool el_write_order_give_up(el_write_order *order);

/* el_write_order_end ends the write in progress, after a REPORT action or because it is given up.
 * @thread any */
void el_write_order_end(el_write_order *order);

/* el_write_may_retry tells whether a request with the outcome |failed| may be sent again. |writes|:
 * the request writes. A write that may have been applied must not be sent again, because another
 * client may have written a newer value since. @thread any */
bool el_write_may_retry(const el_outcome *failed, bool writes);

#endif
