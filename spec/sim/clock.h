/* sim clock: a peer's own clock, the only one that it knows. It has an offset and a rate of its own
 * against the clock of the store, which is the world's. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include "world.h"

/* Returns the time of the clock of |peer|. */
int64_t clock_now(const world *wd, int peer);

/* Returns the world's time at which it shows |shown_ms|; 0 for 0. */
int64_t clock_when(const world *wd, int peer, int64_t shown_ms);

#endif
