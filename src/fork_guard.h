/* L0 fork_guard: knows whether this process is a forked child.
 *
 * gRPC core can't be used, nor even shut down, in a child that was forked from
 * a process with a live client, and the child's handles must not release the
 * parent's locks. So every door asks here first.
 */
#ifndef ETCDLOCK_FORK_GUARD_H
#define ETCDLOCK_FORK_GUARD_H

/* Forks counted from here to the first process of the family; two equal
 * answers mean the same process. @thread any */
unsigned el_fork_generation(void);

#endif
