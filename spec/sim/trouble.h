/* sim trouble: what befalls a whole peer or the whole cluster: elections,
 * partitions, stops, crashes, and admins who meddle. */
#ifndef SIM_TROUBLE_H
#define SIM_TROUBLE_H

#include "world.h"

/* Schedules what wd->faults has drawn, until |end_ms|. */
void trouble_plan(world *wd, int64_t end_ms);

/* |what| may just have put keys: now and then an admin takes one before its owner knows
 * of it, or watches it. */
void trouble_on_put(world *wd, const call *what);

/* If there are faults, the admin takes a key, and no watch tells of it. */
void trouble_strike_last(world *wd);

/* The admin removes what earlier meddling would leave for ever. */
void trouble_clean_up(world *wd);

/* A caller of |peer| has lost what it held: now and then the peer closes while its lock delay
 * runs. */
void trouble_on_lost(world *wd, int peer);

#endif
