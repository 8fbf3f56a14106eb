/* sim history: one history, from the first acquisition until all work is over and no key is
 * left. */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include "figures.h"
#include "world.h"

/* Runs the history of |seed| in |wd|, whose memory may be used again, and adds its counts to |all|.
 * Returns false if an invariant was violated; wd->violation then says which one. */
bool history_run(world *wd, uint64_t seed, figures *all);

#endif
