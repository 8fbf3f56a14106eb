/* entry: one entry in the queue of a lock: it decides, sends requests and watches keys. I/O thread
 * only.
 *
 * An entry belongs to one session. It has at most one key in a queue; the entry of a multi-lock has
 * one key in each of its queues. If the session ends, the entry lives on until its last request is
 * answered.
 *
 *   IDLE        acquire -> ENQUEUING; try -> TRYING; an audit finds our key -> RELEASING
 *   TRYING      lock free -> PROVING; locked -> IDLE, failed; keys were put since the first try
 *               -> ENQUEUING; our key is put, but not known to be first -> WAITING
 *   ENQUEUING   first in the queue -> PROVING; else -> WAITING
 *   WAITING     predecessor gone -> PROVING; own key gone -> CONFIRMING
 *   PROVING     lease proven -> HELD; proven too late -> WAITING, which reads again; own key gone
 *               -> CONFIRMING
 *   HELD        release -> RELEASING; max_hold over, hold expired or key detached -> RELEASING,
 *               lost; key deleted -> IDLE, lost, or RELEASING, lost, if other keys of the entry
 *               may be left
 *   RELEASING   (after the lock delay, if the hold has expired) key deleted or gone -> IDLE; key
 *               gone, perhaps by a delete of unknown outcome -> CONFIRMING
 *   CONFIRMING  lease was alive -> IDLE; or a wait fails, because an admin has deleted the key
 *   a wait      given up or failed -> RELEASING, or IDLE if there is no key
 *   any state   session ended -> ENDED; a wait begins again with the next session; a release that
 *               its holder waits for is finished first, and so is each delete if the lease lives on
 *
 * At most one request is in flight. If the caller gives up a wait, the entry first awaits the
 * answer to its request, and then deletes the key. So a cancelled wait leaves no key behind.
 *
 * UNAVAILABLE and DEADLINE_EXCEEDED may hide a commit, and etcd may even apply the request minutes
 * later. So the entry reports an enqueue or a try of unknown outcome to the session as a put in
 * doubt. From then on the session audits its lease. If an audit finds a key of an idle entry, the
 * entry reads the key, for its create_revision, and deletes it (RELEASING).
 *
 * An event is an answer, an event of a watch, a timer that is due, or a call of a function below
 * that "tells" the entry something. The entry reports to the local queue at most once in an event,
 * as its last act, when its state is final. During an event the local queue gives the entry no
 * other event.
 */
#ifndef ETCDLOCK_LOCK_ENTRY_H
#define ETCDLOCK_LOCK_ENTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "etcd/watch.h"
#include "lock/session.h"
#include "protocol/key.h"
#include "protocol/lock_txn.h"
#include "protocol/loss.h"

typedef struct el_entry el_entry;

/* el_entry_state is the state of an entry: see the diagram above. */
typedef enum el_entry_state {
  /* our key is not in etcd, unless a put in doubt is applied later */
  EL_ENTRY_IDLE,
  EL_ENTRY_TRYING,    /* a try is in flight or will be repeated */
  EL_ENTRY_ENQUEUING, /* an enqueue is in flight or will be repeated */
  EL_ENTRY_WAITING,   /* our key is queued, behind |predecessor| (if known) */
  /* no older key blocks ours; the session must prove that its lease is alive */
  EL_ENTRY_PROVING,
  EL_ENTRY_HELD, /* the lock is held, or its key lingers */
  /* the key is being deleted: after a read if an audit found it, after the lock delay if its hold
   * has expired */
  EL_ENTRY_RELEASING,
  /* the key is gone; if the lease is still alive, an earlier delete of unknown outcome has deleted
   * the key, or, in a wait, an admin */
  EL_ENTRY_CONFIRMING,
  EL_ENTRY_ENDED /* the session has ended; a key that is left ends with the lease */
} el_entry_state;

/* el_entry_failure is why a wait has failed. */
typedef enum el_entry_failure {
  /* etcd has refused the request or a watch; the last error of the entry tells why */
  EL_ENTRY_REFUSED,
  EL_ENTRY_LOCKED, /* the try found the lock taken */
  /* our key was deleted or detached while the caller waited, although the lease is alive */
  EL_ENTRY_KEY_LOST
} el_entry_failure;

/* el_entry_ending is how a release has ended. */
typedef enum el_entry_ending {
  /* the key existed until our delete, or is kept: handed off, shared or lingering */
  EL_ENTRY_INTACT,
  /* the key was gone or detached before our delete, or etcd will not confirm the delete */
  EL_ENTRY_GONE,
  /* etcd has refused the delete; the last error of the entry tells why */
  EL_ENTRY_NOT_DELETED
} el_entry_ending;

/* el_entry_events holds the functions that an entry calls, on the I/O thread. The first five are
 * reports. All but |stepped| are called during an event. */
typedef struct el_entry_events {
  void (*granted)(el_entry *entry); /* the caller holds the lock */
  void (*failed)(el_entry *entry, el_entry_failure why);
  /* The session ended before the grant. If entry->rev is 0, our key was not in the queue. */
  void (*must_restart)(el_entry *entry);
  void (*lost)(el_entry *entry, el_loss loss);
  void (*released)(el_entry *entry, el_entry_ending how);
  /* stepped is called after each event and its report, because the entry may now be IDLE or ENDED.
   * The function may free |entry|. */
  void (*stepped)(el_entry *entry);
  /* saw_key is called when an answer shows a key that a message may name: the key that holds the
   * lock (|permits| is 0), or a key of the semaphore with another number of permits, |permits|.
   * |label| is the value of the key. */
  void (*saw_key)(el_entry *entry, uint16_t permits, el_bytes label);
  /* pick_slot is called when user data has the name of the key of |entry|. It returns another slot
   * for the key. */
  uint32_t (*pick_slot)(el_entry *entry);
} el_entry_events;

/* el_entry is one entry; embedded in an entry of the local queue. Times are el_now_ms. The bit
 * fields save memory: a client may have thousands of entries. */
struct el_entry {
  el_session *session;
  el_keys keys; /* the keys of the entry in etcd, with its lease and its mode */
  /* the value that an enqueue or a try puts; owned by the waiter */
  el_bytes value;
  struct el_sent *sent; /* the request in flight; NULL: none */
  /* the error of the last request, or of a refused watch; NULL: none */
  el_error *last_error;
  /* the watches of the entry, a list; NULL: none */
  struct el_key_watch *watched;
  /* listed by the session for lease checks, so that keepalives are proven */
  el_checked_key checked_key;
  el_timer timer;
  el_entry_state state : 8;
  uint8_t failures;          /* failed attempts in a row */
  bool is_in_event : 1;      /* an event is being applied */
  bool has_reported : 1;     /* the event was reported to the local queue */
  bool is_wanted : 1;        /* a waiter waits or holds, or the key lingers */
  bool is_try : 1;           /* the caller does not wait for other clients */
  bool has_waited : 1;       /* the entry has waited for an older key */
  bool must_reread : 1;      /* a watch event came during a read: read again */
  bool has_asked_holder : 1; /* a periodic read was sent for |predecessor| */
  /* a holder waits for the end of its release */
  bool must_report_release : 1;
  /* a waiter of this client waits until the key of this entry is deleted */
  bool is_expedited : 1;
  bool may_be_deleted : 1; /* a delete of unknown outcome was sent */
  /* RELEASING: the hold has expired, and the key blocks other clients, as after a crash */
  bool is_in_lock_delay : 1;
  /* RELEASING: the session has ended */
  bool has_session_ended : 1;
  /* with |has_session_ended|: the lease had ended before its TTL was over */
  bool has_lease_ended_early : 1;
  /* the outcome of a request that writes is unknown, or a key that an audit found was not read */
  bool has_request_in_doubt : 1;
  bool is_proving : 1; /* the entry is in the list session->proving */
  /* WAITING for a permit: read again when this many keys have gone, or earlier */
  uint16_t n_blockers;
  uint32_t slot; /* distinguishes the client's keys in one queue */
  /* PROVING: when an answer showed our key last; CONFIRMING: when this state began */
  int64_t since_ms;
  int64_t bound_rev;        /* TRYING: as in el_entry_request */
  int64_t rev;              /* create_revision of our key, 0 if unknown */
  el_queue_key predecessor; /* WAITING: as in el_entry_answer; rev 0: unknown */
  /* Revision up to which the state of the watched keys is known. PROVING, HELD: of our own key. */
  int64_t watch_rev;
  TAILQ_ENTRY(el_entry) proving_link;
};

/* ---- life ---- */

/* el_entry_init sets |entry| to an IDLE entry of |session|, which is alive, for the lock |name|. Of
 * |queue_key| only slot, mode and permits are used. @thread io */
void el_entry_init(el_entry *entry, el_session *session, el_bytes name,
                   const el_queue_key *queue_key);

/* el_entry_destroy frees what |entry| owns. No request of the entry may be in flight. @thread io */
void el_entry_destroy(el_entry *entry);

/* el_entry_can_start tells whether el_entry_acquire is allowed now. @thread io */
bool el_entry_can_start(const el_entry *entry);

/* el_entry_is_finished tells whether |entry| may be freed: nothing is in flight or left to do.
 * @thread io */
bool el_entry_is_finished(const el_entry *entry);

/* el_entry_is_definite tells whether the outcomes of all writes of the entry are known. If so, none
 * of them can be applied after the end of the entry. @thread io */
bool el_entry_is_definite(const el_entry *entry);

/* ---- events of the local queue ---- */

/* el_entry_acquire tells the entry to acquire the lock by a key with |value|. If |try_once|, the
 * entry fails instead of waiting for another client. @thread io */
void el_entry_acquire(el_entry *entry, bool try_once, el_bytes value);

/* el_entry_release tells the entry to release the hold, or to give up the wait. @thread io */
void el_entry_release(el_entry *entry);

/* el_entry_end_max_hold tells the entry that max_hold has passed. @thread io */
void el_entry_end_max_hold(el_entry *entry);

/* el_entry_expire tells the entry that the hold deadline has passed. @thread io */
void el_entry_expire(el_entry *entry);

/* el_entry_watch_own_key has the entry watch its own key, which was handed off, is shared or
 * lingers. The call is no event. @thread io */
void el_entry_watch_own_key(el_entry *entry);

/* el_entry_expedite makes all requests of the entry foreground requests, because a waiter of this
 * client waits until the key of the entry is deleted. @thread io */
void el_entry_expedite(el_entry *entry);

/* ---- events of the session, and of other requests ---- */

/* el_entry_find_key tells the entry that an audit has found a key of it. @thread io */
void el_entry_find_key(el_entry *entry);

/* el_entry_lose_key tells the entry that another request did not find its key with the
 * create_revision |rev|. |is_detached|: that request found the key, but attached to another lease
 * or to none. @thread io */
void el_entry_lose_key(el_entry *entry, int64_t rev, bool is_detached);

/* el_entry_key_checked passes on what a lease check has found for |key|, the key of an entry: see
 * key_checked in session.h. @thread io */
void el_entry_key_checked(el_checked_key *key, bool is_found, bool is_detached);

/* el_entry_end_session tells the entry that its session has ended. |how| says how. @thread io */
void el_entry_end_session(el_entry *entry, el_session_end how);

/* el_entry_pass_on_proof tells the PROVING entries of |session| that their lease is proven, if it
 * is proven now. It tells a CONFIRMING entry that its lease was alive if the last answered
 * keepalive was sent at |since_ms| or later. @thread io */
void el_entry_pass_on_proof(el_session *session);

/* el_entry_watch_size returns the bytes of one watch, for benchmarks. @thread any */
size_t el_entry_watch_size(void);

#endif
