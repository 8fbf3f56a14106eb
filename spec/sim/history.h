/* sim history: one history, from the first request until nothing is left. */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include "figures.h"
#include "world.h"

/* Runs the history of |seed| in |wd|, which may be used again. False: an invariant was violated,
 * and wd->violation says which. */
bool history_run(world *wd, uint64_t seed, figures *all);

#endif
