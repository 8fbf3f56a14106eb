/* timer: the timers of an event loop, in a binary heap.
 *
 * A timer is a member of the object that uses it. Setting one therefore
 * allocates nothing, except when the heap has to grow.
 */
#ifndef ETCDLOCK_BASE_TIMER_H
#define ETCDLOCK_BASE_TIMER_H

#include <stddef.h>
#include <stdint.h>

/* el_timer is one timer, embedded in the object that uses it. Zeroed, it is not
 * set. The thread at work in the loop uses it. */
typedef struct el_timer el_timer;
struct el_timer {
  int64_t at_ms; /* when it is due, on the clock of el_now_ms */
  size_t slot;   /* index in the heap, from 1; 0: not set */
  void (*on_due)(el_timer *timer); /* the timer is not set any more */
};

/* el_timers is the set of the timers that are set. Zeroed, it is empty. */
typedef struct el_timers {
  el_timer **heap; /* from index 1; heap[1] is due first */
  size_t n;        /* timers in the heap */
  size_t capacity; /* elements allocated for |heap| */
} el_timers;

/* el_timers_set calls timer->on_due once, at |at_ms| on the clock of el_now_ms.
 * A timer that is set already is moved to |at_ms|. @thread io */
void el_timers_set(el_timers *timers, el_timer *timer, int64_t at_ms);

/* el_timers_stop unsets |timer|, which need not be set. @thread io */
void el_timers_stop(el_timers *timers, el_timer *timer);

/* el_timers_next returns when the next timer is due, in milliseconds on the
 * clock of el_now_ms; INT64_MAX if none is set. @thread io */
int64_t el_timers_next(const el_timers *timers);

/* el_timers_run unsets the timers that are due at |now_ms| and calls their
 * on_due, the earliest first. @thread io */
void el_timers_run(el_timers *timers, int64_t now_ms);

/* el_timers_destroy frees the heap. Timers that are set do not become due.
 * @thread io */
void el_timers_destroy(el_timers *timers);

#endif
