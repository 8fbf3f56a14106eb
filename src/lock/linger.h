/* linger: the watch and the timers of an entry whose key may linger (local_queue.h).
 *
 * While the key is held or lingers, the owner of the entry must learn whether another key waits
 * behind it. A watch reports keys that are put after its creation. A contention query, a read, finds
 * the keys that were put before. I/O thread only. */
#ifndef ETCDLOCK_LOCK_LINGER_H
#define ETCDLOCK_LOCK_LINGER_H

#include <stdint.h>

#include "lock/entry.h"

/* el_linger belongs to one entry, from EL_LOCAL_START_WATCH to EL_LOCAL_STOP_WATCH. */
typedef struct el_linger el_linger;

/* el_linger_start watches the queue of |entry|'s key. |notify| is called with
 * EL_LOCAL_ON_CONTENDER or EL_LOCAL_ON_TIMER; it may stop the el_linger. @thread io */
el_linger *el_linger_start(el_entry *entry,
                           void (*notify)(el_entry *entry, int kind));

/* el_linger_stop stops and frees |linger|; NULL does nothing. @thread io */
void el_linger_stop(el_linger *linger);

/* el_linger_set_end has EL_LOCAL_ON_TIMER reported at |at_ms| (el_now_ms); 0: not any more.
 * @thread io */
void el_linger_set_end(el_linger *linger, int64_t at_ms);

#endif
