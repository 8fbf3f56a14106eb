/* alarms: tells a wake, at a time, a number: for waits that have a limit. */
#ifndef ETCDLOCK_LOCK_ALARMS_H
#define ETCDLOCK_LOCK_ALARMS_H

#include <stdint.h>

#include "base/completion.h"
#include "base/timer.h"

typedef struct el_alarms el_alarms;

/* @thread io */
el_alarms *el_alarms_new(el_timers *timers);

/* Forgets all of them. @thread io */
void el_alarms_free(el_alarms *alarms);

/* Has |id| pushed to |wake|, which must live until then, at |at_ms|, instead of
 * at any other time. @thread io */
void el_alarms_set(el_alarms *alarms, el_wake *wake, uint64_t id,
                   int64_t at_ms);

/* Forgets |id|; harmless if it isn't set. @thread io */
void el_alarms_cancel(el_alarms *alarms, uint64_t id);

#endif
