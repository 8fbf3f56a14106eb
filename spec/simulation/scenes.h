/* simulation scenes: how a client fares on networks and disks of one kind, in numbers. */
#ifndef SIMULATION_SCENES_H
#define SIMULATION_SCENES_H

#include <stdint.h>

/* Prints a table, with a row for each scene: the seconds to the first lock, for how much of ten
 * TTLs a lock was held, and how often it was lost; for a busy client, its longest wait. A row has
 * the means over the seeds from 1 on, and in parentheses the longest time of a seed. */
void scenes_print(void);

/* Prints the story of the scene in the |row|th row of the table, from 1, with |seed|. */
void scenes_trace(int row, uint64_t seed);

#endif
