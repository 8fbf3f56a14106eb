/* sim random: the dice of one history. The seed alone decides what falls. */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rng {
  uint64_t state;
} rng;

void rng_seed(rng *dice, uint64_t seed);

uint64_t rng_next(rng *dice);

/* From |low| to |high|, both included. */
int64_t rng_between(rng *dice, int64_t low, int64_t high);

/* True |per_mille| times in a thousand. A chance of 0 or 1000 throws too, so
 * that a fault that is switched off leaves the later throws as they were. */
bool rng_chance(rng *dice, int per_mille);

#endif
