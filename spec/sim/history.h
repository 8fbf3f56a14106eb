/* sim history: one seed, from the first request until nothing is left. */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include "figures.h"
#include "world.h"

/* Runs the history of |seed| in |wd|, which may be used again; false if an
 * invariant was violated, and wd->violation says which. */
bool history_run(world *wd, uint64_t seed, figures *all);

#endif
