/* L0 fork_guard: knows whether this process is a forked child, and whether
 * gRPC can be used in it.
 *
 * A child that was forked while a client was open can neither use nor shut
 * down gRPC core: a new channel hangs as surely as the old one does. And its
 * handles must not release the parent's locks. So every door asks here first.
 */
#ifndef ETCDLOCK_FORK_GUARD_H
#define ETCDLOCK_FORK_GUARD_H

#include <stdbool.h>

/* Forks counted from here to the first process of the family; two equal
 * answers mean the same process. @thread any */
unsigned el_fork_generation(void);

/* Counts a client as open, or refuses: false in a child that was forked while
 * one was. @thread lua */
bool el_fork_enter(void);

/* The counterpart of an el_fork_enter that was true. @thread lua */
void el_fork_leave(void);

#endif
