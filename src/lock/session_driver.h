/* session_driver: the sessions of one client. A session driver carries out the actions of one
 * session (protocol/session.h): lease calls, keepalives, lease checks and audits. Their answers
 * become events of the session. I/O thread only.
 *
 * A client has one session for holds without a lock delay, and one more for each lock delay in use,
 * because a lease has only one TTL.
 *
 * News for the layers above are collected as bits, and the client's settle takes them: no function
 * of another part is called within a step of the session. */
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

enum {
  /* Lock delays in use at a time; each has a lease that is kept alive. */
  EL_LOCK_DELAYS_MAX = 8
};

/* el_session_driver is one session with its lease calls and timers. */
typedef struct el_session_driver el_session_driver;

/* Bits of el_session_driver_take_news. */
enum {
  EL_SESSION_NEWS_READY = 1, /* the lease can be used */
  /* etcd grants no lease; see el_session_driver_last_error */
  EL_SESSION_NEWS_REFUSED = 2,
  /* the hold deadline has passed: all holds are lost */
  EL_SESSION_NEWS_EXPIRED = 4,
  /* the session has ended; see el_session_driver_end */
  EL_SESSION_NEWS_ENDED = 8
};

/* el_session_env is what the session drivers of a client use. Everything in it outlives them. */
typedef struct el_session_env {
  el_auth *auth;
  el_request_queue *requests;
  el_timers *timers;
  /* shows lease, hold times and the last error to other threads */
  el_shared *shared;
  int64_t ttl_ms;        /* of the lease, without the lock delay */
  int64_t lock_delay_ms; /* of this session's lease; 0: none */
  /* found_key is called for each key that an audit finds on the living |lease|. */
  void (*found_key)(void *arg, int64_t lease, el_bytes key);
  void *arg;
} el_session_env;

/* el_checked_key is a held key, or one about to be held. A lease check reads one of the listed
 * keys. Embedded in the entry's driver. */
typedef struct el_checked_key el_checked_key;
struct el_checked_key {
  /* on_gone is called when a lease check did not find the key, or found it |detached| from its
   * lease. */
  void (*on_gone)(el_checked_key *key, bool detached);
  const el_keys *keys;
  int64_t rev; /* its create_revision */
  /* zero while it is not in a session's list */
  TAILQ_ENTRY(el_checked_key) link;
};

TAILQ_HEAD(el_proving_list, el_entry_driver);

/* el_client_session is one session of a client, with what its entries use. Everything in it
 * outlives the entries. Only the I/O thread uses it. */
typedef struct el_client_session el_client_session;
struct el_client_session {
  el_auth *auth;
  el_request_queue *requests;
  el_session_driver *driver;
  int64_t lock_delay_ms; /* of its lease; 0: none */
  int users;   /* local queues, and entries that outlive the session's lease */
  bool wanted; /* an entry needs the lease; settle passes that on */
  el_client_session *next; /* the client's next session */
  el_watches *watches;
  el_watch_cache *watch_cache;
  el_timers *timers;
  el_counters *counters;
  /* entries that wait for a proof of the lease */
  struct el_proving_list proving;
};

/* ---- one session ---- */

/* el_session_driver_take_news returns the news since the last call, as bits. @thread io */
unsigned el_session_driver_take_news(el_session_driver *driver);

/* el_session_driver_need tells the session that an entry needs the lease. @thread io */
void el_session_driver_need(el_session_driver *driver);

/* el_session_driver_close revokes the lease, or leaves it to expire if a hold was lost whose lock
 * delay is not over (EL_SESSION_END_LEFT_TO_EXPIRE). el_sessions_are_over tells when that is done.
 * @thread io */
void el_session_driver_close(el_session_driver *driver);

/* el_session_driver_abandon ends the session at once and counts its lease as lost
 * (EL_SESSION_END_EARLY or EL_SESSION_END_EXPIRED). The lease is revoked in the background, unless
 * the lock delay of a lost hold is not over. @thread io */
void el_session_driver_abandon(el_session_driver *driver);

/* el_session_driver_renew begins a new session after one that has ended. @thread io */
void el_session_driver_renew(el_session_driver *driver);

/* el_session_driver_is_alive tells whether there is a lease for keys. @thread io */
bool el_session_driver_is_alive(const el_session_driver *driver);

/* el_session_driver_end returns how the last session that has ended did. @thread io */
el_session_end el_session_driver_end(const el_session_driver *driver);

/* el_session_driver_is_proven tells whether holds on the lease are proven now. @thread io */
bool el_session_driver_is_proven(const el_session_driver *driver);

/* el_session_driver_proven_rev returns the store's revision of the latest proof if that is fresh at
 * |now_ms|, else 0. @thread io */
int64_t el_session_driver_proven_rev(const el_session_driver *driver,
                                     int64_t now_ms);

/* el_session_driver_session returns the session's state, to read. @thread io */
const el_session *el_session_driver_session(const el_session_driver *driver);

/* el_session_driver_lease returns the lease ID, while the session is alive. @thread io */
int64_t el_session_driver_lease(const el_session_driver *driver);

/* el_session_driver_hold_deadline returns the hold deadline of the session's holds, which other
 * threads read. @thread io */
el_hold_deadline *
el_session_driver_hold_deadline(const el_session_driver *driver);

/* el_session_driver_publish_hold_deadline shows the session's hold deadline to other threads. Call
 * it after lost locks have been marked (el_hold_deadline in lock/shared.h). @thread io */
void el_session_driver_publish_hold_deadline(el_session_driver *driver);

/* el_session_driver_end_holds ends all holds of the session at once, for |loss|. @thread io */
void el_session_driver_end_holds(el_session_driver *driver, el_loss loss);

/* el_session_driver_signal steps the session, if |lease| is its lease, with
 * EL_SESSION_ON_PUT_IN_DOUBT (a put on it has an unknown outcome) or EL_SESSION_ON_CONFIRM (an
 * entry must know whether it is alive now). @thread io */
void el_session_driver_signal(el_session_driver *driver, int64_t lease,
                              int kind);

/* el_session_driver_renewal_sent_ms returns when the latest answered keepalive was sent. @thread io
 */
int64_t el_session_driver_renewal_sent_ms(const el_session_driver *driver);

/* el_session_driver_set_unused tells the session that nothing needs the lease at the moment.
 * @thread io */
void el_session_driver_set_unused(el_session_driver *driver);

/* el_session_driver_update_holds tells the session the number of listed keys, if it has changed.
 * @thread io */
void el_session_driver_update_holds(el_session_driver *driver);

/* el_session_driver_add_proof tells the session that a quorum saw one of its keys, in a request
 * sent at |sent_ms| and answered in raft term |term| at the store's revision |rev|. @thread io */
void el_session_driver_add_proof(el_session_driver *driver, int64_t sent_ms,
                                 uint64_t term, int64_t rev);

/* el_session_driver_lease_gone tells the session that a put on |lease| was answered with |err|: the
 * lease does not exist. @thread io */
void el_session_driver_lease_gone(el_session_driver *driver, int64_t lease,
                                  const el_error *err);

/* el_session_driver_last_error returns why there is no usable lease; NULL: no attempt has failed
 * since the last success. @thread io */
const el_error *el_session_driver_last_error(const el_session_driver *driver);

/* el_session_driver_add_key lists |key| for lease checks; harmless if it is listed. @thread io */
void el_session_driver_add_key(el_session_driver *driver, el_checked_key *key);

/* el_session_driver_remove_key removes |key| from the list; harmless if it is not listed.
 * @thread io */
void el_session_driver_remove_key(el_session_driver *driver,
                                  el_checked_key *key);

/* ---- all sessions of a client ---- */

/* el_sessions is the list of the sessions of one client. */
typedef struct el_sessions el_sessions;

/* el_sessions_new returns the sessions of a client: the one without a lock delay. |env| and
 * |template| are copied; the session's own fields of |template| are not used. @thread io */
el_sessions *el_sessions_new(const el_session_env *env,
                             const el_client_session *template);

/* el_sessions_free frees all sessions; no call may be in flight. @thread io */
void el_sessions_free(el_sessions *sessions);

/* el_sessions_first returns the session without a lock delay; the others follow as |next|.
 * @thread io */
el_client_session *el_sessions_first(const el_sessions *sessions);

/* el_sessions_find returns the session with |lock_delay_ms|, and adds it if needed. NULL:
 * EL_LOCK_DELAYS_MAX lock delays are in use. @thread io */
el_client_session *el_sessions_find(el_sessions *sessions,
                                    int64_t lock_delay_ms);

/* el_sessions_stop stops all timers; answers that come later only free their memory. @thread io */
void el_sessions_stop(el_sessions *sessions);

/* el_sessions_have_news tells whether any session has news. @thread io */
bool el_sessions_have_news(const el_sessions *sessions);

/* el_sessions_are_over tells whether all sessions have ended and no lease call is in flight.
 * @thread io */
bool el_sessions_are_over(const el_sessions *sessions);

#endif
