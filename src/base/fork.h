/* fork: knows whether this process is a forked child, and whether
 * gRPC can be used in it.
 *
 * A child whose parent has used gRPC core can neither use nor shut it down: with
 * a client open a new channel hangs as surely as the old one does; with all of
 * them closed before the fork it still hung once in a few hundred times, which
 * is worse. And its handles must not release the parent's locks. So every door
 * asks here first.
 */
#ifndef ETCDLOCK_BASE_FORK_H
#define ETCDLOCK_BASE_FORK_H

#include <stdbool.h>

/* Forks counted from here to the first process of the family; two equal
 * answers mean the same process. @thread any */
unsigned el_fork_generation(void);

/* Asks before gRPC is used: false in a child that was forked after it was.
 * @thread lua */
bool el_fork_enter(void);

#endif
