/* watch: the watch streams of a client, for any number of keys.
 *
 * Each watch starts at revision 0, which means now. etcd puts a watch that starts at an earlier
 * revision on a list that it serves only every 100 ms (mvcc/watchable_store.go). That is why other
 * libraries may need 100 ms to see that a lock was released. A watch that starts now only reports
 * what happens after etcd's `created` message. So if this message has a later revision than the
 * owner's last read, the owner reads again. If the stream breaks, it is opened again, and each
 * watch is created anew.
 */
#ifndef ETCDLOCK_ETCD_WATCH_H
#define ETCDLOCK_ETCD_WATCH_H

#include <stdint.h>

#include "base/hash.h"
#include "base/timer.h"
#include "etcd/auth.h"
#include "etcd/kv.h"

/* el_watches is the watch streams of a client, normally one, with their watches. */
typedef struct el_watches el_watches;
typedef struct el_watch el_watch;

/* el_watch_event is one event of a watch. It is valid during the callback only. */
typedef struct el_watch_event {
  enum {
    EL_WATCH_CREATED, /* events follow from now on; rev: the store's revision */
    EL_WATCH_DELETED, /* rev: the revision of the deletion */
    /* rev: the revision of the put; lease: the key's lease, 0: none */
    EL_WATCH_PUT,
    /* the watch has ended and will not be created again; err tells why */
    EL_WATCH_REFUSED
  } kind;
  int64_t rev;
  int64_t lease;
  el_bytes key; /* DELETED, PUT */
  el_error err; /* REFUSED */
} el_watch_event;

/* el_watch is a watch of one key, or of all keys with a prefix; embedded in its owner. */
struct el_watch {
  void (*on_event)(el_watch *watch, const el_watch_event *event);
  /* Only watch.c writes the fields below. */
  el_bytes key;
  int64_t id;     /* the watch's ID on the stream; 0: not started */
  bool is_prefix; /* |key| is a prefix */
  /* etcd has created the watch on the present stream or, while there is no stream, on the last one.
   * false if |id| is 0 */
  bool is_created;
  UT_hash_handle hh;
};

/* el_watches_new prepares a watch stream, which the first watch opens. @thread io */
el_watches *el_watches_new(el_auth *auth, el_timers *timers);

/* el_watches_free closes the streams. No event is reported any more. @thread io */
void el_watches_free(el_watches *watches);

/* el_watch_start watches |key|, whose bytes must live until el_watch_stop. @thread io */
void el_watch_start(el_watches *watches, el_watch *watch, el_bytes key);

/* el_watch_start_prefix watches all keys that begin with |prefix|, which ends with a slash.
 * @thread io */
void el_watch_start_prefix(el_watches *watches, el_watch *watch,
                           el_bytes prefix);

/* el_watch_move transfers a running watch from |from| to |to|. Afterwards |from| is not started.
 * |key| is the same key, in memory that lives until |to| is stopped. @thread io */
void el_watch_move(el_watches *watches, el_watch *from, el_watch *to,
                   el_bytes key);

/* el_watch_stop ends |watch|: no event is reported any more. It does nothing if |watch| is not
 * started. @thread io */
void el_watch_stop(el_watches *watches, el_watch *watch);

#endif
