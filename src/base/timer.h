/* timer: the timers of one loop, as a binary heap.
 *
 * A timer is embedded in the object that it belongs to, so that setting one
 * allocates nothing but, now and then, a slot of the heap.
 */
#ifndef ETCDLOCK_BASE_TIMER_H
#define ETCDLOCK_BASE_TIMER_H

#include <stddef.h>
#include <stdint.h>

typedef struct el_timer el_timer;

struct el_timer {
  int64_t at_ms; /* el_now_ms when it is due */
  size_t slot;   /* place in the heap from 1; 0: not set */
  void (*due)(el_timer *timer);
};

typedef struct el_timers {
  el_timer **heap; /* heap[1] is due first */
  size_t n;
  size_t room;
} el_timers;

/* Calls timer->due once at |at_ms|; a timer that is set already is moved.
 * @thread io */
void el_timers_set(el_timers *timers, el_timer *timer, int64_t at_ms);

/* Forgets |timer|; harmless when it isn't set. @thread io */
void el_timers_stop(el_timers *timers, el_timer *timer);

/* When the next timer is due, INT64_MAX if none is set. @thread io */
int64_t el_timers_next(const el_timers *timers);

/* Runs what is due at |now_ms|. @thread io */
void el_timers_run(el_timers *timers, int64_t now_ms);

/* Frees the heap; timers that are set are forgotten. @thread io */
void el_timers_destroy(el_timers *timers);

#endif
