/* entry_driver: carries out the actions of one entry (protocol/entry.h). It sends requests and
 * starts watches and timers; their answers become events of the entry. It reports the decisions of
 * the entry to the local queue. I/O thread only.
 *
 * An entry belongs to one session. If the session ends, the entry lives on until its last request
 * is answered. */
#ifndef ETCDLOCK_LOCK_ENTRY_DRIVER_H
#define ETCDLOCK_LOCK_ENTRY_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "etcd/watch.h"
#include "lock/session_driver.h"
#include "protocol/entry.h"
#include "protocol/key.h"

typedef struct el_entry_driver el_entry_driver;

/* el_entry_events holds the functions by which an entry driver reports to the local queue. They are
 * called on the I/O thread. */
typedef struct el_entry_events {
  /* reported is called for each action that the driver does not carry out itself. */
  void (*reported)(el_entry_driver *driver, const el_entry_action *action);
  /* stepped is called after each step, because the entry may now be IDLE or ENDED. The function may
   * free |driver|. */
  void (*stepped)(el_entry_driver *driver);
  /* saw_holder is called when a read has returned |label|, the value of the key that holds the
   * lock. */
  void (*saw_holder)(el_entry_driver *driver, el_bytes label);
  /* saw_other_permits is called when an answer shows a key of the semaphore with another number of
   * permits, |permits|, and with the value |label|. */
  void (*saw_other_permits)(el_entry_driver *driver, uint16_t permits,
                            el_bytes label);
  /* pick_slot is called when user data has the name of the key of |driver|. It returns another slot
   * for the key. */
  uint32_t (*pick_slot)(el_entry_driver *driver);
} el_entry_events;

/* el_entry_driver is one entry with its requests, watches and timer; embedded in an entry of the
 * local queue. Only the I/O thread uses it. */
struct el_entry_driver {
  el_client_session *session;
  el_entry entry; /* the state machine */
  el_keys keys;   /* the keys of the entry in etcd */
  /* the value that an enqueue or a try puts; owned by the waiter */
  el_bytes value;
  struct el_sent *sent; /* the request in flight; NULL: none */
  /* the error of the last request; NULL: it succeeded */
  el_error *last_error;
  /* the watches of the entry, a list; NULL: none */
  struct el_key_watch *watched;
  /* listed by the session for lease checks while the entry is HELD or PROVING */
  el_checked_key checked_key;
  el_timer timer;  /* due at entry.wake_at */
  bool has_waited; /* the entry has waited for another client's key */
  /* an unlock waits for the release, so the first retry of the delete is a foreground request,
   * too */
  bool is_release_awaited;
  /* a waiter of this client waits until the key of this entry is deleted */
  bool is_expedited;
  bool is_proving; /* the entry is in the list session->proving */
  uint32_t slot;   /* distinguishes the client's keys in one queue */
  TAILQ_ENTRY(el_entry_driver) proving_link;
};

/* el_entry_driver_init sets |driver| to an entry of |session| for the lock |name|. Of |queue_key|
 * only slot, mode and permits are used. @thread io */
void el_entry_driver_init(el_entry_driver *driver, el_client_session *session,
                          el_bytes name, const el_queue_key *queue_key);

/* el_entry_driver_destroy frees what |driver| owns. No request of the entry may be in flight.
 * @thread io */
void el_entry_driver_destroy(el_entry_driver *driver);

/* el_entry_driver_start has the entry acquire the lock by a key with |value|. If |try_once|, the
 * entry fails instead of waiting for another client. The entry must be free to start
 * (el_entry_can_start). @thread io */
void el_entry_driver_start(el_entry_driver *driver, bool try_once,
                           el_bytes value);

/* el_entry_driver_signal steps the entry with |signal|. @thread io */
void el_entry_driver_signal(el_entry_driver *driver, el_entry_signal signal);

/* el_entry_driver_key_gone tells the entry that another request did not find its key with the
 * create_revision |rev|. |detached|: that request found the key, but attached to another lease or
 * to none. @thread io */
void el_entry_driver_key_gone(el_entry_driver *driver, int64_t rev,
                              bool detached);

/* el_entry_driver_expedite makes all requests of the entry foreground requests, because a waiter of
 * this client waits until the key of the entry is deleted. @thread io */
void el_entry_driver_expedite(el_entry_driver *driver);

/* el_entry_driver_key_checked tells the entry of |key| what a lease check has found: see
 * el_client_session. @thread io */
void el_entry_driver_key_checked(el_checked_key *key, bool is_found,
                                 bool is_detached);

/* el_entry_driver_end_session tells the entry that its session has ended. |end| says how.
 * @thread io */
void el_entry_driver_end_session(el_entry_driver *driver, el_session_end end);

/* el_client_session_settle_proving signals ON_LEASE_PROVEN to the PROVING entries of |session|, if its
 * lease is proven now, and ON_LEASE_CONFIRMED to each CONFIRMING entry whose |since_ms| is not later
 * than the last answered keepalive was sent. @thread io */
void el_client_session_settle_proving(el_client_session *session);

/* el_entry_driver_watch_size returns the bytes of one watch, for benchmarks. @thread any */
size_t el_entry_driver_watch_size(void);

#endif
