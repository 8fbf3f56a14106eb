/* session_driver: the session of a client. The driver carries out the actions of the session
 * (protocol/session.h): lease calls, keepalives, lease checks and audits. The answers to these
 * become events of the session. I/O thread only.
 *
 * While a session is stepped, its driver calls no function of the layers above. It records news for
 * them as bits, and settle (lock/client.c) takes the bits after the step. */
#ifndef ETCDLOCK_LOCK_SESSION_DRIVER_H
#define ETCDLOCK_LOCK_SESSION_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "etcd/watch.h"
#include "lock/request_queue.h"
#include "lock/shared.h"
#include "lock/watch_cache.h"
#include "protocol/key.h"
#include "protocol/session.h"

/* el_session_driver is one session with its lease calls and timers. */
typedef struct el_session_driver el_session_driver;

/* The bits that el_session_driver_take_news returns. */
enum {
  EL_SESSION_NEWS_READY = 1, /* the lease can be used */
  /* etcd refuses to grant a lease; el_session_driver_last_error returns why */
  EL_SESSION_NEWS_REFUSED = 2,
  /* no hold can be proven: answers take too long for the TTL; el_session_driver_last_error tells
   * how long */
  EL_SESSION_NEWS_TOO_SLOW = 16,
  /* the hold deadline has passed: all holds are lost */
  EL_SESSION_NEWS_EXPIRED = 4,
  /* the session has ended; el_session_driver_end returns how */
  EL_SESSION_NEWS_ENDED = 8
};

/* el_checked_key is a key that is held or may become so, and is listed by its session. A lease
 * check reads one of the listed keys, to prove that the lease is alive. Embedded in el_entry. */
typedef struct el_checked_key el_checked_key;
struct el_checked_key {
  const el_keys *keys;
  int64_t rev;  /* create_revision of the key; 0: its put is in flight */
  bool is_held; /* the key is listed and held */
  /* zero while the key is not listed */
  TAILQ_ENTRY(el_checked_key) link;
};

/* el_client_session is the session of a client, with what its driver and its entries use.
 * Everything in it outlives them. Only the I/O thread uses it. */
typedef struct el_client_session el_client_session;
struct el_client_session {
  /* set before el_session_driver_init */
  el_shared *shared;
  el_watch_cache *watch_cache;
  int64_t ttl_ms;        /* TTL of the lease, without the lock delay */
  int64_t lock_delay_ms; /* 0: none */
  /* key_checked is called when a lease check has found the listed |key|, or not. |is_detached|: it
   * has found the key attached to another lease or to none. */
  void (*key_checked)(el_checked_key *key, bool is_found, bool is_detached);
  /* found_key is called for each key that an audit finds attached to |lease|, the lease of the
   * session. */
  void (*found_key)(el_client_session *session, int64_t lease, el_bytes key);

  el_session_driver *driver;
  const struct el_entry_events *entry_events; /* of the local queues */
  /* number of local queues, plus entries that outlive the lease */
  int users;
  /* A waiter needs the lease. settle (lock/client.c) tells |driver| and sets this to false. */
  bool wanted;
  /* the PROVING and CONFIRMING entries of the session */
  TAILQ_HEAD(, el_entry) proving;
};

/* el_session_driver_init makes the driver of |owner|, a new session without a lease.
 * @thread io */
void el_session_driver_init(el_client_session *owner);

/* el_session_driver_free frees |driver|. No call of the session may be in flight. @thread io */
void el_session_driver_free(el_session_driver *driver);

/* el_session_driver_stop stops all timers. After that, answers to calls are only freed.
 * @thread io */
void el_session_driver_stop(el_session_driver *driver);

/* el_session_driver_has_news tells whether there is news to take. @thread io */
bool el_session_driver_has_news(const el_session_driver *driver);

/* el_session_driver_take_news returns the news since the last call, as EL_SESSION_NEWS bits.
 * @thread io */
unsigned el_session_driver_take_news(el_session_driver *driver);

/* el_session_driver_need tells the session that an entry needs the lease. @thread io */
void el_session_driver_need(el_session_driver *driver);

/* el_session_driver_close begins the end of the session: it revokes the lease. If a hold was lost
 * and its lock delay is not over, it leaves the lease to expire instead
 * (EL_SESSION_END_LEFT_TO_EXPIRE). @thread io */
void el_session_driver_close(el_session_driver *driver);

/* el_session_driver_is_over tells whether the session has ended and no lease call is in flight.
 * @thread io */
bool el_session_driver_is_over(const el_session_driver *driver);

/* el_session_driver_abandon ends the session at once, as if its lease had been lost
 * (EL_SESSION_END_EARLY or EL_SESSION_END_EXPIRED). The driver then revokes the lease in the
 * background. If a hold was lost and its lock delay is not over, it leaves the lease to expire
 * instead. A session that has no lease ends as it does by el_session_driver_close. @thread io */
void el_session_driver_abandon(el_session_driver *driver);

/* el_session_driver_renew replaces the session, which has ended, by a new session without a lease.
 * @thread io */
void el_session_driver_renew(el_session_driver *driver);

/* el_session_driver_is_alive tells whether the session has a lease to which keys can be attached.
 * @thread io */
bool el_session_driver_is_alive(const el_session_driver *driver);

/* el_session_driver_end returns how the session has ended. Call it only between
 * EL_SESSION_NEWS_ENDED and el_session_driver_renew. @thread io */
el_session_end el_session_driver_end(const el_session_driver *driver);

/* el_session_driver_is_proven tells whether the lease is alive and the hold deadline has not
 * passed. @thread io */
bool el_session_driver_is_proven(const el_session_driver *driver,
                                 int64_t now_ms);

/* el_session_driver_proven_rev returns the store's revision at the latest proof of the lease. If
 * that proof is not fresh at |now_ms| (EL_FRESH_PROOF_MS), it returns 0. @thread io */
int64_t el_session_driver_proven_rev(const el_session_driver *driver,
                                     int64_t now_ms);

/* el_session_driver_session returns the state machine of the session, to read. @thread io */
const el_session *el_session_driver_session(const el_session_driver *driver);

/* el_session_driver_lease returns the ID of the session's lease; 0: none was granted yet.
 * @thread io */
int64_t el_session_driver_lease(const el_session_driver *driver);

/* el_session_driver_hold_deadline returns the hold deadline of the session's holds, which other
 * threads read. @thread io */
el_hold_deadline *
el_session_driver_hold_deadline(const el_session_driver *driver);

/* el_session_driver_publish_hold_deadline shows the session's hold deadline to other threads. If
 * holds were lost, call it only after their locks were marked as lost (see el_hold_deadline in
 * lock/shared.h). @thread io */
void el_session_driver_publish_hold_deadline(el_session_driver *driver);

/* el_session_driver_end_holds ends the hold deadline that other threads read, so that all holds of
 * the session count as lost at once, for |loss|. @thread io */
void el_session_driver_end_holds(el_session_driver *driver, el_loss loss);

/* el_session_driver_moved has the lease renewed soon, because the client has another connection, or
 * etcd another leader. @thread io */
void el_session_driver_moved(el_session_driver *driver);

/* el_session_driver_signal steps the session with the event |kind|, if |lease| is its lease.
 * EL_SESSION_ON_PUT_IN_DOUBT: a put with this lease has an unknown outcome. EL_SESSION_ON_CONFIRM:
 * an entry must know whether the lease is alive now. @thread io */
void el_session_driver_signal(el_session_driver *driver, int64_t lease,
                              int kind);

/* el_session_driver_renewal_sent_ms returns when the latest keepalive that etcd has answered was
 * sent (el_now_ms). The grant counts as the first keepalive. @thread io */
int64_t el_session_driver_renewal_sent_ms(const el_session_driver *driver);

/* el_session_driver_set_unused tells the session that nothing needs the lease at the moment. If a
 * put with the lease has an unknown outcome, the session revokes the lease, so that a late put
 * cannot succeed. @thread io */
void el_session_driver_set_unused(el_session_driver *driver);

/* el_session_driver_update_holds tells the session how many keys are listed for lease checks, if
 * that number has changed. @thread io */
void el_session_driver_update_holds(el_session_driver *driver);

/* el_session_driver_add_sight tells the session that a quorum of etcd saw one of its keys, which
 * may prove the lease. @thread io */
void el_session_driver_add_sight(el_session_driver *driver,
                                 const el_sight *sight);

/* el_session_driver_lease_gone tells the session that its lease does not exist: etcd has answered a
 * put with |lease| by |err|. If |lease| is the lease of an earlier session, the function does
 * nothing. @thread io */
void el_session_driver_lease_gone(el_session_driver *driver, int64_t lease,
                                  const el_error *err);

/* el_session_driver_last_error returns why there is no usable lease. It is the error of the last
 * grant, keepalive or lease check. If that succeeded, but leases keep ending before a hold is
 * proven, it is the error that told of the last such end, if it came at |since_ms| (el_now_ms) or
 * later; if answers take too long for the TTL, an error that tells how long. NULL: there is no such
 * error. @thread io */
const el_error *el_session_driver_last_error(const el_session_driver *driver,
                                             int64_t since_ms);

/* el_session_driver_add_key lists |key| for lease checks, if it is not listed. |is_held|: a lock is
 * held by the key, and is lost with the lease. @thread io */
void el_session_driver_add_key(el_session_driver *driver, el_checked_key *key,
                               bool is_held);

/* el_session_driver_remove_key removes |key| from the list. If |key| is not listed, the function
 * does nothing. @thread io */
void el_session_driver_remove_key(el_session_driver *driver,
                                  el_checked_key *key);

#endif
