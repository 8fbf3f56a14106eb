/* linger: a key that is kept for a while after its owner has let go, or until somebody
 * else wants it. Taking it again asks etcd nothing.
 *
 * Who holds and who lingers is the lock's state (lock.h); here is how long, and who
 * else is there.
 */
#ifndef ETCDLOCK_LOCK_LINGER_H
#define ETCDLOCK_LOCK_LINGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lock/census.h"

typedef struct el_linger el_linger;
struct el_linger {
  _Atomic int64_t ms; /* how long, from the moment of letting go */
  _Atomic int64_t until_ms;
  atomic_bool is_contested; /* somebody else wants it: no lingering any more */

  /* Who takes the key again must not meet what was written before: it might come after
   * what he has read. */
  atomic_int n_writes;  /* that aren't over */
  atomic_bool in_doubt; /* what is over may be carried out later */

  /* The I/O thread's own. */
  el_entry_driver *driver; /* of the key that is watched; NULL: none */
  void (*found)(void *arg);
  void *arg;
  el_watch watch;
  el_census *census;
};

/* One that lasts |ms|. NULL: no memory. @thread lua */
el_linger *el_linger_new(int64_t ms);

/* Has |found| called, perhaps more than once, when somebody queues behind the key of
 * |driver|, which is held. @thread io */
void el_linger_watch(el_linger *linger, el_entry_driver *driver,
                     void (*found)(void *arg), void *arg);

/* Not any more; harmless if it wasn't. @thread io */
void el_linger_unwatch(el_linger *linger);

#endif
