/* simulation scenes: how a client fares on networks and disks of one kind, in numbers. */
#ifndef SIMULATION_SCENES_H
#define SIMULATION_SCENES_H

/* Prints a table: for each network, disk and proxy, the seconds to the first lock, and for how much
 * of ten TTLs a lock was held. */
void scenes_print(void);

/* Prints the story of one scene without loss and incidents. */
void scenes_trace(int n_members, int rtt_ms);

#endif
