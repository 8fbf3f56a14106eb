/* health: the passive health check of the member in use.
 *
 * Requests to a leader that has just died, or to a follower that has not noticed yet, get no
 * answer. To wait for the timeout of each one would take longer than the election. So all calls
 * under way are judged together: as long as one is answered from time to time, the others may take
 * long (a burst, a slow disk). If none is answered for 0.6 s (after four timeouts in a row for 1.2
 * s, then for 2.4 s), all are cancelled, and their callers send them to another member. Calls with
 * may_be_slow (call.h) are left out.
 */
#ifndef ETCDLOCK_NET_HEALTH_H
#define ETCDLOCK_NET_HEALTH_H

#include <stdbool.h>
#include <sys/queue.h>

#include "base/timer.h"

/* el_health_call is a call that is checked; embedded in the call. */
typedef struct el_health_call el_health_call;
struct el_health_call {
  void (*cancel)(el_health_call *call); /* no call was answered in time */
  bool is_pending;                      /* in the list |pending| */
  TAILQ_ENTRY(el_health_call) link;
};

/* el_health is the health check of the member in use; embedded in the channel. */
typedef struct el_health el_health;
struct el_health {
  void (*on_unresponsive)(el_health *health); /* after all were cancelled */
  el_timers *timers;
  el_timer timer;         /* set while a call is pending */
  int64_t quiet_since_ms; /* the last answer, or the start of the first pending
                             call if that is later (el_now_ms) */
  int n_timeouts;         /* since the last answer */
  TAILQ_HEAD(, el_health_call) pending; /* calls without an answer */
};

/* el_health_init prepares |health|; |on_unresponsive| is called each time that no pending call was
 * answered in time. @thread io */
void el_health_init(el_health *health, el_timers *timers,
                    void (*on_unresponsive)(el_health *health));

/* el_health_call_started adds |call|, which was just sent. @thread io */
void el_health_call_started(el_health *health, el_health_call *call);

/* el_health_call_ended removes |call|, also if it was cancelled or never added; |is_answered|: etcd
 * has answered it. @thread io */
void el_health_call_ended(el_health *health, el_health_call *call,
                          bool is_answered);

/* el_health_destroy stops the check. @thread io */
void el_health_destroy(el_health *health);

#endif
