/* entry: one entry in the queue of a lock, as a pure step function.
 *
 * An entry belongs to one session and one queue. It has at most one key in etcd; the entry of a
 * multi-lock has one key in each of its queues. A step function applies one event and returns the
 * actions that lock/entry_driver.c must carry out. It has no I/O, clock or thread.
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
 * At most one request is in flight. If the caller gives up a wait, the entry first awaits the
 * answer to its request, and then deletes the key. So a cancelled wait leaves no key behind.
 *
 * UNAVAILABLE and DEADLINE_EXCEEDED may hide a commit, and etcd may even apply the request minutes
 * later. So the entry reports an enqueue of unknown outcome to the session as a put in doubt. From
 * then on the session audits its lease. If an audit finds a key of an idle entry, the entry reads
 * the key (AUDITING) and deletes it.
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
  /* our key is not in etcd, unless a put in doubt is applied later */
  EL_ENTRY_IDLE,
  EL_ENTRY_TRYING,    /* a try is in flight or will be repeated */
  EL_ENTRY_ENQUEUING, /* an enqueue is in flight or will be repeated */
  EL_ENTRY_WAITING,   /* our key is in the queue, behind |predecessor| */
  /* our key is first in the queue; the session must prove that its lease is alive */
  EL_ENTRY_PROVING,
  EL_ENTRY_HELD, /* the caller holds the lock */
  /* the hold has expired; the key stays for the lock delay and blocks other clients, as after a
   * crash */
  EL_ENTRY_LOCK_DELAY,
  EL_ENTRY_RELEASING, /* the key is being deleted */
  /* the key is gone; if the lease is still alive, an earlier delete of unknown outcome has deleted
   * the key */
  EL_ENTRY_CONFIRMING,
  /* our key may exist although no caller wants it: it is being read */
  EL_ENTRY_AUDITING,
  EL_ENTRY_ENDED /* the session has ended; a key that is left ends with the lease */
} el_entry_state;

/* el_loss is why a hold ended against its holder's will. */
typedef enum el_loss {
  EL_LOSS_NONE,
  /* the lease was not proven alive before the hold deadline */
  EL_LOSS_EXPIRED,
  EL_LOSS_REVOKED, /* the lease is gone */
  EL_LOSS_DELETED, /* another client deleted the key */
  /* another client wrote the key and detached it from our lease */
  EL_LOSS_REPLACED,
  EL_LOSS_MAX_HOLD, /* max_hold has passed */
  /* another cluster answers, or an earlier state of this one */
  EL_LOSS_CLUSTER,
  EL_LOSS_CLOSED /* the client was closed */
} el_loss;

/* el_losses holds the name of each el_loss in the API, and its text for messages. */
extern const struct el_loss_names { const char *name, *text; } el_losses[];

/* el_request_kind is the kind of an entry's request. */
typedef enum el_request_kind {
  EL_REQUEST_NONE,
  EL_REQUEST_TRY, /* put our key if the lock is free */
  /* put our key if the key does not exist, and read its predecessor */
  EL_REQUEST_ENQUEUE,
  EL_REQUEST_READ,  /* read our key and its predecessor */
  EL_REQUEST_DELETE /* delete our key if its create_revision is |guard_rev| */
} el_request_kind;

/* el_walk is a part of the older keys of a queue. A queue may be long, and its keys may have large
 * values. If the keys next to ours do not tell whether our key must wait, for example because all
 * of them are user data, the entry walks: it reads the older keys part by part, the youngest first.
 * No key that is put later is older than ours, so the parts may have different revisions. */
typedef struct el_walk {
  /* only keys with a lower create_revision; 0: all keys that are older than ours, or all keys if
   * ours does not exist */
  int64_t below;
  /* the largest number of keys of each range; 0: the smallest number that is likely to suffice */
  uint32_t limit;
  /* semaphore: the number of older permits in the parts that were read before */
  uint32_t n_ahead;
  /* revision up to which the first part shows the state; 0: this is the first part */
  int64_t rev;
  /* an answer was too large: go on in parts that do not overlap */
  bool is_shrunk;
} el_walk;

/* el_entry_signal is an event that has no fields. */
typedef enum el_entry_signal {
  EL_ENTRY_ON_ACQUIRE,       /* wait in the queue */
  EL_ENTRY_ON_TRY,           /* acquire only if the lock is free */
  EL_ENTRY_ON_RELEASE,       /* release the hold, or give up the wait */
  EL_ENTRY_ON_WATCH_REFUSED, /* the user may not watch the key */
  EL_ENTRY_ON_LEASE_PROVEN,  /* PROVING: the session has proven its lease */
  /* PROVING: a lease check has just found our key; no older key can have come since */
  EL_ENTRY_ON_KEY_SEEN,
  EL_ENTRY_ON_EXPIRED, /* the hold deadline has passed */
  /* CONFIRMING: the lease was alive at |since_ms| or later */
  EL_ENTRY_ON_LEASE_CONFIRMED,
  EL_ENTRY_ON_MAX_HOLD, /* max_hold has passed */
  /* the key was handed off, or lingers: watch it */
  EL_ENTRY_ON_HANDED_OFF,
  EL_ENTRY_ON_KEY_FOUND, /* an audit found a key of ours */
  EL_ENTRY_ON_TIMER      /* |wake_at| has come */
} el_entry_signal;

/* el_entry_answer is the answer to the request in flight. */
typedef struct el_entry_answer {
  /* how the request ended; the other fields are set only if outcome.is_done */
  el_outcome outcome;
  uint64_t member; /* ID of the member that has answered */
  uint64_t term;   /* raft term */
  int64_t rev;     /* revision */
  /* the store's revision in the latest proof of our lease, if that proof is fresh
   * (EL_FRESH_PROOF_MS); else 0 */
  int64_t proven_rev;
  el_queue_key own; /* our key; rev 0: it does not exist */
  bool is_partial;  /* our keys do not all exist with one create_revision */
  /* the youngest older key that blocks ours; rev 0: none */
  el_queue_key predecessor;
  /* it does not tell whether our key must wait: read |walk| */
  bool is_truncated;
  /* it was too large to be received: ask for |walk|, which is smaller */
  bool is_too_large;
  /* the part of the queue to read next; if there is none, only its |rev| has a meaning */
  el_walk walk;
  /* semaphore: at least this many older keys must go before ours holds a permit */
  uint32_t n_blockers;
  bool is_locked; /* try: a key blocks ours */
  /* enqueue, second try: our key was put, and the older keys are listed */
  bool is_put;
  /* the request was in a batch, so writes of other requests may have the revision |rev| */
  bool is_batched;
  bool is_serializable; /* read: one member's state, which may be stale */
  bool is_deleted;      /* delete: the key existed, and was deleted */
  /* try, enqueue: another client has put a key with the name of ours, so ours was not put */
  bool is_name_taken;
} el_entry_answer;

/* el_key_change is how a watched key has changed. */
typedef enum el_key_change {
  EL_KEY_PUT, /* it is attached to the lease that it contains */
  /* it was put, and is not attached to the lease that it contains any more */
  EL_KEY_DETACHED,
  EL_KEY_DELETED
} el_key_change;

/* el_entry_action is one action that an entry wants carried out. The comment of a field names the
 * kinds that set it. */
typedef struct el_entry_action {
  enum {
    EL_ENTRY_SEND_REQUEST, /* send |request|; el_entry_answered follows */
    /* watch |key|, and no other key any more; key.rev 0: watch our key; key.lease 0: watch all keys
     * of the mode key.mode */
    EL_ENTRY_START_WATCH,
    EL_ENTRY_STOP_WATCH,   /* watch no key */
    EL_ENTRY_REPORT_SIGHT, /* tell the session of |sight| */
    /* the caller holds the lock; key.rev is the token */
    EL_ENTRY_REPORT_GRANTED,
    /* the wait, or the release, has failed; the last error tells why */
    EL_ENTRY_REPORT_REFUSED,
    EL_ENTRY_REPORT_LOCKED, /* the try found the lock taken */
    /* our key was deleted or detached while the caller waited */
    EL_ENTRY_REPORT_KEY_LOST,
    /* the session ended before our key was in the queue */
    EL_ENTRY_REPORT_RESTART,
    /* tell the session that our key may appear at any time */
    EL_ENTRY_REPORT_PUT_IN_DOUBT,
    /* ask the session whether the lease is alive; ON_LEASE_CONFIRMED follows */
    EL_ENTRY_CONFIRM_LEASE,
    EL_ENTRY_REPORT_LOST, /* the hold is lost, for |loss| */
    /* the key is gone; |is_found|: it existed until our delete */
    EL_ENTRY_REPORT_RELEASED
  } kind;
  el_request_kind request; /* send request */
  bool is_serializable;    /* read: one member may answer from its own state */
  bool is_own_only;        /* read: our own key, and no other keys */
  el_walk walk; /* read, try, enqueue: the part of the queue to list */
  /* read: read also the value of the holder's key, for messages; |key| blocks ours, and
   * key.name_index tells in which queue to read */
  bool reads_holder;
  /* try: put our key only if all keys that may conflict have a create_revision below this */
  int64_t bound_rev;
  bool is_audit; /* read: for a key that an audit has found */
  /* delete: delete only the key with this create_revision; 0: only if it is attached to our lease
   */
  int64_t guard_rev;
  /* start watch: what to watch; granted: |rev| is the token; read: see |reads_holder| */
  el_queue_key key;
  el_sight sight; /* of our key, by a quorum */
  el_loss loss;   /* lost: why */
  bool is_found;  /* released */
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
  el_request_kind in_flight : 8; /* the request that awaits its answer */
  bool is_wanted : 1;            /* a caller waits or holds */
  /* the caller does not wait for other clients */
  bool is_try : 1;
  bool is_watching : 1;      /* a watch is open or being opened */
  bool must_reread : 1;      /* an event came during a read: read again */
  bool has_asked_holder : 1; /* a periodic read was sent during this wait */
  /* a holder waits for the end of its release */
  bool must_report_release : 1;
  bool may_be_deleted : 1; /* a delete of unknown outcome was sent */
  /* RELEASING or AUDITING: the session has ended */
  bool has_session_ended : 1;
  /* with |has_session_ended|: the lease had ended before its TTL was over */
  bool has_lease_ended_early : 1;
  /* the outcome of a request that writes is unknown */
  bool has_request_in_doubt : 1;
  uint8_t failures; /* failed attempts in a row */
  /* WAITING for a permit: read again when this many keys have gone, or earlier */
  uint16_t n_blockers;
  /* WAITING: milliseconds until the next read if no event comes */
  int32_t reread_ms;
  /* milliseconds for which the key of an expired hold stays */
  int32_t lock_delay_ms;
  int64_t lease;   /* ID of the session's lease */
  int64_t wake_at; /* when to give ON_TIMER; 0: never */
  /* PROVING: when an answer showed our key last; CONFIRMING: when this state began */
  int64_t since_ms;
  int64_t bound_rev;        /* TRYING: as in the action */
  int64_t rev;              /* create_revision of our key, 0 if unknown */
  el_queue_key predecessor; /* WAITING: the key that is watched */
  /* Revision up to which the state of the watched key is known. PROVING, HELD: of our own key. */
  int64_t watch_rev;
} el_entry;

/* el_entry_init sets |entry| to an IDLE entry of the lock mode |mode|. The entry belongs to
 * |session|, which must be alive. @thread any */
void el_entry_init(el_entry *entry, el_mode mode, const el_session *session);

/* Each of the next functions is a step: it applies one event at |now_ms|, and fills |out| with the
 * actions to carry out, in this order. */

/* el_entry_step applies |signal|. @thread any */
void el_entry_step(el_entry *entry, el_entry_signal signal, int64_t now_ms,
                   el_entry_actions *out);

/* el_entry_answered applies the answer to the request in flight, or its failure. @thread any */
void el_entry_answered(el_entry *entry, const el_entry_answer *answer,
                       int64_t now_ms, el_entry_actions *out);

/* el_entry_watch_created tells that the watch was created at revision |rev|. @thread any */
void el_entry_watch_created(el_entry *entry, int64_t rev,
                            el_entry_actions *out);

/* el_entry_key_changed tells of the |change| of a watched key at revision |rev|. |is_proven|: a
 * fresh proof of our lease exists, as in el_entry_answer. @thread any */
void el_entry_key_changed(el_entry *entry, int64_t rev, el_key_change change,
                          bool is_proven, el_entry_actions *out);

/* el_entry_key_gone tells that another request did not find our key with create_revision |rev|, or
 * found that it is not attached to our lease any more (|is_detached|). @thread any */
void el_entry_key_gone(el_entry *entry, int64_t rev, bool is_detached,
                       el_entry_actions *out);

/* el_entry_session_ended tells that the session has ended, as |end| says. @thread any */
void el_entry_session_ended(el_entry *entry, el_session_end end,
                            el_entry_actions *out);

/* el_entry_can_start tells whether ON_ACQUIRE and ON_TRY are allowed now. @thread any */
bool el_entry_can_start(const el_entry *entry);

/* el_entry_is_finished tells whether |entry| may be freed: nothing is in flight or left to do.
 * @thread any */
bool el_entry_is_finished(const el_entry *entry);

/* el_entry_is_definite tells whether the outcomes of all writes of the entry are known. If so, none
 * of them can be applied after the end of the entry. @thread any */
bool el_entry_is_definite(const el_entry *entry);

#endif
