/* entry: one place in the queue of a lock, as a pure step function.
 *
 * An entry is what one session has at one lock name: at most one key in etcd.
 * el_entry_step takes what happened and answers with what to do; it has no
 * I/O, no clock and no thread, so that spec/sim can drive it through hundreds
 * of thousands of histories. lock/entry_driver.c drives it for real.
 *
 *   IDLE -start-> ENQUEUING -alone-> PROVING -claimed-> HELD -release-> RELEASING
 *    |                |  not alone        ^               |                 |
 *    |                v                   | none older    | lapsed, deleted, ...
 *    -try-> TRYING   WAITING -------------+               v                 v
 *                                                     (LOST)  ->    IDLE -found-> SWEEPING
 *   HELD -lapsed, with a lock delay-> LOCK_DELAY -it is over-> RELEASING
 *   RELEASING -gone, by an attempt of unknown fate-> CONFIRMING -renewed-> IDLE
 *   any -session dead-> DEAD, but for a release that its holder is to be told of
 *
 * At most one request is out at a time; a cancel waits for its answer and then
 * takes the key out, so that a dequeue is definite. An enqueue whose fate is
 * unknown (UNAVAILABLE and DEADLINE_EXCEEDED may hide a commit, and a commit
 * may come minutes later) is told to the session as UNSURE: that audits its lease,
 * and a key that it finds there has the entry SWEEPING.
 */
#ifndef ETCDLOCK_RULES_ENTRY_H
#define ETCDLOCK_RULES_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "rules/key.h"
#include "rules/session.h"

typedef enum el_entry_state {
  EL_ENTRY_IDLE,      /* nothing of ours is in etcd, or will come */
  EL_ENTRY_TRYING,    /* the try is out */
  EL_ENTRY_ENQUEUING, /* the enqueue is out */
  EL_ENTRY_WAITING,   /* in the queue, behind |ahead| */
  EL_ENTRY_PROVING,   /* ours; the session must prove that its lease lives */
  EL_ENTRY_HELD,      /* ours, and the caller knows */
  EL_ENTRY_LOCK_DELAY, /* the hold has lapsed: the key stays a while, in the way of
                          others, as that of one who has crashed */
  EL_ENTRY_RELEASING,  /* the key is being taken out */
  EL_ENTRY_CONFIRMING, /* it has gone, by an attempt of unknown fate if the lease
                          has lived till then */
  EL_ENTRY_SWEEPING, /* a key that nobody wants may be there: looking for it */
  EL_ENTRY_DEAD      /* the session ended, and all its keys with it */
} el_entry_state;

extern const char *const el_entry_state_str[];

/* Why a hold ended without its holder asking. */
typedef enum el_loss {
  EL_LOSS_NONE,
  EL_LOSS_EXPIRED,  /* no proof in time that the lease lives */
  EL_LOSS_REVOKED,  /* the lease is gone */
  EL_LOSS_DELETED,  /* somebody deleted the key */
  EL_LOSS_REPLACED, /* somebody wrote the key and took it off our lease */
  EL_LOSS_MAX_HOLD, /* max_hold has passed */
  EL_LOSS_CLUSTER,  /* another cluster answers, or an earlier state of ours */
  EL_LOSS_CLOSED    /* the client was closed */
} el_loss;

/* Their names for programs, and what people are told. */
extern const struct el_loss_names { const char *name, *text; } el_losses[];

typedef enum el_request_kind {
  EL_REQUEST_NONE,
  EL_REQUEST_TRY,
  EL_REQUEST_ENQUEUE,
  EL_REQUEST_LOOK,
  EL_REQUEST_DELETE
} el_request_kind;

typedef struct el_entry_event {
  enum {
    EL_ENTRY_START,         /* wait in the queue */
    EL_ENTRY_TRY,           /* take it only if it is free */
    EL_ENTRY_STOP,          /* give up or release, whatever it is */
    EL_ENTRY_ANSWER,        /* to the request that is out */
    EL_ENTRY_WATCH_CREATED, /* rev: the store's */
    EL_ENTRY_WATCH_DELETED, /* rev: of the deletion */
    EL_ENTRY_WATCH_PUT,     /* lease: what the key hangs on now */
    EL_ENTRY_WATCH_REFUSED, /* this user may not watch the key */
    EL_ENTRY_CLAIMED,       /* the session can prove its lease */
    EL_ENTRY_UNPROVEN,      /* it can't at the moment */
    EL_ENTRY_LAPSED,        /* it could not in time */
    EL_ENTRY_RENEWED,       /* the lease lived after |confirm_ms| */
    EL_ENTRY_MAX_HOLD,      /* the hold's hard end */
    EL_ENTRY_HANDED_OFF,   /* another owner has got it, or may: watch its key */
    EL_ENTRY_KEY_GONE,     /* another request of ours found no key of ours;
                               rev: the create_revision that it looked for */
    EL_ENTRY_KEY_FOUND,    /* another request of ours found a key of ours */
    EL_ENTRY_SESSION_DEAD, /* the session is over: |end| */
    EL_ENTRY_TIMER         /* wake_at has come */
  } kind;
  el_outcome outcome; /* answer; the rest of it is filled only if it is done */
  uint64_t term;      /* answer: raft term */
  int64_t rev;        /* answer, watch: revision */
  int64_t
      proven_rev; /* any: at which our lease was just proven; 0: it wasn't */
  int64_t lease;  /* watch put */
  bool detached;  /* watch put: the key has left the queue, being off its lease;
                     key gone: it is there, and off its lease */
  el_place mine;  /* answer: our key; rev 0: there is none */
  bool partial;   /* answer: of our keys only some were there, or not as one */
  el_place older; /* answer: the youngest that counts and is older */
  bool unsure;    /* answer: older can't be told from it; ask for all */
  uint32_t missing; /* answer: if several are in the way, how many have to go */
  bool locked;      /* try: a key that counts is there */
  bool batched;     /* answer: |rev| may have changed more than it tells */
  bool serializable;  /* look: a member's state, perhaps a stale one */
  bool deleted;       /* delete: the key was there */
  el_session_end end; /* session dead: how */
} el_entry_event;

typedef struct el_entry_action {
  enum {
    EL_ENTRY_SEND,  /* |request|; its answer is awaited */
    EL_ENTRY_WATCH, /* |place|'s key, instead of any other; rev 0: ours; lease 0:
                            all of its mode */
    EL_ENTRY_UNWATCH, /* no key */
    EL_ENTRY_PROOF, /* at sent_ms or later, in |term|, at |rev|, the key existed */
    EL_ENTRY_GRANTED,    /* the caller holds it; place.rev is the token */
    EL_ENTRY_REFUSED,    /* the caller's wait failed with the last error */
    EL_ENTRY_LOCKED,     /* the caller's try found it taken */
    EL_ENTRY_PLACE_LOST, /* the caller waited, and our key is gone */
    EL_ENTRY_RESTART,    /* the session died before we were in the queue */
    EL_ENTRY_UNSURE,  /* a key that we have asked for may come, at any time */
    EL_ENTRY_CONFIRM, /* does the lease live? RENEWED is awaited */
    EL_ENTRY_LOST,    /* the caller held it; loss says why not any more */
    EL_ENTRY_RELEASED /* the key is out; found: it was there until now */
  } kind;
  el_request_kind request;
  bool serializable; /* look */
  bool all;          /* look, try: list the whole queue, not one key of it */
  int64_t bound;     /* try: only if nothing was created at or after this */
  int64_t guard;     /* delete: only the key of this create_revision */
  el_place place;
  int64_t sent_ms; /* proof */
  uint64_t term;   /* proof */
  int64_t rev;     /* proof: the store's */
  el_loss loss;
  bool found;
} el_entry_action;

enum { EL_ENTRY_ACTIONS_MAX = 8 };

typedef struct el_entry_actions {
  int n;
  el_entry_action list[EL_ENTRY_ACTIONS_MAX];
} el_entry_actions;

typedef struct el_entry {
  el_entry_state state : 8; /* a byte: there are many of these */
  el_mode mode : 8;
  el_request_kind busy : 8; /* the request that is out */
  bool wanted : 1;          /* a caller waits for it or holds it */
  bool trying : 1;          /* and only if it is free */
  bool fresh : 1;           /* PROVING: won by the answer just processed */
  bool watching : 1;        /* a watch of ours is open or being opened */
  bool again : 1;           /* look again: something happened during the look */
  bool owed : 1; /* a holder has let go, and is told what comes of it */
  bool maybe_deleted : 1; /* a delete of unknown fate was sent */
  bool orphaned : 1;  /* RELEASING or SWEEPING, and its session is dead ... */
  bool cut_short : 1; /* ... before its time */
  bool uncertain : 1; /* of a request that writes nobody knows what became */
  uint8_t failures;   /* in a row */
  uint16_t missing;   /* WAITING: look when so many have gone, or before */
  int32_t reread_ms;  /* a waiter looks again this often */
  int32_t lock_delay_ms; /* for so long nobody follows a hold that has lapsed */
  int64_t lease;
  int64_t wake_at;    /* wants a TIMER event then; 0: none */
  int64_t confirm_ms; /* CONFIRMING: since when */
  int64_t bound;      /* for the try */
  int64_t rev;        /* create_revision of our key, 0 if unknown */
  el_place ahead;     /* WAITING: whose key is watched */
  int64_t watch_rev; /* what is known of the watched key is of then, or later */
} el_entry;

/* An entry of the session |ses|, which is alive, IDLE. @thread any */
void el_entry_init(el_entry *entry, el_mode mode, const el_session *ses);

/* Takes |event| at |now_ms| and fills |out|, in the order in which the actions
 * must be carried out. @thread any */
void el_entry_step(el_entry *entry, const el_entry_event *event, int64_t now_ms,
                   el_entry_actions *out);

/* May START and TRY be given? @thread any */
bool el_entry_is_free(const el_entry *entry);

/* May the entry be forgotten? @thread any */
bool el_entry_is_over(const el_entry *entry);

/* Was each request answered that changes its keys, so that once it is over none can be
 * carried out any more? @thread any */
bool el_entry_is_certain(const el_entry *entry);

#endif
