/* local_queue: which owners of one client wait for a lock, hold it and are next, as a pure
 * step function (see entry.h for why).
 *
 * There is one local queue for each name, mode, number of permits and lock delay that a client
 * asks for; a multi-lock has one of its own. Its owners wait in the order in which they joined.
 * Those in front are given an entry, the client's key in etcd's queue, and get the lock when
 * the entry does:
 *
 *   WAITING -> ENQUEUED -> HOLDING -> RELEASING -> OUT
 *      |          |           |
 *      |          |           +-> OUT: lost, or the key was handed off, shared or lingers
 *      +----------+-> OUT: failed
 *
 * - A plain lock, a write lock and a multi-lock have one entry at a time, and a write lock one
 *   more for each holder that was downgraded. A semaphore has as many entries as permits.
 * - Handoff: an owner that unlocks gives its key to the next owner that waits here, within the
 *   handoff budget (turn.h).
 * - Sharing: readers hold by one key, within the same budget. When it is used up, the entry is
 *   asked who waits behind it; if nobody does, all readers that wait here share.
 * - Linger: after the last unlock a key may stay for a while, without an owner. The next owner
 *   that joins gets it, as in a handoff. The key is released when its time is over, or when
 *   somebody else wants the name: a key comes behind it, or an owner joins another local queue
 *   of this client that conflicts.
 *
 * The entries are driven by the caller (lock/local_queue_driver.c), which also has the clock,
 * the timers and the messages.
 */
#ifndef ETCDLOCK_RULES_LOCAL_QUEUE_H
#define ETCDLOCK_RULES_LOCAL_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "rules/entry.h"
#include "rules/turn.h"

typedef struct el_local_queue el_local_queue;
typedef struct el_local_place el_local_place;
typedef struct el_local_owner el_local_owner;

TAILQ_HEAD(el_local_owner_list, el_local_owner);
TAILQ_HEAD(el_local_place_list, el_local_place);

/* One request for a lock. Zero to begin with; what it asks for is set before it joins. */
struct el_local_owner {
  int32_t
      linger_ms; /* how long its key stays after its unlock; 0: it does not */
  bool try_once : 1; /* do not wait for others */
  bool
      must_share : 1; /* a reader that would wait for ever behind a writer: it takes only
                          what is free or what it can share */

  /* The queue's own. */
  bool waited : 1; /* another owner had the lock when it was asked for */
  enum {
    EL_OWNER_OUT,      /* in no queue */
    EL_OWNER_WAITING,  /* for an entry */
    EL_OWNER_ENQUEUED, /* |place| has its entry, which is not granted yet */
    EL_OWNER_HOLDING,
    EL_OWNER_RELEASING /* |place|'s key is being deleted for it */
  } state : 8;
  el_local_place *place; /* ENQUEUED, HOLDING, RELEASING; else NULL */
  TAILQ_ENTRY(el_local_owner) link;
};

/* One entry, and its owners. */
struct el_local_place {
  const el_entry *entry;             /* the caller's */
  struct el_local_owner_list owners; /* ENQUEUED or HOLDING: one, or readers */
  el_local_owner *releasing; /* NULL: nobody waits for the end of its release */
  union {                    /* a held lock has no byte to spare */
    el_turn turn;            /* the handoff budget */
    int64_t mod_rev; /* it lingers: what the next owner's writes begin with */
  };
  bool is_lingering : 1; /* it has no owner, but stays */
  bool looking : 1;      /* a LOOK is out; BEHIND is awaited */
  bool is_watched : 1;   /* for contenders, from WATCH to UNWATCH */
  bool
      is_contended : 1; /* since it was granted, somebody was seen behind its key */
  bool is_downgraded : 1; /* its owner, a writer, only reads from now on */
  TAILQ_ENTRY(el_local_place) link;
};

struct el_local_queue {
  struct el_local_owner_list waiting; /* the first is next */
  struct el_local_place_list places; /* the one that was started last is last */
  uint16_t permits;                  /* EL_MODE_PERMIT: how many there are */
  uint8_t mode;                      /* el_mode */
};

/* What the caller knows at the time of an event. */
typedef struct el_local_now {
  int64_t ms;
  const el_turn_limits *limits; /* of a handoff */
  bool is_alive;                /* the session has a lease */
  bool can_claim;               /* and its holders may say "held" */
  bool
      is_wanted_elsewhere; /* an owner waits in another local queue of this client that
                               conflicts: no key lingers */
  bool
      is_leaving_elsewhere; /* a key that conflicts, of another local queue of this client, is
                                being deleted: a try waits for the end of that */
} el_local_now;

/* How an owner leaves. */
typedef enum el_leave {
  EL_LEAVE_BY_ITSELF, /* it unlocks, or gives up its wait */
  EL_LEAVE_ABANDONED, /* the same, because its nginx request or its program has ended: nobody
                         gets the key from it, and it does not linger */
  EL_LEAVE_LOST /* its hold is over, for |loss|, and it knows */
} el_leave;

typedef struct el_local_event {
  enum {
    EL_LOCAL_JOIN, /* |owner|, which is OUT */
    EL_LOCAL_LEAVE, /* |owner|: |how|, |loss|, |mod_rev|; an owner that is not granted yet
                           fails for |err|. Harmless if it is OUT or RELEASING */
    EL_LOCAL_MAX_HOLD, /* the hold of |owner| has lasted long enough */
    EL_LOCAL_DOWNGRADE, /* |owner|, a writer that holds, only reads from now on */
    EL_LOCAL_VERDICT,   /* of the entry of |place|: |verdict| */
    EL_LOCAL_BEHIND,    /* the answer to LOOK, about |place|: |behind| */
    EL_LOCAL_CONTENDER, /* a key came behind that of |place|, or may have come; or, if |place|
                           is NULL, an owner joins another local queue of this client that
                           conflicts */
    EL_LOCAL_TIMER, /* the time that was set for |place| has come */
    EL_LOCAL_FAIL_WAITING, /* whoever does not hold yet fails, for |err|: etcd is out of reach */
    EL_LOCAL_REFUSE, /* there is no lease to be had, for |err|: whoever waits for one
                              fails */
    EL_LOCAL_END,   /* holds are lost for |loss|, waits fail for |err| */
    EL_LOCAL_SETTLE /* an entry, the session or another queue may have changed */
  } kind;
  el_local_owner *owner;
  el_local_place *place;
  el_leave how;
  el_loss loss;
  int64_t mod_rev; /* LEAVE: what the next owner's guarded writes begin with
                      (rules/write_order.h); negative: nobody may have the key */
  const el_entry_action *verdict;
  el_behind behind;
  const el_error *err; /* handed through to FAILED */
} el_local_event;

typedef struct el_local_action {
  enum {
    EL_LOCAL_ADD, /* a place is needed: add one, then SETTLE */
    EL_LOCAL_START, /* the entry of |place|, for |owner|: EL_ENTRY_TRY if |try_once|, else
                          EL_ENTRY_START */
    EL_LOCAL_SIGNAL, /* step the entry of |place| with the event kind |signal| */
    EL_LOCAL_GRANTED, /* |owner| holds by |place|; its guarded writes begin with |mod_rev| */
    EL_LOCAL_FAILED, /* the wait of |owner|, which had |place| (or NULL), is over: |why|, or
                          |err| if that is not NULL */
    EL_LOCAL_LOST,     /* the hold of |owner| is lost, for |loss| */
    EL_LOCAL_RELEASED, /* the release of |owner| is over: |release| */
    EL_LOCAL_LOOK,     /* who is behind the key of |place|? BEHIND is awaited */
    EL_LOCAL_WATCH, /* give CONTENDER when somebody waits behind the key of |place| */
    EL_LOCAL_UNWATCH,  /* no more */
    EL_LOCAL_SET_TIMER /* give TIMER for |place| at |at_ms|; 0: not any more */
  } kind;
  el_local_queue *queue; /* whose action it is */
  el_local_owner *owner;
  el_local_place *place;
  bool try_once;
  int signal;      /* EL_ENTRY_STOP, EL_ENTRY_MAX_HOLD, EL_ENTRY_LAPSED or
                      EL_ENTRY_HANDED_OFF */
  int64_t mod_rev; /* granted */
  el_loss loss;
  enum {
    EL_FAILED_LOCKED_HERE, /* another owner of this client has it, or is before it */
    EL_FAILED_LOCKED,      /* another client has it */
    EL_FAILED_REFUSED,   /* etcd refused it, for the entry's last error */
    EL_FAILED_PLACE_LOST /* its key was deleted while it waited */
  } why;
  const el_error *err;
  enum {
    EL_RELEASE_DONE, /* the key is deleted, or is another owner's, or lingers */
    EL_RELEASE_GONE, /* it was gone before */
    EL_RELEASE_REFUSED /* etcd refuses to delete it, for the entry's last error */
  } release;
  int64_t at_ms;
} el_local_action;

/* A list that grows; zero to begin with. */
typedef struct el_local_actions {
  el_local_action *list;
  size_t n, room;
} el_local_actions;

/* An empty queue. @thread any */
void el_local_queue_init(el_local_queue *queue, el_mode mode, uint16_t permits);

/* Adds |place|, which is zero, with |entry|, at the end. @thread any */
void el_local_queue_add(el_local_queue *queue, el_local_place *place,
                        const el_entry *entry);

/* Takes |place| out of |queue|; it must have no owners. Its |releasing| stays, and hears of its
 * end by a VERDICT to whatever queue the place is put into. @thread any */
void el_local_queue_remove(el_local_queue *queue, el_local_place *place);

/* Applies |event| and adds to |out| what is to be done, in this order. @thread any */
void el_local_queue_step(el_local_queue *queue, const el_local_event *event,
                         const el_local_now *now, el_local_actions *out);

/* Can |place| be forgotten: has it no owner, and is nothing of it left in etcd?
 * @thread any */
bool el_local_place_is_idle(const el_local_place *place);

/* Does an owner of |queue| wait, here or in etcd? @thread any */
bool el_local_queue_is_wanting(const el_local_queue *queue);

/* Is a key of |queue| that no owner wants still to be deleted? @thread any */
bool el_local_queue_is_leaving(const el_local_queue *queue);

/* Has |queue| an owner that has a place? @thread any */
bool el_local_queue_has_owners(const el_local_queue *queue);

/* Checks |queue| when all actions are carried out: NULL, or which of its rules is broken:
 * - an entry is wanted if and only if it has owners or lingers;
 * - what lingers is not contended, and nobody waits in its queue;
 * - nobody waits while an entry is free, or could be added.
 * @thread any */
const char *el_local_queue_check(const el_local_queue *queue,
                                 const el_local_now *now);

#endif
