/* sim queue: who stands in whose way, by the store's own word. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "world.h"

/* Which others are in the way of who has a key at |spot|. */
sim_way queue_way(int spot);

/* How many of these, being older, keep it waiting. */
int queue_limit(int spot);

/* How many keys of lock |name| older than |rev| are in that |way|; |*one|, which may be
 * NULL, is one of them. */
int queue_count_older(const store *st, int name, int64_t rev, sim_way way,
                      const key **one);

/* Remembers who is next after |what|, of a key in a queue or its note. */
void queue_note(world *wd, const change *what);

#endif
