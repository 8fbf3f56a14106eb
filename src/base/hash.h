/* hash: uthash with el_alloc.
 *
 * By default uthash calls exit() if there is no memory, and exit() would run the program's exit
 * handlers on the I/O thread. el_alloc aborts the process instead.
 */
#ifndef ETCDLOCK_BASE_HASH_H
#define ETCDLOCK_BASE_HASH_H

#include "base/alloc.h"

#define uthash_malloc(size) el_alloc(size)

#include <uthash.h>

#endif
