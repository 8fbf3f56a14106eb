/* sim queue: which keys block which, judged by the store. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "world.h"

/* Tells whether an older key of mode |other| blocks one of mode |mine|. */
bool queue_blocks(el_mode mine, el_mode other);

/* Tells whether the two modes exclude each other; permits only by their number. */
bool queue_excludes(el_mode one, el_mode other);

/* Returns how many older blocking keys keep the key |key_id| waiting. */
int queue_limit(int key_id);

/* Tells whether |it|, if it is older, blocks a key of |mine| in the queue of |name|. */
bool queue_is_blocker(const store *st, const key *it, int name, el_mode mine);

/* Returns how many keys of |name| older than |rev| block one of |mine|; |*one|, if not NULL, is set
 * to one of them. */
int queue_count_older(const store *st, int name, int64_t rev, el_mode mine,
                      const key **one);

/* Records which key is next after |what|, a change of a key in a queue or of its marker. */
void queue_record(world *wd, const change *what);

#endif
