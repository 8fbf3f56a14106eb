/* sim checks_others: which keys and acquisitions are before a waiting caller, judged by the store
 * and by the acquisitions and results of all callers, not by the local queues. */
#ifndef SIM_CHECKS_OTHERS_H
#define SIM_CHECKS_OTHERS_H

#include "peer.h"
#include "world.h"

/* Returns the entry of the key |key_id| of |lease_id|; NULL: it was freed. */
const peer_entry *others_find_entry(const world *wd, int key_id,
                                    int64_t lease_id, int *peer);

/* Tells whether a caller holds or waits by |at|. */
bool others_use(const world *wd, int peer, const peer_entry *at);

/* Tells whether others block |caller|. Keys that no caller wants, and that live clients are about
 * to delete, do not count. */
bool others_hinder(const world *wd, const sim_caller *caller);

/* The same for a try: such keys of other clients count, too. */
bool others_lock(const world *wd, const sim_caller *caller);

#endif
