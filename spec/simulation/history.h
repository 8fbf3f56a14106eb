/* simulation history: one history, from the first connection until nothing is left. */
#ifndef SIMULATION_HISTORY_H
#define SIMULATION_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

/* What a history did, for the report. */
typedef struct history_counts {
  int64_t n_grants, virtual_us;
} history_counts;

/* Runs the history of |seed|. Returns false if a promise was broken: world_violation tells which.
 * After that no other history can run in this process. */
bool history_run(uint64_t seed, history_counts *counts);

#endif
