/* process: whether this process can use gRPC: forks and resource limits. */
#ifndef ETCDLOCK_BASE_PROCESS_H
#define ETCDLOCK_BASE_PROCESS_H

#include <stdbool.h>

#include "base/error.h"

/* ---- forks ----
 *
 * A forked child cannot use gRPC core, nor shut it down, if its parent has used
 * it. With an open client in the parent, a new channel in the child hangs, and
 * so does the old one. With all clients closed before the fork, the child still
 * hung once in a few hundred runs. A child must not release its parent's locks
 * either. Each function that Lua calls on a client therefore checks here. */

/* el_fork_generation returns how many forks lie between this process and the
 * first process that called it. An object that was made in another generation
 * belongs to another process. @thread any */
unsigned el_fork_generation(void);

/* el_process_use_grpc records that this process is about to use gRPC. Returns
 * false if this process may not, because it was forked after its parent did.
 * @thread lua */
bool el_process_use_grpc(void);

/* ---- limits ---- */

/* el_process_has_room tries whether |n_threads| threads and |n_descriptors|
 * file descriptors can be had now, at most 32 of each. gRPC hangs or aborts the
 * process if it does not get what it needs. Returns false and fills |err|
 * ("nomem", the text names the limit) if not. @thread any */
bool el_process_has_room(int n_threads, int n_descriptors, el_error *err);

#endif
