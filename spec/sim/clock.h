/* sim clock: what a peer's own clock shows. It began anywhere and runs a little
 * faster or slower than the store's, which is the world's; a peer knows no other. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include "world.h"

/* What the clock of |peer| shows now. */
int64_t clock_now(const world *wd, int peer);

/* When in the world it will show |shown_ms|, or has shown it; 0 for 0. */
int64_t clock_when(const world *wd, int peer, int64_t shown_ms);

#endif
