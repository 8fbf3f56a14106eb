/* entry_driver: drives one entry (rules/entry.h), our place in one lock's queue:
 * its actions become transactions, watches and timers, and what those bring
 * becomes its events. What it decides goes to its owner. I/O thread only.
 *
 * It belongs to one session, and may outlive it: until the last request is
 * answered.
 */
#ifndef ETCDLOCK_LOCK_ENTRY_DRIVER_H
#define ETCDLOCK_LOCK_ENTRY_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "etcd/watch.h"
#include "lock/requests.h"
#include "lock/session_driver.h"
#include "lock/watch_cache.h"
#include "rules/entry.h"
#include "rules/key.h"

typedef struct el_entry_driver el_entry_driver;

TAILQ_HEAD(el_proving_list, el_entry_driver);

/* What entries of one session work with; everything outlives them. */
typedef struct el_entry_world el_entry_world;
struct el_entry_world {
  el_auth *auth;
  el_requests *requests;
  el_session_driver *session;
  int64_t lock_delay_ms; /* the session's */
  int users;             /* queues, and places that outlive their session */
  bool wanted;           /* somebody needs the session */
  el_entry_world *next;  /* of the same client */
  el_watches *watches;
  el_watch_cache *watch_cache;
  el_timers *timers;
  el_counters *counters;
  struct el_proving_list proving; /* those that wait for the session's proof */
};

typedef struct el_entry_events {
  /* Takes note of |action|, one of those from EL_ENTRY_GRANTED on. */
  void (*decided)(el_entry_driver *driver, const el_entry_action *action);
  /* Called after each step: the entry may be free, or over. */
  void (*stepped)(el_entry_driver *driver);
} el_entry_events;

/* Embedded in its owner's memory. */
struct el_entry_driver {
  const el_entry_events *events;
  el_entry_world *world;
  el_entry entry;
  el_keys keys;
  el_bytes value;       /* what an enqueue puts; its owner's */
  struct el_sent *sent; /* the request on its way, NULL: none */
  el_error *cause;      /* of the last failed attempt since a success; NULL */
  struct el_key_watch *watching; /* a list; NULL: nothing */
  el_proof_key proof_key;        /* while it is HELD or PROVING */
  el_timer timer;
  bool waited;   /* somebody else was in front of us */
  bool awaited;  /* unlock waits for its release, for a while */
  bool hindrant; /* the next owner here waits for its end */
  bool in_proving;
  uint32_t slot; /* which of our places in that queue it is */
  TAILQ_ENTRY(el_entry_driver) proving_link;
};

/* An entry of |world|'s session for the lock |name|, at |place|, whose slot, mode and
 * permits count; |driver|->events is set already. @thread io */
void el_entry_driver_init(el_entry_driver *driver, el_entry_world *world,
                          el_bytes name, const el_place *place);

/* The entry must be over, or the client stopping. @thread io */
void el_entry_driver_destroy(el_entry_driver *driver);

/* Begins to wait in the queue, or tries once, with |value| on our key; the entry
 * must be free. @thread io */
void el_entry_driver_start(el_entry_driver *driver, bool try_once,
                           el_bytes value);

/* Steps with an event that is only a kind. @thread io */
void el_entry_driver_signal(el_entry_driver *driver, int kind);

/* Another request of ours has found that our key of |rev| is gone, or is |detached| from our lease.
 * @thread io */
void el_entry_driver_key_gone(el_entry_driver *driver, int64_t rev,
                              bool detached);

/* Somebody waits here until the entry is free. @thread io */
void el_entry_driver_hurry(el_entry_driver *driver);

/* Its session has died in that way. @thread io */
void el_entry_driver_orphan(el_entry_driver *driver, el_session_end end);

/* Tells those that wait for it what the session can prove now. @thread io */
void el_entry_world_settle_proving(el_entry_world *world);

/* For figures: the bytes of a watch. @thread any */
size_t el_entry_driver_watch_size(void);

#endif
