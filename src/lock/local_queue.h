/* local_queue: the acquisitions of one client for one lock. It decides which of them holds the lock
 * and which is next, as a pure step function.
 *
 * A client has one local queue for each combination of name, mode and number of permits. Each
 * multi-lock has a local queue of its own. Acquisitions wait in the order in which they
 * joined. The first ones get an entry, which is the client's key in etcd's queue. They hold the
 * lock when their entry does:
 *
 *   WAITING -> ENQUEUED -> HOLDING -> RELEASING -> OUT
 *      |          |           |
 *      |          |           +-> OUT: lost, or the key was handed off, shared or lingers
 *      +----------+-> OUT: failed
 *
 * - A plain lock, a write lock and a multi-lock have one entry at a time. A write lock has one more
 *   entry for each holder that was downgraded. A semaphore has up to as many entries as permits.
 * - Handoff: an acquisition that ends its hold passes its key to the next one that waits. This
 *   saves two writes to etcd, but other clients that queue behind the key wait longer. So the
 *   handoff budget limits the holds by one key, and the time from the grant by etcd until the last
 *   of them begins. (Cohort locks, Dice et al. 2012, have the same bound.)
 * - Sharing: several readers hold by one key, within the same budget. When it is spent, the next
 *   reader gets a key of its own.
 * - Linger: after the last unlock the entry may keep its key for a while, without an acquisition.
 *   The next acquisition that joins gets the key, as in a handoff. The key is deleted when its time
 *   is over, or when a contender comes. A contender is a key of another client that waits behind
 *   this key, or an acquisition that joins a conflicting local queue of this client.
 *
 * The caller (local_queue_driver.c) has the entries, the clock, the timers and the messages.
 */
#ifndef ETCDLOCK_LOCK_LOCAL_QUEUE_H
#define ETCDLOCK_LOCK_LOCAL_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "lock/entry.h"

typedef struct el_local_queue el_local_queue;
typedef struct el_local_entry el_local_entry;
typedef struct el_acquisition el_acquisition;

TAILQ_HEAD(el_acquisition_list, el_acquisition);
TAILQ_HEAD(el_local_entry_list, el_local_entry);

/* el_handoff_limits is the handoff budget of one key. */
typedef struct el_handoff_limits {
  int32_t holds; /* below 2: no handoff */
  int64_t ms;    /* milliseconds after the grant; no further hold begins then */
} el_handoff_limits;

/* el_acquisition is one acquisition of a lock, waiting or holding. It is all zero at first; the
 * caller sets the options before it joins. */
struct el_acquisition {
  /* milliseconds for which the key stays after the unlock; 0: it is deleted at once */
  int32_t linger_ms;
  bool try_once : 1; /* fail instead of waiting */
  /* a reader that must not wait behind a writer, because that would deadlock: it only takes a lock
   * that is free, or shares a read hold of this client */
  bool is_share_only : 1;

  /* The queue sets the fields below. */

  /* another acquisition had the lock when this one joined */
  bool has_waited : 1;
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
  const el_entry *machine; /* the entry itself, owned by the caller */
  /* the acquisitions that are ENQUEUED or HOLDING: at most one, or several readers */
  struct el_acquisition_list acquisitions;
  /* the acquisition that waits for the end of its release; NULL: none */
  el_acquisition *releasing;
  int64_t granted_ms; /* when the handoff budget began */
  /* while the key lingers: argument of el_write_order_init for the next hold */
  int64_t mod_rev;
  int32_t holds;         /* holds since |granted_ms| */
  bool is_lingering : 1; /* the entry keeps its key without an acquisition */
  /* the queue is watched for contenders: from START_WATCH to STOP_WATCH */
  bool is_watched : 1;
  /* since the grant, a key was seen that waits for this entry's key */
  bool is_contended : 1;
  /* the acquisition is a writer that was downgraded to a reader */
  bool is_downgraded : 1;
  TAILQ_ENTRY(el_local_entry) link;
};

/* el_local_queue is one local queue. */
struct el_local_queue {
  struct el_acquisition_list waiting; /* the first is next */
  struct el_local_entry_list entries; /* in the order of their last starts */
  uint32_t slot;                      /* EL_MODE_MULTI: as in el_queue_key */
  uint16_t permits;                   /* EL_MODE_PERMIT: number of permits */
  uint8_t mode;                       /* el_mode */
};

/* el_local_context is what the caller knows at the time of an event. */
typedef struct el_local_context {
  int64_t now_ms;                  /* el_now_ms */
  const el_handoff_limits *limits; /* the handoff budget */
  bool has_lease;                  /* the session is ALIVE */
  bool is_proven;                  /* el_session_is_proven */
  /* an acquisition waits in a conflicting local queue of this client, so no key may linger */
  bool has_conflicting_waiter;
  /* a key in a conflicting local queue of this client is being deleted: a try waits until it is
   * gone */
  bool has_conflicting_delete;
} el_local_context;

/* el_leave is how an acquisition leaves its queue. */
typedef enum el_leave {
  EL_LEAVE_VOLUNTARY, /* it unlocks, or gives up its wait */
  /* it unlocks or gives up its wait because its nginx request or program has ended: the key is
   * neither handed off nor lingers */
  EL_LEAVE_ABANDONED,
  /* its hold is lost, for |loss|, which the caller has already recorded */
  EL_LEAVE_LOST
} el_leave;

/* el_local_event is one event for a local queue. The comments of the kinds name the fields that
 * they use. */
typedef struct el_local_event {
  enum {
    EL_LOCAL_ON_JOIN, /* |acquisition| joins; it is OUT */
    /* |acquisition| leaves: see |how|, |loss| and |mod_rev|; if it does not hold yet, its wait
     * fails with |err|; ignored if it is OUT or RELEASING */
    EL_LOCAL_ON_LEAVE,
    EL_LOCAL_ON_MAX_HOLD, /* max_hold of |acquisition| is over */
    /* |acquisition|, a writer that holds, is downgraded to a reader */
    EL_LOCAL_ON_DOWNGRADED,
    EL_LOCAL_ON_GRANTED, /* |entry| is granted */
    EL_LOCAL_ON_FAILED,  /* the wait of |entry| has failed: see |failure| */
    /* the session ended before the key of |entry| was in etcd's queue */
    EL_LOCAL_ON_RESTART,
    EL_LOCAL_ON_LOST,     /* the hold of |entry| is lost, for |loss| */
    EL_LOCAL_ON_RELEASED, /* the release of |entry| has ended: see |ending| */
    /* a key waits, or may wait, for the key of |entry|; |entry| NULL: an acquisition joins a
     * conflicting local queue of this client */
    EL_LOCAL_ON_CONTENDER,
    EL_LOCAL_ON_TIMER, /* the time set for |entry| has come */
    /* etcd is unreachable: all waits fail with |err| */
    EL_LOCAL_ON_UNREACHABLE,
    /* etcd grants no lease: acquisitions that wait for a lease fail with |err| */
    EL_LOCAL_ON_LEASE_REFUSED,
    /* the client closes: holds are lost, for |loss|, and waits fail with |err| */
    EL_LOCAL_ON_CLOSE,
    /* an entry, the session or another queue may have changed */
    EL_LOCAL_ON_SETTLE
  } kind;
  el_acquisition *acquisition;
  el_local_entry *entry;
  el_leave how;
  el_loss loss;
  int64_t mod_rev; /* leave: el_write_order_handoff_rev of the hold */
  el_entry_failure failure;
  el_entry_ending ending;
  const el_error *err; /* copied to REPORT_FAILED */
} el_local_event;

/* el_local_action is one action that a local queue wants carried out. The comments of the kinds
 * name the fields that they set. */
typedef struct el_local_action {
  enum {
    EL_LOCAL_ADD_ENTRY,   /* add an entry, then give ON_SETTLE */
    EL_LOCAL_START_ENTRY, /* el_entry_acquire for |acquisition| */
    EL_LOCAL_STEP_ENTRY,  /* call |step| with |entry| */
    /* |acquisition| holds by |entry|; |mod_rev|: argument of el_write_order_init for the hold */
    EL_LOCAL_REPORT_GRANTED,
    /* the wait of |acquisition| has failed with |err|; |err| NULL: for the reason |why|; |entry|:
     * the entry that it had, or NULL */
    EL_LOCAL_REPORT_FAILED,
    /* the hold of |acquisition| is lost, for |loss| */
    EL_LOCAL_REPORT_LOST,
    /* the release of |acquisition| has ended; |release| tells how */
    EL_LOCAL_REPORT_RELEASED,
    /* give ON_CONTENDER when a key waits for the key of |entry| */
    EL_LOCAL_START_WATCH,
    EL_LOCAL_STOP_WATCH, /* end the watch of START_WATCH */
    /* give ON_TIMER for |entry| at |at_ms|; 0: stop the timer */
    EL_LOCAL_SET_TIMER
  } kind;
  el_local_queue *queue; /* the queue that was stepped */
  el_acquisition *acquisition;
  el_local_entry *entry;
  bool try_once;
  void (*step)(el_entry *entry); /* an event of the local queue in entry.h */
  int64_t mod_rev;
  el_loss loss;
  /* EL_ENTRY_REFUSED: etcd may also have refused the lease; the last error of the session tells
   * why */
  el_entry_failure why;
  /* EL_ENTRY_LOCKED: an acquisition of this client has the lock, or joined earlier */
  bool is_locked_here;
  const el_error *err; /* NULL: |why| tells the cause */
  /* EL_ENTRY_DELETED: or this client keeps the key: it was handed off, is shared, or lingers */
  el_entry_ending release;
  int64_t at_ms;
} el_local_action;

/* el_local_actions is a list of |n| actions that grows; zero to begin with. The caller frees
 * |list|, which has space for |room| actions. */
typedef struct el_local_actions {
  el_local_action *list;
  size_t n, room;
} el_local_actions;

/* el_local_queue_init sets |queue| to an empty queue, whose keys have the mode, the slot and the
 * number of permits of |where|. @thread any */
void el_local_queue_init(el_local_queue *queue, const el_queue_key *where);

/* el_local_queue_add adds |entry| at the end. |entry| is all zero before; |machine| is the entry
 * itself. @thread any */
void el_local_queue_add(el_local_queue *queue, el_local_entry *entry,
                        const el_entry *machine);

/* el_local_queue_remove removes |entry|, which must have no acquisitions. If an acquisition waits
 * for the end of its release (|releasing|), the queue to which |entry| is added next reports that
 * end. @thread any */
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

/* el_local_queue_is_deleting tells whether a key of |queue| that no acquisition wants is still to
 * be deleted. @thread any */
bool el_local_queue_is_deleting(const el_local_queue *queue);

/* el_local_queue_is_in_use tells whether an acquisition has an entry. @thread any */
bool el_local_queue_is_in_use(const el_local_queue *queue);

/* el_local_queue_check returns a text that names the invariant that |queue| violates; NULL: none.
 * The caller must have carried out all actions.
 * - An entry is wanted if and only if it has acquisitions or lingers.
 * - If an entry lingers, it is not contended, and no acquisition waits in its queue.
 * - No acquisition waits while an entry can be started or added. @thread any */
const char *el_local_queue_check(const el_local_queue *queue,
                                 const el_local_context *context);

#endif
