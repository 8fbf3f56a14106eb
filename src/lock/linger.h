/* linger: the watch and the timers of an entry whose key may linger (local_queue.h).
 *
 * Measured (bench/README.md): a client takes a lingering lock again 66,000 times per second, and a
 * lock without linger about 600 times.
 *
 * While the key is held or lingers, the local queue must learn whether another key waits behind it.
 * A watch reports keys that are put after its creation. A contention query, a read, finds the keys
 * that were put before. I/O thread only. */
#ifndef ETCDLOCK_LOCK_LINGER_H
#define ETCDLOCK_LOCK_LINGER_H

#include <stdbool.h>
#include <stdint.h>

#include "lock/entry.h"

/* el_linger belongs to one entry. */
typedef struct el_linger el_linger;

/* el_linger_start watches the queue of |entry|'s key. |on_end| is called when a key waits, or may
 * wait, for the key of |entry| (|is_contended|), and at the time of el_linger_set_end. |on_end| may
 * stop the el_linger. @thread io */
el_linger *el_linger_start(el_entry *entry,
                           void (*on_end)(el_entry *entry, bool is_contended));

/* el_linger_stop stops and frees |linger|; NULL does nothing. @thread io */
void el_linger_stop(el_linger *linger);

/* el_linger_set_end has |on_end| called at |at_ms| (el_now_ms); 0: not any more. @thread io */
void el_linger_set_end(el_linger *linger, int64_t at_ms);

#endif
