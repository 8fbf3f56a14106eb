/* timer: the timers of an event loop, in a binary heap.
 *
 * A timer is a member of the object that uses it. So to set a timer allocates no memory, except
 * when the heap has to grow.
 */
#ifndef ETCDLOCK_BASE_TIMER_H
#define ETCDLOCK_BASE_TIMER_H

#include <stddef.h>
#include <stdint.h>

/* el_timer is one timer, embedded in the object that uses it. A timer that is all zero is not set.
 * Only the thread at work in the loop uses timers. */
typedef struct el_timer el_timer;
struct el_timer {
  int64_t at_ms; /* when the timer is due, by el_now_ms */
  size_t slot;   /* index in the heap, from 1; 0: not set */
  /* called when the timer is due; it is no longer set then */
  void (*on_due)(el_timer *timer);
};

/* el_timers is a set of timers. If it is all zero, the set is empty. */
typedef struct el_timers {
  el_timer **heap; /* from index 1; heap[1] is due first */
  size_t n;        /* timers in the heap */
  size_t capacity; /* elements allocated for |heap| */
} el_timers;

/* el_timers_set sets |timer|: timer->on_due will be called once, at |at_ms| by el_now_ms. If
 * |timer| is set already, it is moved to |at_ms|. @thread io */
void el_timers_set(el_timers *timers, el_timer *timer, int64_t at_ms);

/* el_timers_stop unsets |timer|, which need not be set. @thread io */
void el_timers_stop(el_timers *timers, el_timer *timer);

/* el_timers_next returns when the next timer is due, by el_now_ms, or INT64_MAX if no timer is set.
 * @thread io */
int64_t el_timers_next(const el_timers *timers);

/* el_timers_run unsets the timers that are due at |now_ms| and calls their
 * on_due, the earliest first. @thread io */
void el_timers_run(el_timers *timers, int64_t now_ms);

/* el_timers_destroy frees the heap. Timers that are set do not become due.
 * @thread io */
void el_timers_destroy(el_timers *timers);

#endif
