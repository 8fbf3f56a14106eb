/* alarms: pushes a number to a wake at a given time. Waits with a timeout in event loops and nginx
 * use this. I/O thread only. */
#ifndef ETCDLOCK_LOCK_ALARMS_H
#define ETCDLOCK_LOCK_ALARMS_H

#include <stdint.h>

#include "base/completion.h"
#include "base/timer.h"

/* el_alarms is the set of alarms of one client. */
typedef struct el_alarms el_alarms;

/* el_alarms_new returns an empty set of alarms. @thread io */
el_alarms *el_alarms_new(el_timers *timers);

/* el_alarms_free cancels all alarms. @thread io */
void el_alarms_free(el_alarms *alarms);

/* el_alarms_set pushes |id| to |wake| at |at_ms| (el_now_ms). If there is an alarm of |id|, it is
 * replaced. |wake| must live until the push or el_alarms_cancel. @thread io */
void el_alarms_set(el_alarms *alarms, el_wake *wake, uint64_t id,
                   int64_t at_ms);

/* el_alarms_cancel cancels the alarm of |id|. If there is none, the function does nothing.
 * @thread io */
void el_alarms_cancel(el_alarms *alarms, uint64_t id);

#endif
