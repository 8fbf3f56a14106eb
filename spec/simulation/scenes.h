/* simulation scenes: how a client fares on networks and disks of one kind, in numbers. */
#ifndef SIMULATION_SCENES_H
#define SIMULATION_SCENES_H

#include <stdint.h>

/* Prints a table, with a row for each scene: the seconds to the first lock, and for how much of ten
 * TTLs a lock was held; for a busy client, its longest wait. */
void scenes_print(void);

/* Prints the story of the scene in the |row|th row of the table, from 1. A row is the mean of the
 * seeds from 1 on. */
void scenes_trace(int row, uint64_t seed);

#endif
