/* entry: one entry in the queue of a lock, as a pure step function.
 *
 * An entry is what one session has in one queue: at most one key in etcd (a multi-lock: one key in
 * each of its queues). el_entry_step applies one event and returns the actions to carry out. It has
 * no I/O, clock or thread, so that spec/sim can run it through hundreds of thousands of histories.
 * lock/entry_driver.c carries out its actions.
 *
 *   IDLE        acquire -> ENQUEUING; try -> TRYING; an audit finds our key -> AUDITING
 *   TRYING      lock free -> PROVING; locked -> IDLE
 *   ENQUEUING   first in the queue -> PROVING; else -> WAITING
 *   WAITING     predecessor gone -> PROVING
 *   PROVING     lease proven -> HELD
 *   HELD        release -> RELEASING; key deleted -> IDLE, lost; hold expired -> RELEASING, lost,
 *               or with a lock delay -> LOCK_DELAY, lost
 *   LOCK_DELAY  delay over -> RELEASING
 *   RELEASING   key deleted -> IDLE; key gone, perhaps by a delete of unknown outcome -> CONFIRMING
 *   CONFIRMING  lease was alive -> IDLE
 *   AUDITING    key exists -> RELEASING; else -> IDLE
 *   any state   session ended -> ENDED; a release that its holder waits for is finished first
 *
 * At most one request is in flight. A wait that is given up awaits the answer to its request and
 * deletes the key after that, so a cancelled wait leaves nothing behind. An enqueue of unknown
 * outcome (UNAVAILABLE and DEADLINE_EXCEEDED may hide a commit, which may come minutes later) is
 * reported to the session as a put in doubt. From then on the session audits its lease; if the
 * audit finds a key of an idle entry, the entry reads it (AUDITING) and deletes it.
 */
#ifndef ETCDLOCK_PROTOCOL_ENTRY_H
#define ETCDLOCK_PROTOCOL_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "protocol/key.h"
#include "protocol/session.h"

/* el_entry_state is the state of an entry: see the diagram above. */
typedef enum el_entry_state {
  EL_ENTRY_IDLE,       /* no key of ours is in etcd, except one of a put in
                          doubt */
  EL_ENTRY_TRYING,     /* a try is in flight or will be repeated */
  EL_ENTRY_ENQUEUING,  /* an enqueue is in flight or will be repeated */
  EL_ENTRY_WAITING,    /* in the queue, behind |predecessor| */
  EL_ENTRY_PROVING,    /* first in the queue; the session must prove that its
                          lease is alive */
  EL_ENTRY_HELD,       /* the caller holds the lock */
  EL_ENTRY_LOCK_DELAY, /* the hold has expired; the key stays for the lock
                          delay and blocks others, as after a crash */
  EL_ENTRY_RELEASING,  /* the key is being deleted */
  EL_ENTRY_CONFIRMING, /* the key is gone; it was deleted by an attempt of
                          unknown outcome if the lease was alive until then */
  EL_ENTRY_AUDITING,   /* a key that no caller wants may exist: it is read */
  EL_ENTRY_ENDED /* the session has ended; a key that is left ends with the lease */
} el_entry_state;

/* The states' names, for traces. */
extern const char *const el_entry_state_str[];

/* el_loss is why a hold ended against its holder's will. */
typedef enum el_loss {
  EL_LOSS_NONE,
  EL_LOSS_EXPIRED,  /* the lease was not proven alive before the hold
                       deadline */
  EL_LOSS_REVOKED,  /* the lease is gone */
  EL_LOSS_DELETED,  /* another client deleted the key */
  EL_LOSS_REPLACED, /* another client wrote the key and detached it from our
                       lease */
  EL_LOSS_MAX_HOLD, /* max_hold has passed */
  EL_LOSS_CLUSTER,  /* another cluster answers, or an earlier state of this
                       one */
  EL_LOSS_CLOSED    /* the client was closed */
} el_loss;

/* Their names in the API, and texts for messages. */
extern const struct el_loss_names { const char *name, *text; } el_losses[];

/* el_request_kind is the kind of an entry's request. */
typedef enum el_request_kind {
  EL_REQUEST_NONE,
  EL_REQUEST_TRY,     /* put our key if the lock is free */
  EL_REQUEST_ENQUEUE, /* put our key if it does not exist, and read its
                         predecessor */
  EL_REQUEST_READ,    /* read our key and its predecessor */
  EL_REQUEST_DELETE   /* delete our key of |guard_rev| */
} el_request_kind;

/* el_entry_event is one event for an entry. The comment of a field names the kinds that use it. */
typedef struct el_entry_event {
  enum {
    EL_ENTRY_ON_ACQUIRE,         /* wait in the queue */
    EL_ENTRY_ON_TRY,             /* acquire only if the lock is free */
    EL_ENTRY_ON_RELEASE,         /* release the hold, or give up the wait */
    EL_ENTRY_ON_ANSWER,          /* to the request in flight */
    EL_ENTRY_ON_WATCH_CREATED,   /* rev: the store's */
    EL_ENTRY_ON_WATCH_DELETED,   /* rev: of the deletion */
    EL_ENTRY_ON_WATCH_PUT,       /* rev: of the put; lease: the one the key
                                    is attached to now */
    EL_ENTRY_ON_WATCH_REFUSED,   /* the user may not watch the key */
    EL_ENTRY_ON_LEASE_PROVEN,    /* PROVING: the session has proven its lease */
    EL_ENTRY_ON_LEASE_UNPROVEN,  /* PROVING: the session cannot prove its
                                    lease yet */
    EL_ENTRY_ON_EXPIRED,         /* the hold deadline has passed */
    EL_ENTRY_ON_LEASE_CONFIRMED, /* CONFIRMING: the lease was alive after
                                    |confirm_ms| */
    EL_ENTRY_ON_MAX_HOLD,        /* max_hold has passed */
    EL_ENTRY_ON_HANDED_OFF,      /* the key was handed off, or lingers: watch
                                    it */
    EL_ENTRY_ON_KEY_GONE,        /* another request did not find our key,
                                    which had create_revision |rev|, or found
                                    it detached */
    EL_ENTRY_ON_KEY_FOUND,       /* an audit found a key of ours */
    EL_ENTRY_ON_SESSION_ENDED,   /* how: |session_end| */
    EL_ENTRY_ON_TIMER            /* |wake_at| has come */
  } kind;
  el_outcome outcome;         /* answer; what an answer sets besides is set
                                 only if it is |is_done| */
  uint64_t term;              /* answer: raft term */
  int64_t rev;                /* answer, watch: revision; key gone:
                                 create_revision */
  int64_t proven_rev;         /* any: the store's revision when our lease was
                                 last proven, if that was less than
                                 EL_SESSION_FRESH_PROOF_MS ago; else 0 */
  int64_t lease;              /* watch put */
  bool is_detached;           /* watch put, key gone: the key exists but is off
                                 its lease */
  el_queue_key own;           /* answer: our key; rev 0: it does not exist */
  bool is_partial;            /* answer: our keys do not all exist with one
                                 create_revision */
  el_queue_key predecessor;   /* answer: the youngest older key that blocks
                                 ours; rev 0: none */
  bool is_truncated;          /* answer: the list ended before |predecessor|
                                 was known; read all */
  uint32_t n_blockers;        /* answer, semaphore: so many older keys have to
                                 go, at least */
  bool is_locked;             /* try: a key blocks ours */
  bool is_batched;            /* answer: |rev| may contain writes of other
                                 requests */
  bool is_serializable;       /* read: one member's state, which may be stale */
  bool is_deleted;            /* delete: the key existed */
  el_session_end session_end; /* session ended: how */
} el_entry_event;

/* el_entry_action is one action that an entry wants carried out. The comment of a field names the
 * kinds that set it. */
typedef struct el_entry_action {
  enum {
    EL_ENTRY_SEND_REQUEST,        /* send |request|; ON_ANSWER follows */
    EL_ENTRY_START_WATCH,         /* watch |key| only; rev 0: our key; lease
                                     0: all keys of its mode */
    EL_ENTRY_STOP_WATCH,          /* watch no key */
    EL_ENTRY_REPORT_PROOF,        /* to the session: a quorum saw the key at
                                     |sent_ms| or later, in raft term |term|,
                                     at revision |rev| */
    EL_ENTRY_REPORT_GRANTED,      /* the caller holds the lock; key.rev is
                                     the token */
    EL_ENTRY_REPORT_REFUSED,      /* the wait, or the release, failed with
                                     the last error */
    EL_ENTRY_REPORT_LOCKED,       /* the try found the lock taken */
    EL_ENTRY_REPORT_KEY_LOST,     /* our key was deleted or detached while
                                     the caller waited */
    EL_ENTRY_REPORT_RESTART,      /* the session ended before our key was in
                                     the queue */
    EL_ENTRY_REPORT_PUT_IN_DOUBT, /* to the session: our key may appear at
                                     any time */
    EL_ENTRY_CONFIRM_LEASE,       /* ask the session whether the lease is
                                     alive; ON_LEASE_CONFIRMED follows */
    EL_ENTRY_REPORT_LOST,         /* the hold is lost, for |loss| */
    EL_ENTRY_REPORT_RELEASED      /* the key is gone; is_found: it existed
                                     until our delete */
  } kind;
  el_request_kind request; /* send request */
  bool is_serializable;    /* read: one member may answer from its own state */
  bool is_full;            /* read, try: list the whole queue, not only its
                              nearest keys */
  bool reads_holder;       /* read: also the value of the holder's key, for
                              messages; |key| is a key that blocks ours */
  int64_t bound_rev;       /* try: only if all blocking keys have a
                              create_revision below this */
  int64_t guard_rev;       /* delete: only the key of this create_revision */
  el_queue_key key;        /* start watch, granted; see reads_holder */
  int64_t sent_ms;         /* proof: when the request was sent (el_now_ms) */
  uint64_t term;           /* proof: raft term of the answer */
  int64_t rev;             /* proof: the store's revision */
  el_loss loss;            /* lost: why */
  bool is_found;           /* released */
} el_entry_action;

enum { EL_ENTRY_ACTIONS_MAX = 8 };

/* el_entry_actions is the list of the |n| actions of one step, in the order to carry them out. */
typedef struct el_entry_actions {
  int n;
  el_entry_action list[EL_ENTRY_ACTIONS_MAX];
} el_entry_actions;

/* el_entry is the state machine of one entry. Times are el_now_ms. The bit fields save memory: a
 * client may have thousands of entries. */
typedef struct el_entry {
  el_entry_state state : 8;
  el_mode mode : 8;
  el_request_kind in_flight : 8;  /* the request that awaits its answer */
  bool is_wanted : 1;             /* a caller waits or holds */
  bool is_try : 1;                /* the caller does not wait for other
                                     clients */
  bool is_fresh : 1;              /* PROVING: the answer just processed saw
                                     our key first */
  bool is_watching : 1;           /* a watch is open or being opened */
  bool must_reread : 1;           /* an event came during a read: read again */
  bool must_report_release : 1;   /* a holder waits for the end of its
                                     release */
  bool may_be_deleted : 1;        /* a delete of unknown outcome was sent */
  bool has_session_ended : 1;     /* RELEASING or AUDITING, after the end of
                                     the session ... */
  bool has_lease_ended_early : 1; /* ... whose lease ended before its TTL */
  bool has_request_in_doubt : 1;  /* the outcome of a request that writes is
                                     unknown */
  uint8_t failures;               /* failed attempts in a row */
  uint16_t n_blockers;            /* WAITING: read when so many keys have
                                     gone, or before */
  int32_t reread_ms;              /* WAITING: interval of reads without an
                                     event */
  int32_t lock_delay_ms;          /* how long the key of an expired hold
                                     stays */
  int64_t lease;                  /* ID of the session's lease */
  int64_t wake_at;                /* when to give ON_TIMER; 0: never */
  int64_t confirm_ms;             /* CONFIRMING: since when */
  int64_t bound_rev;              /* TRYING: as in the action */
  int64_t rev;                    /* create_revision of our key, 0 if unknown */
  el_queue_key predecessor;       /* WAITING: the key that is watched */
  int64_t watch_rev;              /* what is known of the watched key is of
                                     this revision or later */
} el_entry;

/* el_entry_init sets |entry| to an IDLE entry of |mode| of the session |session|, which must be
 * alive. @thread any */
void el_entry_init(el_entry *entry, el_mode mode, const el_session *session);

/* el_entry_step applies |event| at |now_ms| and fills |out| with the actions to carry out, in this
 * order. @thread any */
void el_entry_step(el_entry *entry, const el_entry_event *event, int64_t now_ms,
                   el_entry_actions *out);

/* el_entry_can_start tells whether ON_ACQUIRE and ON_TRY are allowed now. @thread any */
bool el_entry_can_start(const el_entry *entry);

/* el_entry_is_finished tells whether |entry| may be freed: nothing is in flight or left to do.
 * @thread any */
bool el_entry_is_finished(const el_entry *entry);

/* el_entry_is_definite tells whether the outcome of each request that writes is known, so that
 * after the end of the entry none can be applied. @thread any */
bool el_entry_is_definite(const el_entry *entry);

#endif
