/* sim clock: the clock of a peer. A peer knows no other clock. This clock differs by an offset and
 * by its rate from the world's clock, which the store uses. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include "world.h"

/* Returns the time of the clock of |peer|. */
int64_t clock_now(const world *wd, int peer);

/* Returns the time of the world's clock at which the clock of |peer| shows |shown_ms|. Returns 0 if
 * |shown_ms| is 0. */
int64_t clock_when(const world *wd, int peer, int64_t shown_ms);

#endif
