/* entry_driver: carries out the actions of one entry (protocol/entry.h): requests, watches and
 * timers. Their answers become events of the entry; what it decides is reported to the local queue.
 * I/O thread only.
 *
 * An entry belongs to one session. It may outlive that until its last request is answered. */
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
  /* stepped is called after each step: the entry may now be IDLE or ENDED. It may free the
   * driver. */
  void (*stepped)(el_entry_driver *driver);
  /* saw_holder is called when a read has told the value |label| of the holder's key. */
  void (*saw_holder)(el_entry_driver *driver, el_bytes label);
} el_entry_events;

/* el_entry_driver is one entry with its requests, watches and timer; embedded in an entry of the
 * local queue. Only the I/O thread uses it. */
struct el_entry_driver {
  const el_entry_events *events;
  el_client_session *session;
  el_entry entry; /* the state machine */
  el_keys keys;   /* the keys of the entry in etcd */
  el_bytes value; /* the value for an enqueue or a try; owned by the waiter */
  struct el_sent *sent;         /* the request in flight; NULL: none */
  el_error *last_error;         /* of the last attempt; NULL: it succeeded */
  struct el_key_watch *watched; /* the watches, a list; NULL: none */
  /* listed for lease checks while HELD or PROVING */
  el_checked_key checked_key;
  el_timer timer;  /* for entry.wake_at */
  bool has_waited; /* another client's key was before ours */
  /* an unlock waits for the release: its first retry is not background */
  bool is_release_awaited;
  bool is_expedited; /* a local waiter waits for the end of this entry */
  bool is_proving;   /* listed in session->proving */
  uint32_t slot;     /* tells the client's keys in one queue apart */
  TAILQ_ENTRY(el_entry_driver) proving_link;
};

/* el_entry_driver_init sets |driver| to an entry of |session| for the lock |name|. Only slot, mode
 * and permits of |place| count; |driver|->events is set already. @thread io */
void el_entry_driver_init(el_entry_driver *driver, el_client_session *session,
                          el_bytes name, const el_queue_key *place);

/* el_entry_driver_destroy frees what |driver| owns. The entry must be over, or the client stopping.
 * @thread io */
void el_entry_driver_destroy(el_entry_driver *driver);

/* el_entry_driver_start enqueues the entry, or tries once, with |value| for the key. The entry must
 * be free. @thread io */
void el_entry_driver_start(el_entry_driver *driver, bool try_once,
                           el_bytes value);

/* el_entry_driver_signal steps the entry with an event that has no fields but |kind|. @thread io */
void el_entry_driver_signal(el_entry_driver *driver, int kind);

/* el_entry_driver_key_gone tells the entry that another request did not find its key, which had
 * create_revision |rev|, or found it |detached| from the lease. @thread io */
void el_entry_driver_key_gone(el_entry_driver *driver, int64_t rev,
                              bool detached);

/* el_entry_driver_expedite sends the entry's requests in the foreground, because a local waiter
 * waits for its end. @thread io */
void el_entry_driver_expedite(el_entry_driver *driver);

/* el_entry_driver_end_session tells the entry that its session has ended, and how. @thread io */
void el_entry_driver_end_session(el_entry_driver *driver, el_session_end end);

/* el_client_session_settle_proving tells the entries that wait for a proof of the lease what
 * |session| can prove now. @thread io */
void el_client_session_settle_proving(el_client_session *session);

/* el_entry_driver_watch_size returns the bytes of one watch, for benchmarks. @thread any */
size_t el_entry_driver_watch_size(void);

#endif
