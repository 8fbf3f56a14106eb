/* kept_watches: watches that the next wait may go on with.
 *
 * Who waits for a busy lock mostly waits for the same key again: its neighbour's in the
 * queue. A watch is kept for a while after its wait, and taken over by the next wait for
 * that key. That spares etcd and us the creating and cancelling, and the wait the time for it.
 */
#ifndef ETCDLOCK_LOCK_KEPT_WATCHES_H
#define ETCDLOCK_LOCK_KEPT_WATCHES_H

#include <stdint.h>

#include "base/timer.h"
#include "etcd/watch.h"

typedef struct el_kept_watches el_kept_watches;

/* @thread io */
el_kept_watches *el_kept_watches_new(el_watches *watches, el_timers *timers);

/* Before |watches| and |timers| are. @thread io */
void el_kept_watches_free(el_kept_watches *kept);

/* Stops |watch|, of one key, for its owner, who has heard all until |rev|. @thread io */
void el_kept_watches_put(el_kept_watches *kept, el_watch *watch, int64_t rev);

/* Starts |watch|, as el_watch_start, with one that was kept, for somebody who knows |key|
 * until |rev|. Returns the revision after which all that happens to it will be told, with
 * no `created` before: |rev|, or a later one, if something has happened in between. 0:
 * there is none. @thread io */
int64_t el_kept_watches_take(el_kept_watches *kept, el_watch *watch,
                             el_bytes key, int64_t rev);

#endif
