/* simulation costs: what a client may cost etcd in a history without faults. Each limit is what the
 * client was measured to need at most, and a little more, so that waste is seen: a request that is
 * repeated, watches that become ever more, a key with too high a number, a message that carries too
 * much. */
#ifndef SIMULATION_COSTS_H
#define SIMULATION_COSTS_H

#include "etcd.h"
#include "program.h"

/* Begins a history with |cluster|, which has no faults and answers within |round_us|; NULL: nothing
 * is checked. */
void costs_begin(etcd *cluster, int64_t round_us);

void costs_on_join(const user *of);
/* |of| has waited since it joined. */
void costs_on_decided(const user *of);
/* |of| is about to write by its hold, or to downgrade it. */
void costs_on_write(const user *of);
void costs_on_change(const etcd_change *change);
/* Looks at what is in use now. */
void costs_look(void);
/* The client of |of|, which logs in |n_logins| times at most, has stopped. */
void costs_on_closed(const program *of, int n_logins);

#endif
