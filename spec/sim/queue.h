/* sim queue: who stands in whose way, by the store's own word. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "world.h"

/* Is who has a key in the mode |other| in the way of who wants the name as |mine|? */
bool queue_is_in_way(el_mode mine, el_mode other);

/* May the two not be held at once, but for how many there are of one? */
bool queue_excludes(el_mode one, el_mode other);

/* How many of those that are in the way of who has a key at |key_id|, being older, keep it
 * waiting. */
int queue_limit(int key_id);

/* Is |it|, if it is older, in the way of who wants |name| as |mine|? */
bool queue_has_in_way(const store *st, const key *it, int name, el_mode mine);

/* How many keys of lock |name| older than |rev| are in the way of who wants it as |mine|;
 * |*one|, which may be NULL, is one of them. */
int queue_count_older(const store *st, int name, int64_t rev, el_mode mine,
                      const key **one);

/* Remembers who is next after |what|, of a key in a queue or its note. */
void queue_note(world *wd, const change *what);

#endif
