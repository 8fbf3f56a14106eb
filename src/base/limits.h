/* limits: whether the process has room for what gRPC starts, which hangs or aborts
 * where it gets none.
 */
#ifndef ETCDLOCK_BASE_LIMITS_H
#define ETCDLOCK_BASE_LIMITS_H

#include <stdbool.h>

#include "base/error.h"

/* Could so many threads and descriptors be had at this moment? False and |err|
 * (nomem, with the name of the limit) if not. @thread any */
bool el_limits_allow(int n_threads, int n_descriptors, el_error *err);

#endif
