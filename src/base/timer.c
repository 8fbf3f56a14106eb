/* timer: the timers of an event loop, in a binary heap. */
#include "base/timer.h"

#include <stdlib.h>

#include "base/alloc.h"

static void place(el_timers *timers, el_timer *timer, size_t slot) {
  timers->heap[slot] = timer;
  timer->slot = slot;
}

/* Moves |timer| up or down from |slot| until the heap is ordered. */
static void restore_order(el_timers *timers, el_timer *timer, size_t slot) {
  while (slot > 1 && timers->heap[slot / 2]->at_ms > timer->at_ms) {
    place(timers, timers->heap[slot / 2], slot);
    slot /= 2;
  }
  for (;;) {
    size_t child = slot * 2;
    if (child > timers->n) break;
    if (child < timers->n &&
        timers->heap[child + 1]->at_ms < timers->heap[child]->at_ms) {
      child++;
    }
    if (timers->heap[child]->at_ms >= timer->at_ms) break;
    place(timers, timers->heap[child], slot);
    slot = child;
  }
  place(timers, timer, slot);
}

void el_timers_set(el_timers *timers, el_timer *timer, int64_t at_ms) {
  timer->at_ms = at_ms;
  if (timer->slot == 0) {
    if (timers->n + 1 >= timers->capacity) {
      timers->capacity = timers->capacity ? timers->capacity * 2 : 16;
      timers->heap =
          el_realloc(timers->heap, timers->capacity * sizeof *timers->heap);
    }
    timer->slot = ++timers->n;
  }
  restore_order(timers, timer, timer->slot);
}

void el_timers_stop(el_timers *timers, el_timer *timer) {
  size_t slot = timer->slot;
  el_timer *last;
  if (slot == 0) return;
  timer->slot = 0;
  last = timers->heap[timers->n--];
  if (last != timer) {
    restore_order(timers, last, slot);
  }
}

int64_t el_timers_next(const el_timers *timers) {
  return timers->n ? timers->heap[1]->at_ms : INT64_MAX;
}

void el_timers_run(el_timers *timers, int64_t now_ms) {
  while (timers->n && timers->heap[1]->at_ms <= now_ms) {
    el_timer *timer = timers->heap[1];
    el_timers_stop(timers, timer);
    timer->on_due(timer);
  }
}

void el_timers_destroy(el_timers *timers) {
  free(timers->heap);
  timers->heap = NULL;
  timers->n = timers->capacity = 0;
}
