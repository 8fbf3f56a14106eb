/* contenders: tells when a key comes behind one that may linger. I/O thread only. */
#ifndef ETCDLOCK_LOCK_CONTENDERS_H
#define ETCDLOCK_LOCK_CONTENDERS_H

#include "lock/census.h"

typedef struct el_contenders el_contenders;

/* Watches the queue of |driver|'s key, which is held, and looks once when that has begun.
 * |found| is called, perhaps more than once, when a key is behind it, or when that
 * can't be known: this user may not watch, or the look failed. @thread io */
el_contenders *el_contenders_watch(el_entry_driver *driver,
                                   void (*found)(void *arg), void *arg);

/* Ends the watch; NULL is harmless. @thread io */
void el_contenders_free(el_contenders *contenders);

#endif
