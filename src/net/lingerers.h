/* lingerers: what can't be freed yet, and is looked at until it can.
 */
#ifndef ETCDLOCK_NET_LINGERERS_H
#define ETCDLOCK_NET_LINGERERS_H

#include <stdbool.h>
#include <sys/queue.h>

#include "base/timer.h"

/* How often. */
enum { EL_LINGERERS_LOOK_MS = 20 };

typedef struct el_lingerer el_lingerer;

/* Those of one loop. */
typedef struct el_lingerers {
  el_timers *timers;
  el_timer timer;
  LIST_HEAD(, el_lingerer) all;
} el_lingerers;

/* @thread lua */
void el_lingerers_init(el_lingerers *lingerers, el_timers *timers);

/* From now on |look| is called with |arg|, by the timer, until it returns false: it is
 * freed. @thread io */
void el_lingerers_add(el_lingerers *lingerers, bool (*look)(void *arg),
                      void *arg);

/* Looks at all of them; is anything left? @thread io */
bool el_lingerers_look(el_lingerers *lingerers);

/* @thread io */
bool el_lingerers_any(const el_lingerers *lingerers);

#endif
