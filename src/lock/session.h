/* session: the lease of a client: grant, keepalives, lease checks and audits, and the time until
 * which holds on the lease are proven. When a lease has ended and a waiter needs one, the session
 * asks for the next lease. I/O thread only.
 *
 *   NEW -needed-> GRANTING -granted-> ALIVE -gone or given up-> ENDED -el_session_reset-> NEW
 *    ^               |                  |
 *    +--- refused ---+                  +-close-> REVOKING -> ENDED
 *   NEW, GRANTING -close-> ENDED
 *
 * Hold deadline. The holds of a session are valid until |hold_deadline|: the TTL, minus the margin,
 * after the last proven renewal was sent (lease_proof.h). If the answers to a keepalive and to the
 * read that was sent with it do not prove the keepalive, for example because their raft terms
 * differ, the session renews the lease again.
 *
 * So every TTL/3 a session sends one keepalive and, while keys are held or may soon be held, one
 * linearizable read of one of them, both at once. If the TTL is under about 7 s, it sends them more
 * often, so that a hold outlives an election. If an answer may take TTL/4 or longer
 * (net/patience.h), it sends them every TTL/10, so that a hold outlives lost packets and a slow
 * disk. They are sent on time although earlier ones are unanswered. The requests of each
 * acquisition also serve as reads.
 *
 * Lock delay. A session with a lock delay asks for a lease of TTL plus lock delay, and its hold
 * deadline counts the TTL only. So the keys of a client that crashes block other clients for at
 * least the lock delay after the end of its holds.
 *
 * If |hold_deadline| passes while the session has holds, these are lost, even if the lease turns
 * out to be alive. From then on the session does not revoke its lease until the lock delay is over,
 * because the keys of the lost holds are attached to the lease. If the session is closed before
 * that, it leaves the lease to expire, and its entries delete all keys but those of the lost holds.
 *
 * Audits. A put of unknown outcome may be applied at any later time, and its key would block other
 * clients until the lease ends. So after such a put the session lists the keys of its lease again
 * and again, in growing intervals. When nothing needs this lease any more, the session revokes it.
 *
 * During an event the session calls no function of the layers above. It records news for them as
 * bits, and settle (client.c) takes the bits after the event. (When a lease check or an audit is
 * answered, key_checked or found_key is called first; only then does the event begin.) */
#ifndef ETCDLOCK_LOCK_SESSION_H
#define ETCDLOCK_LOCK_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "etcd/lease.h"
#include "etcd/watch.h"
#include "lock/lease_revocations.h"
#include "lock/request_queue.h"
#include "lock/shared.h"
#include "lock/watch_cache.h"
#include "protocol/key.h"
#include "protocol/lease_proof.h"

/* el_session is the session of one client. */
typedef struct el_session el_session;

/* el_session_state is the state of a lease: see the diagram above. */
typedef enum el_session_state {
  EL_SESSION_NEW,      /* no lease */
  EL_SESSION_GRANTING, /* a grant is in flight or will be sent */
  EL_SESSION_ALIVE,    /* the lease was alive at the last answer */
  EL_SESSION_REVOKING, /* closing: a revoke is in flight or will be repeated */
  EL_SESSION_ENDED     /* the lease is gone, or is no longer kept alive */
} el_session_state;

/* el_session_end is how a lease has ended. */
typedef enum el_session_end {
  /* the lease is gone, or counts as gone, after TTL and lock delay */
  EL_SESSION_END_EXPIRED,
  /* the lease is gone, or counts as gone, before TTL and lock delay were over: etcd may not have
   * kept the keys for as long as it had promised */
  EL_SESSION_END_EARLY,
  /* given up by the client: the lease is or will be revoked, or there was none */
  EL_SESSION_END_CLOSED,
  /* closed by the client; the lease is left to expire */
  EL_SESSION_END_LEFT_TO_EXPIRE
} el_session_end;

/* The bits that el_session_take_news returns. */
enum {
  EL_SESSION_NEWS_READY = 1, /* the lease can be used */
  /* etcd refuses to grant a lease; el_session_last_error returns why */
  EL_SESSION_NEWS_REFUSED = 2,
  /* the hold deadline has passed: all holds are lost */
  EL_SESSION_NEWS_EXPIRED = 4,
  EL_SESSION_NEWS_ENDED = 8, /* the lease has ended; lease.end tells how */
  /* no hold can be proven: answers take too long for the TTL; el_session_last_error tells how long
   */
  EL_SESSION_NEWS_TOO_SLOW = 16
};

enum {
  /* the largest number of keepalives in flight, and of reads */
  EL_SESSION_IN_FLIGHT_MAX = EL_RENEWALS_MAX
};

/* el_checked_key is a key that its session lists while the key is held or may soon be held. A lease
 * check reads one of the listed keys, to prove that the lease is alive. Embedded in el_entry. */
typedef struct el_checked_key el_checked_key;
struct el_checked_key {
  const el_keys *keys;
  int64_t rev;  /* create_revision of the key; 0: its put is not confirmed */
  bool is_held; /* the key is listed and held */
  /* zero while the key is not listed */
  TAILQ_ENTRY(el_checked_key) link;
};

/* el_session_lease is the present lease of a session. Times are el_now_ms. */
typedef struct el_session_lease {
  el_session_state state;
  el_session_end end; /* ENDED: how */
  int64_t id;         /* 0 before it is granted */
  int64_t grant_at;   /* send no grant before this */
  int64_t ttl_ms;     /* TTL as granted, without the lock delay */
  /* the time until which holds are proven; 0: no hold is proven */
  int64_t hold_deadline;
  el_lease_proof proof;

  /* when the keepalives in flight were sent, the oldest first */
  int64_t keepalives_ms[EL_SESSION_IN_FLIGHT_MAX];
  int keepalives; /* in flight */
  /* when to send the next keepalive, grant or revoke */
  int64_t renew_at;
  uint8_t failures; /* failed grants, keepalives and revokes in a row */
  /* when to read a key again; 0: with the next keepalive */
  int64_t read_at;
  int64_t read_ms;       /* when the last read of a key was sent */
  uint8_t reads;         /* reads of a key in flight */
  uint8_t read_failures; /* failed reads in a row */
  /* do not revoke the lease before this, because all its holds were lost; 0: they were not, or
   * there is no lock delay */
  int64_t keep_until;
  /* an entry needs the answer to a keepalive that is sent at this time or later; 0: no entry has
   * needed it */
  int64_t confirm_ms;

  bool has_put_in_doubt; /* a put of a key may be applied later */
  bool is_auditing;      /* an audit is in flight */
  /* when to audit; 0: never, or an audit is in flight */
  int64_t audit_at;
  /* milliseconds from the next answer to an audit until the audit after it */
  int64_t audit_interval_ms;
  uint8_t audit_failures; /* failed audits in a row */
} el_session_lease;

struct el_session {
  /* ---- set before el_session_init ---- */

  el_shared *shared;
  el_watch_cache *watch_cache;
  int64_t ttl_ms; /* TTL to ask for, without the lock delay */
  /* milliseconds that are added to the TTL of the lease; 0: none */
  int64_t lock_delay_ms;
  /* key_checked is called when a lease check has found the listed |key|, or not. |is_detached|: it
   * has found the key attached to another lease or to none. */
  void (*key_checked)(el_checked_key *key, bool is_found, bool is_detached);
  /* found_key is called for each key that an audit finds attached to |lease|, the present lease. */
  void (*found_key)(el_session *session, int64_t lease, el_bytes key);

  /* ---- set by the local queues and their entries ---- */

  const struct el_entry_events *entry_events; /* of the local queues */
  /* number of local queues, plus entries that outlive the lease */
  int users;
  /* A waiter needs the lease. settle (client.c) tells the session and sets this to false. */
  bool wanted;
  /* the PROVING and CONFIRMING entries */
  TAILQ_HEAD(, el_entry) proving;

  /* ---- the rest is for session.c, and to read ---- */

  el_session_lease lease;
  /* Number of the present lease. Answers to calls for an earlier lease do not change |lease|. */
  unsigned generation;
  unsigned news;
  el_hold_deadline *published; /* the hold deadline that other threads read */
  uint64_t salt;               /* spreads the retries: see el_retry_at */
  /* number of leases that were lost since a hold was last proven */
  int unproven_leases;
  /* the error by which etcd told that the last lease does not exist */
  el_error lease_end_error;
  bool has_lease_end_error; /* |lease_end_error| is of the present lease */
  int64_t lease_end_ms;     /* when it came, by el_now_ms */
  /* of the last grant, keepalive or lease check; code EL_OK: it succeeded */
  el_error last_error;
  /* answers take too long for the TTL, and no hold is proven; code EL_OK: this is not so */
  el_error too_slow;
  int64_t too_slow_ms; /* since when, if it is so */
  el_timer timer;
  el_keepalive *keepalive;
  /* The listed keys. A lease check reads the first key whose put is confirmed. If there is none, it
   * reads the first key. The key that is read moves to the end. */
  TAILQ_HEAD(, el_checked_key) keys;
  int n_keys, n_held;
  /* leases that are revoked in the background */
  el_lease_revocations revocations;
  int calls_in_flight; /* number of grants, revokes and audits in flight */
  bool is_in_event;    /* an event is being applied */
  bool is_stopping;
};

/* ---- life ---- */

/* el_session_init sets up |session| without a lease. @thread io */
void el_session_init(el_session *session);

/* el_session_reset forgets the lease, which has ended. @thread io */
void el_session_reset(el_session *session);

/* el_session_stop stops all timers. After that, answers to calls are only freed. @thread io */
void el_session_stop(el_session *session);

/* el_session_destroy frees what |session| owns. No call of the session may be in flight.
 * @thread io */
void el_session_destroy(el_session *session);

/* el_session_is_over tells whether the lease has ended and no lease call is in flight.
 * @thread io */
bool el_session_is_over(const el_session *session);

/* ---- events of the client ---- */

/* el_session_take_news returns the news since the last call, as EL_SESSION_NEWS bits. @thread io */
unsigned el_session_take_news(el_session *session);

/* el_session_need tells the session that a waiter needs a lease. @thread io */
void el_session_need(el_session *session);

/* el_session_set_unused tells the session that nothing needs the lease at the moment. If a put with
 * the lease has an unknown outcome, the session revokes the lease, so that a late put cannot
 * succeed; but not before the lock delay of a lost hold is over. @thread io */
void el_session_set_unused(el_session *session);

/* el_session_moved has the lease renewed soon, because the client has another connection, or etcd
 * another leader. @thread io */
void el_session_moved(el_session *session);

/* el_session_close begins the end of the session: it revokes the lease. If a hold was lost and its
 * lock delay is not over, it leaves the lease to expire instead (EL_SESSION_END_LEFT_TO_EXPIRE).
 * @thread io */
void el_session_close(el_session *session);

/* el_session_abandon ends the lease at once, as if it had been lost (EL_SESSION_END_EARLY or
 * EL_SESSION_END_EXPIRED). It has the lease revoked in the background, except during the lock delay
 * of a lost hold. A session whose lease is not alive ends as by el_session_close. @thread io */
void el_session_abandon(el_session *session);

/* el_session_publish_hold_deadline shows the hold deadline to other threads. If holds were lost,
 * call it only after their locks were marked as lost (see el_hold_deadline in shared.h).
 * @thread io */
void el_session_publish_hold_deadline(el_session *session);

/* el_session_end_holds ends the hold deadline that other threads read, so that all holds of the
 * session count as lost at once, for |loss|. @thread io */
void el_session_end_holds(el_session *session, el_loss loss);

/* ---- events of entries ---- */

/* el_session_add_key lists |key| for lease checks, if it is not listed, and sets its |is_held|: a
 * lock is held by the key, and is lost with the lease. @thread io */
void el_session_add_key(el_session *session, el_checked_key *key, bool is_held);

/* el_session_remove_key removes |key| from the list. If |key| is not listed, the function does
 * nothing. @thread io */
void el_session_remove_key(el_session *session, el_checked_key *key);

/* el_session_check_expiry tells the session that a hold has expired, which the entry may know
 * before the session does. It is called while the key of the hold is still listed as held.
 * @thread io */
void el_session_check_expiry(el_session *session);

/* el_session_add_sight tells the session that a quorum of etcd saw one of its keys, which may prove
 * the lease. @thread io */
void el_session_add_sight(el_session *session, const el_sight *sight);

/* The next three functions do nothing if |lease| is an earlier lease of the session. */

/* el_session_lease_gone tells the session that its lease does not exist: etcd has answered a put
 * with |lease| by |err|. @thread io */
void el_session_lease_gone(el_session *session, int64_t lease,
                           const el_error *err);

/* el_session_put_in_doubt tells the session that a put with |lease| has an unknown outcome.
 * @thread io */
void el_session_put_in_doubt(el_session *session, int64_t lease);

/* el_session_confirm tells the session that an entry must know whether |lease| is alive now.
 * @thread io */
void el_session_confirm(el_session *session, int64_t lease);

/* ---- queries ---- */

/* el_session_is_alive tells whether the session has a lease to which keys can be attached.
 * @thread io */
bool el_session_is_alive(const el_session *session);

/* el_session_stay_ms returns for how long the keys of a hold stay after it has expired: until the
 * TTL and the lock delay are over, as after a crash. 0: there is no lock delay. @thread io */
int64_t el_session_stay_ms(const el_session *session);

/* el_session_is_proven tells whether the lease is alive and the hold deadline has not passed.
 * @thread io */
bool el_session_is_proven(const el_session *session, int64_t now_ms);

/* el_session_proven_rev returns the store's revision in the answer that has shown a key of the
 * lease last; 0: that answer is not fresh at |now_ms| (EL_FRESH_PROOF_MS), or less than TTL/2 is
 * left until the hold deadline. A serializable read of this revision or a later one is enough to
 * grant a waiter; otherwise the grant takes a linearizable read. @thread io */
int64_t el_session_proven_rev(const el_session *session, int64_t now_ms);

/* el_session_renewal_sent_ms returns when the latest keepalive that etcd has answered was sent
 * (el_now_ms). The grant counts as the first keepalive. @thread io */
int64_t el_session_renewal_sent_ms(const el_session *session);

/* el_session_last_error returns why there is no usable lease: the first of these errors that there
 * is. NULL: there is none.
 * - The error of the last grant, keepalive or lease check.
 * - If answers take too long for the TTL, an error that tells how long.
 * - If leases keep ending before a hold is proven, the error that told of the last such end, if it
 *   came at |since_ms| (el_now_ms) or later.
 *
 * @thread io */
const el_error *el_session_last_error(const el_session *session,
                                      int64_t since_ms);

#endif
