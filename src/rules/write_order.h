/* write_order: in which order the guarded writes of a hold take effect, as a pure step
 * function (see entry.h for why).
 *
 *   IDLE -start-> WRITING -answered, or failed-> IDLE
 *     |           |     ^
 *     |   another |     | touched
 *     |  revision v     |
 *     +--start--> TOUCHING -key gone, or failed-> IDLE
 *        in doubt
 *
 * A write of unknown fate may be carried out at any time later, over what the same hold
 * has written since. So its writes go one at a time, are guarded by the mod_revision of a
 * key as well, and that is touched after such a one, and before the next: then the late
 * one finds another mod_revision, and changes nothing.
 *
 * That key is the hold's own key. A write hold, whose own key must not change (key.h), has
 * a note beside it for this. After the own key is deleted no write can be applied, because
 * every write is guarded by it. A hold with a write that may still be applied does not hand
 * its key on. Read holds write nothing. A downgrade is a write in this order: no other
 * write of the hold is applied after it.
 */
#ifndef ETCDLOCK_RULES_WRITE_ORDER_H
#define ETCDLOCK_RULES_WRITE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "rules/key.h"

typedef enum el_write_state {
  EL_WRITE_IDLE,     /* no write is under way */
  EL_WRITE_TOUCHING, /* one is, but first its key is touched */
  EL_WRITE_WRITING   /* one is */
} el_write_state;

typedef struct el_write_event {
  enum {
    EL_WRITE_START, /* of a write */
    EL_WRITE_RETRY, /* the time for AGAIN has come */
    /* To the request that is out; an outcome of zeros: it isn't awaited any longer. */
    EL_WRITE_ANSWER,
    EL_WRITE_STOP /* what is to be sent, or sent again, will not be */
  } kind;
  bool kept;   /* start, retry, answer: the hold isn't let go of yet */
  bool renews; /* start: it writes the key itself on which the order hangs */
  el_outcome outcome; /* answer; the rest of it is filled only if it is done */
  bool succeeded;     /* answer: all guards held */
  bool whole;         /* answer: if not, all keys of the hold were there */
  bool detached;      /* answer: if not, all were, but one was off its lease */
  int64_t rev;        /* answer: the store's */
} el_write_event;

typedef enum el_write_action {
  EL_WRITE_WAIT,     /* START it when the one under way is over */
  EL_WRITE_TOUCH,    /* send what writes the order's key anew */
  EL_WRITE_SEND,     /* send the write */
  EL_WRITE_AGAIN,    /* RETRY a while later, or STOP */
  EL_WRITE_DONE,     /* it is carried out */
  EL_WRITE_FAILED,   /* and nobody knows more than its outcome tells */
  EL_WRITE_UNSENT,   /* it failed before it was sent: it will never come */
  EL_WRITE_LET_GO,   /* it is not sent, because the hold is over */
  EL_WRITE_KEY_GONE, /* so it isn't carried out */
} el_write_action;

typedef struct el_write_order {
  int64_t mod_rev; /* of the key that it hangs on; 0: it isn't there */
  el_write_state state : 8;
  bool in_doubt : 1; /* one that was sent may be carried out later */
  bool renews : 1;   /* WRITING: as in the event */
} el_write_order;

/* Returns what a hold of |mode| begins with if etcd has granted it, by a key of |rev|.
 * @thread any */
int64_t el_write_order_first(el_mode mode, int64_t rev);

/* Begins the order of a new hold. |mod_rev| is el_write_order_first, or el_write_order_pass
 * of the hold that has handed its key on to this one. @thread any */
void el_write_order_init(el_write_order *order, int64_t mod_rev);

/* What the next hold by this key begins with; -1: a write of this one may come yet.
 * @thread any */
int64_t el_write_order_pass(const el_write_order *order);

/* Takes |event| and says what is to be done next; after the last four actions, and DONE,
 * it is IDLE, and the next write may start. @thread any */
el_write_action el_write_order_step(el_write_order *order,
                                    const el_write_event *event);

/* May what has |failed| be sent again, which |writes|? One that may have been carried out
 * may not: between the two, somebody may have written something newer. @thread any */
bool el_write_may_repeat(const el_outcome *failed, bool writes);

#endif
