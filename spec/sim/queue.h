/* sim queue: who stands in whose way, by the store's own word. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "world.h"

/* A key of lock |name| older than |rev| that is in the way of those who only read, or of
 * all others; NULL: none is. */
const key *queue_find_older(const store *st, int name, int64_t rev, bool reads);

/* Remembers who is next after |what|, of a key in a queue or its note. */
void queue_note(world *wd, const change *what);

#endif
