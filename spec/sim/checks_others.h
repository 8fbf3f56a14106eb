/* sim checks_others: who is before a caller that waits? By the store, and by what all callers
 * have asked for and were told; not by the local queues. */
#ifndef SIM_CHECKS_OTHERS_H
#define SIM_CHECKS_OTHERS_H

#include "peer.h"
#include "world.h"

/* The entry that the key at |key_id| of |lease_id| belongs to; NULL: it is forgotten. */
const peer_entry *others_find_entry(const world *wd, int key_id,
                                    int64_t lease_id, int *peer);

/* Does a caller hold, or wait, by |at|? */
bool others_use(const world *wd, int peer, const peer_entry *at);

/* Do others keep |who| from its lock? Not keys that no caller has any more and that live
 * clients are to delete. */
bool others_hinder(const world *wd, const sim_caller *who);

/* Do they if |who| tries? Then such keys of other clients count, too. */
bool others_lock(const world *wd, const sim_caller *who);

#endif
