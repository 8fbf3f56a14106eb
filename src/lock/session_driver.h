/* session_driver: keeps the client's lease alive: the actions of the session
 * (rules/session.h) become leases, keepalives and probes, and what those answer
 * becomes its events. I/O thread only.
 *
 * What those above must hear of is gathered as news, for the client's settle:
 * nobody is called from within a step of the session.
 */
#ifndef ETCDLOCK_LOCK_SESSION_DRIVER_H
#define ETCDLOCK_LOCK_SESSION_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "lock/prober.h"
#include "lock/requests.h"
#include "lock/shared.h"
#include "rules/session.h"

typedef struct el_session_driver el_session_driver;

/* News, as bits. */
enum {
  EL_SESSION_NEWS_READY = 1,   /* the lease can be used */
  EL_SESSION_NEWS_REFUSED = 2, /* no lease is to be had, for the last cause */
  EL_SESSION_NEWS_LAPSED = 4,  /* whatever is held is lost */
  EL_SESSION_NEWS_GONE = 8     /* the session is over; see its end */
};

/* What a session works with; everything outlives it. */
typedef struct el_session_world {
  el_auth *auth;
  el_requests *requests;
  el_timers *timers;
  el_shared *handle; /* where the last cause is published */
  int64_t ttl_ms;
  int64_t
      lock_delay_ms; /* for so long nobody follows a hold that ends with its lease */
  /* An audit of the living |lease| has found |key|: does anybody want it? */
  void (*found_key)(void *arg, int64_t lease, el_bytes key);
  void *arg;
  void (*changed)(void *changed_arg); /* what core shows */
  void *changed_arg;
} el_session_world;

/* @thread io */
el_session_driver *el_session_driver_new(const el_session_world *world);

/* Nothing may be out any more. @thread io */
void el_session_driver_free(el_session_driver *driver);

/* Are there news? @thread io */
bool el_session_driver_has_news(const el_session_driver *driver);

/* The news since the last time. @thread io */
unsigned el_session_driver_take_news(el_session_driver *driver);

/* Somebody needs the lease. @thread io */
void el_session_driver_want(el_session_driver *driver);

/* Revokes the lease, or leaves it to end by itself if a hold was lost whose lock delay is not
 * over (EL_SESSION_LEFT); is_over tells when it is done. @thread io */
void el_session_driver_close(el_session_driver *driver);

/* The same at once; a revocation goes out in the background. @thread io */
void el_session_driver_drop(el_session_driver *driver);

/* The next session is for another lock delay; this one, of which nobody needs anything, ends.
 * @thread io */
void el_session_driver_change_lock_delay(el_session_driver *driver,
                                         int64_t lock_delay_ms);

/* A new session after one that is gone. @thread io */
void el_session_driver_renew(el_session_driver *driver);

/* Dead, and nothing about leases is out. @thread io */
bool el_session_driver_is_over(const el_session_driver *driver);

/* From now on answers are only tidied up. @thread io */
void el_session_driver_stop(el_session_driver *driver);

/* Is there a lease to put keys on? @thread io */
bool el_session_driver_is_alive(const el_session_driver *driver);

/* How the last one that has died did. @thread io */
el_session_end el_session_driver_end(const el_session_driver *driver);

/* May something be claimed now? @thread io */
bool el_session_driver_can_claim(const el_session_driver *driver);

/* If that has just been proven, the store's revision then, else 0. @thread io */
int64_t el_session_driver_proven_rev(const el_session_driver *driver,
                                     int64_t now_ms);

/* What it drives. @thread io */
const el_session *el_session_driver_session(const el_session_driver *driver);

/* The lease, while it is alive. @thread io */
int64_t el_session_driver_lease(const el_session_driver *driver);

/* Until when this session's holders may say "held"; published by
 * el_session_driver_publish_claim. @thread io */
el_hold_deadline *el_session_driver_claim(const el_session_driver *driver);

/* After lost locks have been marked (claim.h). @thread io */
void el_session_driver_publish_claim(el_session_driver *driver);

/* All holds of the session are lost for |loss| from here on. @thread io */
void el_session_driver_end_claim(el_session_driver *driver, el_loss loss);

/* What proves that its lease lives. @thread io */
el_prober *el_session_driver_prober(el_session_driver *driver);

/* Of |lease|: EL_SESSION_UNSURE (a key that was asked for on it may still come), or
 * EL_SESSION_CONFIRM (somebody must know whether it lives now). @thread io */
void el_session_driver_signal(el_session_driver *driver, int64_t lease,
                              int kind);

/* When the latest renewal that was answered was sent. @thread io */
int64_t el_session_driver_renewed_ms(const el_session_driver *driver);

/* Nobody needs the lease at the moment. @thread io */
void el_session_driver_note_unused(el_session_driver *driver);

/* Tells the session how many keys there are, if that has changed. @thread io */
void el_session_driver_tell_holds(el_session_driver *driver);

/* A quorum saw one of our keys: sent at |sent_ms|, answered in raft term |term|, at the
 * store's revision |rev|. @thread io */
void el_session_driver_prove(el_session_driver *driver, int64_t sent_ms,
                             uint64_t term, int64_t rev);

/* A put on lease |lease| was told |err|: that it is gone. @thread io */
void el_session_driver_lease_gone(el_session_driver *driver, int64_t lease,
                                  const el_error *err);

/* What stands in the way of the lease, NULL if nothing does. @thread io */
const el_error *el_session_driver_cause(const el_session_driver *driver);

#endif
