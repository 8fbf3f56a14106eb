/* simulation world: virtual time, the events that are due later, and the random numbers of one
 * history.
 *
 * There is one world in the program, because what it replaces (the clock, threads, gRPC) has no
 * argument by which a world could be passed. The earliest event runs next and sets the clock to its
 * time; nothing else moves the clock. Everything that happens depends on the seed only. */
#ifndef SIMULATION_WORLD_H
#define SIMULATION_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/timer.h"

enum { WORLD_MS = 1000, WORLD_S = 1000 * 1000 }; /* in microseconds */

/* Begins a history. All objects of the history before must be gone. */
void world_begin(uint64_t seed);

/* Ends the history. Events that are not due yet never run. */
void world_end(void);

/* Returns the microseconds since the history began. */
int64_t world_now_us(void);

/* Sets |timer|, which is embedded in the object that uses it: timer->on_due is called once, at
 * |at_us|. If |timer| is set already, it is moved. */
void world_set(el_timer *timer, int64_t at_us);

/* Unsets |timer|, which need not be set. */
void world_stop(el_timer *timer);

/* Runs the events that are due next, all of one time. Returns false if there are none. */
bool world_next(void);

/* Returns a number from |low| to |high|, both included. */
int64_t world_random(int64_t low, int64_t high);

/* Returns true with |per_mille| / 1000 probability. 0 and 1000 draw a number, too, so that a fault
 * that is switched off does not change the later draws. */
bool world_chance(int per_mille);

/* Prints what happens, with the time, if tracing is on. */
void world_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Switches tracing on or off; it is off at first. */
void world_set_tracing(bool is_on);

/* Records that the history has failed, because |promise| was broken. Only the first violation of a
 * history counts. */
void world_violate(const char *promise, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns which promise was broken, and how; NULL: none was. */
const char *world_violation(void);

#endif
