/* census: asks who is behind our key in the queue. I/O thread only. */
#ifndef ETCDLOCK_LOCK_CENSUS_H
#define ETCDLOCK_LOCK_CENSUS_H

#include "lock/entry_driver.h"
#include "rules/recipe.h"

typedef struct el_census el_census;

/* What was found; the census ends here. */
typedef void (*el_census_done)(void *arg, el_behind behind);

/* Asks for the key of |driver|, which is held. |done| is called once, later, unless it is
 * forgotten; then |driver| has its owner look at it, or hears that the key is gone.
 * @thread io */
el_census *el_census_take(el_entry_driver *driver, el_census_done done,
                          void *arg);

/* |done| is not called any more; NULL is harmless. @thread io */
void el_census_forget(el_census *census);

#endif
