/* sim random: the random numbers of one history (splitmix64). */
#include "random.h"

void rng_seed(rng *dice, uint64_t seed) {
  dice->state = seed * 0x9e3779b97f4a7c15u + 0x1234567u;
  rng_next(dice);
}

uint64_t rng_next(rng *dice) {
  uint64_t z = dice->state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int64_t rng_between(rng *dice, int64_t low, int64_t high) {
  uint64_t n = (uint64_t)(high - low) + 1;
  return low + (int64_t)(rng_next(dice) % n);
}

bool rng_chance(rng *dice, int per_mille) {
  return (int)(rng_next(dice) % 1000) < per_mille;
}
