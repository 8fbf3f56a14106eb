/* watch: the one watch stream of a client, for any number of keys.
 *
 * Watches start at revision 0, "now": a watch from a past revision is put on a
 * list that etcd serves every 100 ms (mvcc/watchable_store.go), which is what
 * makes other clients hand a lock over slowly. So a watch says only what
 * happens after its `created`; its owner reads once when that has come.
 * A stream that breaks is opened again, and every watch is created anew.
 */
#ifndef ETCDLOCK_ETCD_WATCH_H
#define ETCDLOCK_ETCD_WATCH_H

#include <stdint.h>

#include "base/hash.h"
#include "etcd/auth.h"
#include "etcd/kv.h"
#include "base/timer.h"

typedef struct el_watches el_watches;
typedef struct el_watch el_watch;

typedef struct el_watch_event {
  enum {
    EL_WATCH_CREATED, /* events from now on; rev: the store's revision */
    EL_WATCH_DELETED, /* rev: of the deletion */
    EL_WATCH_PUT,     /* rev: of the put; lease: what the key hangs on now */
    EL_WATCH_REFUSED  /* it will never work; err tells why */
  } kind;
  int64_t rev;
  int64_t lease;
  el_bytes key; /* that was put or deleted */
  el_error err;
} el_watch_event;

/* One watched key, or all that begin alike; embedded in its owner. */
struct el_watch {
  void (*on_event)(el_watch *watch, const el_watch_event *event);
  /* The rest belongs to watch.c. */
  el_bytes key;
  int64_t id;     /* on the stream; 0: not watching */
  bool is_prefix; /* of those keys */
  bool created;   /* this stream has answered the create; false if id is 0 */
  UT_hash_handle hh;
};

/* @thread io */
el_watches *el_watches_new(el_auth *auth, el_timers *timers);

/* @thread io */
void el_watches_free(el_watches *watches);

/* Watches |key|, whose bytes must live until el_watch_stop. @thread io */
void el_watch_start(el_watches *watches, el_watch *watch, el_bytes key);

/* The same for all keys that begin with |prefix|, which ends with a slash.
 * @thread io */
void el_watch_start_prefix(el_watches *watches, el_watch *watch,
                           el_bytes prefix);

/* |to| takes the place of |from|, which must watch and watches nothing any more; |key| is
 * the same, in memory that lives until |to| is stopped. @thread io */
void el_watch_move(el_watches *watches, el_watch *from, el_watch *to,
                   el_bytes key);

/* No event comes after this; harmless when not watching. @thread io */
void el_watch_stop(el_watches *watches, el_watch *watch);

#endif
