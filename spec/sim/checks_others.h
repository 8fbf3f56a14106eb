/* sim checks_others: which keys and acquisitions are before a waiting caller. The answer follows
 * from the store and from what all callers have asked for and got. It does not rely on the local
 * queues, which are under test. */
#ifndef SIM_CHECKS_OTHERS_H
#define SIM_CHECKS_OTHERS_H

#include "peer.h"
#include "world.h"

/* Returns the entry of the key |key_id| of |lease_id| and sets |*peer| to the number of its peer.
 * Returns NULL if the entry was freed. */
const peer_entry *others_find_entry(const world *wd, int key_id,
                                    int64_t lease_id, int *peer);

/* Tells whether a caller of |peer| holds by the key of |at|, or waits with it. */
bool others_use(const world *wd, int peer, const peer_entry *at);

/* Tells whether keys or acquisitions before |caller| block it. A key that no caller wants does not
 * count if its client lives and is about to delete it. */
bool others_hinder(const world *wd, const sim_caller *caller);

/* Does the same as others_hinder for a caller that tries. Keys of other clients that no caller
 * wants count, too. */
bool others_lock(const world *wd, const sim_caller *caller);

#endif
