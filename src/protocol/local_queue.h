/* local_queue: the acquisitions of one client for one lock: which wait, hold and are next, as a
 * pure step function (see entry.h).
 *
 * A client has one local queue for each combination of name, mode, number of permits and lock
 * delay; a multi-lock has one of its own. Acquisitions wait in the order in which they joined. The
 * first ones are given an entry, the client's key in etcd's queue, and hold when the entry does:
 *
 *   WAITING -> ENQUEUED -> HOLDING -> RELEASING -> OUT
 *      |          |           |
 *      |          |           +-> OUT: lost, or the key was handed off, shared or lingers
 *      +----------+-> OUT: failed
 *
 * - A plain lock, a write lock and a multi-lock have one entry at a time; a write lock has one more
 *   for each holder that was downgraded. A semaphore has as many entries as permits.
 * - Handoff: an acquisition that ends its hold passes its key to the next one that waits, within
 *   the handoff budget (handoff_budget.h).
 * - Sharing: readers hold by one key, within the same budget. When the budget is spent, the client
 *   queries the contention for the key; if no other client waits, all waiting readers share.
 * - Linger: after the last unlock the entry may keep its key for a while, without an acquisition.
 *   The next acquisition that joins gets the key, as in a handoff. The key is deleted when its time
 *   is over, or when there is a contender: a key of another client behind it, or an acquisition
 *   that joins another local queue of this client that conflicts.
 *
 * The caller (lock/local_queue_driver.c) steps the entries' state machines and has the clock, the
 * timers and the messages.
 */
#ifndef ETCDLOCK_PROTOCOL_LOCAL_QUEUE_H
#define ETCDLOCK_PROTOCOL_LOCAL_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "protocol/entry.h"
#include "protocol/handoff_budget.h"

typedef struct el_local_queue el_local_queue;
typedef struct el_local_entry el_local_entry;
typedef struct el_acquisition el_acquisition;

TAILQ_HEAD(el_acquisition_list, el_acquisition);
TAILQ_HEAD(el_local_entry_list, el_local_entry);

/* el_acquisition is one acquisition of a lock, waiting or holding. Zero to begin with; the options
 * are set before it joins. */
struct el_acquisition {
  int32_t linger_ms;      /* how long the key stays after the unlock; 0: it
                             does not */
  bool try_once : 1;      /* fail instead of waiting */
  bool is_share_only : 1; /* a reader that would deadlock behind a writer: it
                             only takes a lock that is free, or shares a read
                             hold of this client */

  /* Set by the queue. */
  bool has_waited : 1; /* another acquisition had the lock when this one
                          joined */
  enum {
    EL_ACQUISITION_OUT,      /* in no queue */
    EL_ACQUISITION_WAITING,  /* waits for an entry */
    EL_ACQUISITION_ENQUEUED, /* has an entry that is not granted yet */
    EL_ACQUISITION_HOLDING,
    EL_ACQUISITION_RELEASING /* the key of its entry is being deleted */
  } state : 8;
  el_local_entry *entry; /* ENQUEUED, HOLDING, RELEASING; else NULL */
  TAILQ_ENTRY(el_acquisition) link;
};

/* el_local_entry is one entry with its acquisitions. */
struct el_local_entry {
  const el_entry *machine; /* its state machine, owned by the caller */
  /* ENQUEUED or HOLDING: one, or several readers. */
  struct el_acquisition_list acquisitions;
  el_acquisition *releasing; /* waits for the end of its release; NULL: none */
  union { /* saves memory: a client may hold thousands of locks */
    el_handoff_budget budget;
    int64_t mod_rev; /* while it lingers: the next hold's el_write_order_init */
  };
  bool is_lingering : 1;  /* it keeps its key without an acquisition */
  bool is_querying : 1;   /* a contention query is in flight */
  bool is_watched : 1;    /* for contenders, from START_WATCH to STOP_WATCH */
  bool is_contended : 1;  /* since the grant another key was seen to wait for
                             its key */
  bool is_downgraded : 1; /* its acquisition, a writer, only reads from now
                             on */
  TAILQ_ENTRY(el_local_entry) link;
};

/* el_local_queue is one local queue. */
struct el_local_queue {
  struct el_acquisition_list waiting; /* the first is next */
  struct el_local_entry_list entries; /* in the order in which they were
                                         started last */
  uint16_t permits;                   /* EL_MODE_PERMIT: number of permits */
  uint8_t mode;                       /* el_mode */
};

/* el_local_context is what the caller knows at the time of an event. */
typedef struct el_local_context {
  int64_t now_ms;                  /* el_now_ms */
  const el_handoff_limits *limits; /* the handoff budget */
  bool has_lease;                  /* the session is ALIVE */
  bool is_proven;                  /* el_session_is_proven */
  bool has_conflicting_waiter; /* an acquisition waits in another local queue
                                  of this client that conflicts: no key
                                  lingers */
  bool has_conflicting_delete; /* a key in another local queue of this client
                                  that conflicts is being deleted: a try
                                  waits for the end of that */
} el_local_context;

/* el_leave is how an acquisition leaves its queue. */
typedef enum el_leave {
  EL_LEAVE_VOLUNTARY, /* it unlocks, or gives up its wait */
  EL_LEAVE_ABANDONED, /* the same, because its nginx request or program has
                         ended: the key is neither handed off nor lingers */
  EL_LEAVE_LOST       /* its hold is lost, for |loss|, and it knows */
} el_leave;

/* el_local_event is one event for a local queue. The comments of the kinds name the fields that
 * they use. */
typedef struct el_local_event {
  enum {
    EL_LOCAL_ON_JOIN,              /* |acquisition| joins; it is OUT */
    EL_LOCAL_ON_LEAVE,             /* |acquisition|: |how|, |loss|,
                                      |mod_rev|; if it does not hold yet, it
                                      fails for |err|; ignored if OUT or
                                      RELEASING */
    EL_LOCAL_ON_MAX_HOLD,          /* max_hold of |acquisition| is over */
    EL_LOCAL_ON_DOWNGRADED,        /* |acquisition|, a writer that holds,
                                      only reads from now on */
    EL_LOCAL_ON_ENTRY_REPORT,      /* |report| of the machine of |entry| */
    EL_LOCAL_ON_CONTENTION_ANSWER, /* to QUERY_CONTENTION for |entry|:
                                      |contention| */
    EL_LOCAL_ON_CONTENDER,         /* a key waits behind that of |entry|, or
                                      may; |entry| NULL: an acquisition joins
                                      another local queue of this client that
                                      conflicts */
    EL_LOCAL_ON_TIMER,             /* the time set for |entry| has come */
    EL_LOCAL_ON_UNREACHABLE,       /* etcd is unreachable: all waits fail for
                                      |err| */
    EL_LOCAL_ON_LEASE_REFUSED,     /* etcd grants no lease: waits for one
                                      fail for |err| */
    EL_LOCAL_ON_CLOSE,             /* holds are lost for |loss|, waits fail
                                      for |err| */
    EL_LOCAL_ON_SETTLE             /* an entry, the session or another queue
                                      may have changed */
  } kind;
  el_acquisition *acquisition;
  el_local_entry *entry;
  el_leave how;
  el_loss loss;
  int64_t mod_rev; /* leave: el_write_order_handoff_rev of the hold */
  const el_entry_action *report;
  el_contention contention;
  const el_error *err; /* copied to REPORT_FAILED */
} el_local_event;

/* el_local_action is one action that a local queue wants carried out. The comments of the kinds
 * name the fields that they set. */
typedef struct el_local_action {
  enum {
    EL_LOCAL_ADD_ENTRY,        /* add an entry, then give ON_SETTLE */
    EL_LOCAL_START_ENTRY,      /* step |entry| with EL_ENTRY_ON_TRY if
                                  |try_once|, else with EL_ENTRY_ON_ACQUIRE,
                                  for |acquisition| */
    EL_LOCAL_STEP_ENTRY,       /* step |entry| with the event kind
                                  |entry_event| */
    EL_LOCAL_REPORT_GRANTED,   /* |acquisition| holds by |entry|; |mod_rev|:
                                  el_write_order_init */
    EL_LOCAL_REPORT_FAILED,    /* the wait of |acquisition|, which had
                                  |entry| (or NULL), failed for |err|, or for
                                  |why| if that is NULL */
    EL_LOCAL_REPORT_LOST,      /* the hold of |acquisition| is lost, for
                                  |loss| */
    EL_LOCAL_REPORT_RELEASED,  /* the release of |acquisition| has ended:
                                  |release| */
    EL_LOCAL_QUERY_CONTENTION, /* do keys wait for that of |entry|?
                                  ON_CONTENTION_ANSWER follows */
    EL_LOCAL_START_WATCH,      /* give ON_CONTENDER when a key waits for that
                                  of |entry| */
    EL_LOCAL_STOP_WATCH,       /* no longer */
    EL_LOCAL_SET_TIMER         /* give ON_TIMER for |entry| at |at_ms|; 0:
                                  stop the timer */
  } kind;
  el_local_queue *queue; /* the queue that was stepped */
  el_acquisition *acquisition;
  el_local_entry *entry;
  bool try_once;
  int entry_event; /* EL_ENTRY_ON_RELEASE, EL_ENTRY_ON_MAX_HOLD,
                      EL_ENTRY_ON_EXPIRED or EL_ENTRY_ON_HANDED_OFF */
  int64_t mod_rev;
  el_loss loss;
  enum {
    EL_FAILED_LOCKED_LOCALLY, /* an acquisition of this client has the lock,
                                 or is before it */
    EL_FAILED_LOCKED,         /* another client has the lock */
    EL_FAILED_REFUSED,        /* etcd refused the request, with the entry's
                                 last error */
    EL_FAILED_KEY_LOST        /* the key was deleted while it waited */
  } why;
  const el_error *err;
  enum {
    EL_RELEASE_DONE,   /* the key was deleted by us, was handed off, or
                          lingers */
    EL_RELEASE_GONE,   /* the key was gone before */
    EL_RELEASE_REFUSED /* etcd refused the delete, with the entry's last
                          error */
  } release;
  int64_t at_ms;
} el_local_action;

/* el_local_actions is a list of |n| actions that grows; zero to begin with. The caller frees
 * |list|, which has space for |room| actions. */
typedef struct el_local_actions {
  el_local_action *list;
  size_t n, room;
} el_local_actions;

/* el_local_queue_init sets |queue| to an empty queue. @thread any */
void el_local_queue_init(el_local_queue *queue, el_mode mode, uint16_t permits);

/* el_local_queue_add adds |entry|, which is zero, with its state machine |machine|, at the end.
 * @thread any */
void el_local_queue_add(el_local_queue *queue, el_local_entry *entry,
                        const el_entry *machine);

/* el_local_queue_remove removes |entry|, which must have no acquisitions. If a release waits
 * (|releasing|), it is reported by the queue to which |entry| is added next. @thread any */
void el_local_queue_remove(el_local_queue *queue, el_local_entry *entry);

/* el_local_queue_step applies |event| and appends the actions to carry out, in this order, to
 * |out|. @thread any */
void el_local_queue_step(el_local_queue *queue, const el_local_event *event,
                         const el_local_context *context,
                         el_local_actions *out);

/* el_local_entry_is_idle tells whether |entry| may be freed: it has no acquisition and no key in
 * etcd. @thread any */
bool el_local_entry_is_idle(const el_local_entry *entry);

/* el_local_queue_has_waiters tells whether an acquisition waits, for an entry or in etcd's queue.
 * @thread any */
bool el_local_queue_has_waiters(const el_local_queue *queue);

/* el_local_queue_is_deleting tells whether a key that no acquisition wants is not deleted yet.
 * @thread any */
bool el_local_queue_is_deleting(const el_local_queue *queue);

/* el_local_queue_is_in_use tells whether an acquisition has an entry. @thread any */
bool el_local_queue_is_in_use(const el_local_queue *queue);

/* el_local_queue_check returns the invariant that |queue| violates when all actions are carried
 * out; NULL: none.
 * - An entry is wanted if and only if it has acquisitions or lingers.
 * - If an entry lingers, it is not contended, and no acquisition waits in its queue.
 * - No acquisition waits while an entry can be started or added. @thread any */
const char *el_local_queue_check(const el_local_queue *queue,
                                 const el_local_context *context);

#endif
