/* sim trouble: faults of a whole peer or cluster: elections, partitions, stops, crashes, and admins
 * that change keys. */
#ifndef SIM_TROUBLE_H
#define SIM_TROUBLE_H

#include "world.h"

/* Schedules what wd->faults has drawn, until |end_ms|. */
void trouble_plan(world *wd, int64_t end_ms);

/* After |what|, which may have put keys: makes an admin delete one of these keys, in few cases,
 * before the client knows of the key or watches it. */
void trouble_on_put(world *wd, const call *what);

/* Makes an admin delete a key for the last time, and no watch reports it. Does nothing in a history
 * without faults. */
void trouble_strike_last(world *wd);

/* Makes an admin delete the keys that admins have detached from their lease. Otherwise these keys
 * would never go. */
void trouble_clean_up(world *wd);

/* A caller of |peer| has lost its hold: in few cases, closes the peer during the lock delay. */
void trouble_on_lost(world *wd, int peer);

#endif
