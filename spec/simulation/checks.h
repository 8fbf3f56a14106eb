/* simulation checks: what etcdlock promises, as far as its users and etcd can see it. Each promise
 * is checked in both directions: no false success, no false failure. */
#ifndef SIMULATION_CHECKS_H
#define SIMULATION_CHECKS_H

#include "etcd.h"
#include "program.h"

/* Begins the checks of a history whose data are in |cluster|. |is_calm|: it has no faults. */
void checks_begin(etcd *cluster, bool is_calm);
void checks_end(void);
int64_t checks_n_grants(void);

/* Takes each change of the data. */
void checks_on_change(void *arg, const etcd_change *change);

/* An admin has changed the key |key|: promises about that hold do not bind any more. */
void checks_on_sabotage(int64_t create_rev);

void checks_on_join(user *of);
/* The wait of |of| has ended with |err|. */
void checks_on_decided(user *of, const el_error *err);
/* |of| is about to release, or sees that its hold is lost. */
void checks_on_release(user *of);
/* The release of |of| has ended with |err|. */
void checks_on_released(user *of, const el_error *err);
/* The program has crashed or closed its client. */
void checks_on_end(program *of);

/* Checks, when all programs have ended and their leases are over, that nothing is left. */
void checks_nothing_left(void);

#endif
