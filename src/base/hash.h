/* hash: uthash, whose memory is ours: its own way out of a lack of it runs what the
 * program has left for its end (exit).
 */
#ifndef ETCDLOCK_BASE_HASH_H
#define ETCDLOCK_BASE_HASH_H

#include "base/alloc.h"

#define uthash_malloc(size) el_alloc(size)

#include <uthash.h>

#endif
