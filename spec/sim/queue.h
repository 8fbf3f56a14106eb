/* sim queue: which keys block which, judged by the store. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "world.h"

/* Tells whether an older key of mode |other| blocks a key of mode |mine|. */
bool queue_blocks(el_mode mine, el_mode other);

/* Tells whether holds of the two modes exclude each other. Two permits count as excluding each
 * other, although several can be held. */
bool queue_excludes(el_mode one, el_mode other);

/* Returns the number of older blocking keys that keep the key |key_id| waiting. */
int queue_limit(int key_id);

/* Tells whether the key |it| blocks a younger key of mode |mine| in the queue of |name|. */
bool queue_is_blocker(const store *st, const key *it, int name, el_mode mine);

/* Returns how many keys of |name| that are older than |rev| block a key of mode |mine|. If |one| is
 * not NULL, sets |*one| to one of these keys. */
int queue_count_older(const store *st, int name, int64_t rev, el_mode mine,
                      const key **one);

/* Records when keys of each mode were unblocked, after |what|, a change of a key of a queue or of a
 * marker. */
void queue_record(world *wd, const change *what);

#endif
