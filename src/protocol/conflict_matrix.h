/* conflict_matrix: which lock modes exclude which, and which keys of a queue a client reads to find
 * conflicts.
 *
 *   older \ younger   lock   read   write   permit   multi
 *   lock               x      x       x       -        x
 *   read               x      -       x       -        x
 *   write              x      x       x       -        x
 *   permit             -      -       -       n        -
 *   multi              x      x       x       -        x
 *
 * x: the younger key waits until the older key is gone. So conflicting locks are granted in the
 * order of their create_revision, and no waiter starves. A multi-lock waits in the queue of each of
 * its names. All keys of a multi-lock have the same create_revision, and a key waits for older keys
 * only. So two multi-locks never wait for each other.
 *
 * n: a key of a semaphore holds a permit while fewer than n older keys of that semaphore exist. The
 * n in the key itself counts; the n in older keys does not matter. If clients use different values
 * of n, they hold together at most as many permits as the largest value.
 *
 * Other code relies on this: apart from permits, only two readers do not conflict. A mode that
 * conflicts with only some of the other modes would need changes in is_held and is_first
 * (queue.lua), in held_locks.lua, in read_holder (lock_txn.c), and in the promise that tokens grow.
 *
 * lock:downgrade turns a writer into a reader: the writer keeps its key and puts a marker key.
 * Younger readers do not wait for a writer that has this marker.
 */
#ifndef ETCDLOCK_PROTOCOL_CONFLICT_MATRIX_H
#define ETCDLOCK_PROTOCOL_CONFLICT_MATRIX_H

#include <stdbool.h>

#include "etcd/txn.h"
#include "protocol/key.h"

enum {
  EL_CONFLICT_RANGES_MAX = EL_MULTI_MAX,
  EL_CONFLICT_TEXT_SIZE = EL_CONFLICT_RANGES_MAX * (EL_NAME_MAX + 2),
  EL_CONFLICT_HOLDER_SIZE = 2 * EL_KEY_SIZE
};

/* el_key_range is the range of the keys from |from| up to, but excluding, |to|. If |to| is empty,
 * it is the key |from| alone. */
typedef struct el_key_range {
  el_bytes from, to;
} el_key_range;

/* el_conflict_ranges fills |ranges| (EL_CONFLICT_RANGES_MAX elements) and returns the number of
 * ranges. Together the ranges contain every key that may conflict with |keys|; they may also
 * contain other keys. They point into |keys| and |text| (EL_CONFLICT_TEXT_SIZE bytes). A multi-lock
 * has one range for each name, in the order of the names. @thread any */
size_t el_conflict_ranges(const el_keys *keys, el_key_range *ranges,
                          char *text);

/* el_conflict_holder_range returns a range with all keys that may hold the lock of the first key of
 * |keys|: for a semaphore all its permits, otherwise all keys of the queue, of any mode. The range
 * may also contain other keys. It points into |keys| and |text| (EL_CONFLICT_HOLDER_SIZE bytes).
 * @thread any */
el_key_range el_conflict_holder_range(const el_keys *keys, char *text);

/* el_conflict_is_holder tells whether |kv|, the oldest key of el_conflict_holder_range, holds the
 * lock of the first key of |keys|. (If |kv| belongs to a multi-lock, that may still wait for
 * another of its names.) @thread any */
bool el_conflict_is_holder(const el_keys *keys, const el_kv *kv);

/* el_conflict_reads_markers tells whether the last range of el_conflict_ranges for |mode| serves to
 * read the markers of downgraded writers. @thread any */
bool el_conflict_reads_markers(el_mode mode);

/* el_modes_conflict tells whether a key of mode |younger| waits for a key of mode |older| of the
 * same lock name; of two permits, whether the older one counts. @thread any */
bool el_modes_conflict(el_mode older, el_mode younger);

/* el_conflict_is_blocker tells whether the first key of |keys| must wait for |kv| if |kv| is older;
 * for a semaphore, whether |kv| is a permit. If so, |blocker| identifies |kv|. |markers| is the
 * result of the read of the range of markers; NULL: no markers were read. @thread any */
bool el_conflict_is_blocker(const el_keys *keys, const el_kv *kv,
                            const el_op_result *markers, el_queue_key *blocker);

/* el_conflict_lacks_lease tells whether |kv| has no lease, but otherwise the form of an entry for
 * which the first key of |keys| must wait. @thread any */
bool el_conflict_lacks_lease(const el_keys *keys, const el_kv *kv);

/* el_conflict_is_waiter tells whether |key|, attached to |lease|, waits for the first key of |keys|
 * if |key| is younger. @thread any */
bool el_conflict_is_waiter(const el_keys *keys, el_bytes key, int64_t lease);

/* el_conflict_may_downgrade tells whether |blocker|, the key that |keys| waits for, may stop
 * blocking although it still exists, because its writer is downgraded. If so, |marker| is the key
 * that the writer creates then. @thread any */
bool el_conflict_may_downgrade(const el_keys *keys, const el_queue_key *blocker,
                               el_queue_key *marker);

#endif
