/* sim trouble: faults of a whole peer or cluster: elections, partitions, stops, crashes, and admins
 * that change keys. */
#ifndef SIM_TROUBLE_H
#define SIM_TROUBLE_H

#include "world.h"

/* Schedules what wd->faults has drawn, until |end_ms|. */
void trouble_plan(world *wd, int64_t end_ms);

/* |what| may just have put keys: sometimes an admin deletes one before its client knows of it, or
 * watches it. */
void trouble_on_put(world *wd, const call *what);

/* If there are faults, an admin deletes a key, and no watch reports it. */
void trouble_strike_last(world *wd);

/* An admin removes keys that earlier changes would leave for ever. */
void trouble_clean_up(world *wd);

/* A caller of |peer| has lost its hold: sometimes the peer closes during the lock delay. */
void trouble_on_lost(world *wd, int peer);

#endif
