/* hash: uthash with el_alloc.
 *
 * Without memory uthash calls exit(), which runs the program's exit handlers on
 * the I/O thread; el_alloc aborts instead.
 */
#ifndef ETCDLOCK_BASE_HASH_H
#define ETCDLOCK_BASE_HASH_H

#include "base/alloc.h"

#define uthash_malloc(size) el_alloc(size)

#include <uthash.h>

#endif
