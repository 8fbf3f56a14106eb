/* sim random: the random numbers of one history, which depend on its seed only. */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rng {
  uint64_t state;
} rng;

void rng_seed(rng *dice, uint64_t seed);

uint64_t rng_next(rng *dice);

/* Returns a number from |low| to |high|, both included. */
int64_t rng_between(rng *dice, int64_t low, int64_t high);

/* Returns true with |per_mille| / 1000 probability. 0 and 1000 draw a number, too, so that a fault
 * that is switched off does not change the later draws. */
bool rng_chance(rng *dice, int per_mille);

#endif
