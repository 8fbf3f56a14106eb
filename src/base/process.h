/* process: checks whether this process can use gRPC: forks and resource limits. */
#ifndef ETCDLOCK_BASE_PROCESS_H
#define ETCDLOCK_BASE_PROCESS_H

#include <stdbool.h>

#include "base/error.h"

/* ---- forks ----
 *
 * If a process has used gRPC core, its forked children can neither use gRPC core nor shut it down.
 * If a client was open at the fork, a new gRPC channel hangs in the child, and so does the old one.
 * If all clients were closed before the fork, the child still hung once in a few hundred runs.
 * Besides, a child must not release the locks of its parent. So the functions that need the loop or
 * a mutex of a client check with the functions below. */

/* el_fork_generation returns the number of forks between the first process that called it and this
 * process. An object that was made in another generation belongs to another process. @thread any */
unsigned el_fork_generation(void);

/* el_process_use_grpc records that this process is about to use gRPC. Returns false if this process
 * must not use gRPC, because it was forked from a process that had used it. @thread lua */
bool el_process_use_grpc(void);

/* ---- limits ---- */

/* el_process_has_room returns whether this process can now get |n_threads| threads and
 * |n_descriptors| file descriptors, at most 64 of each. Otherwise returns false and fills |err|
 * ("nomem"; the text names the limit). The check is necessary, because gRPC hangs or aborts the
 * process if it cannot get them. @thread any */
bool el_process_has_room(int n_threads, int n_descriptors, el_error *err);

#endif
