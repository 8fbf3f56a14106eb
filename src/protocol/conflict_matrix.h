/* conflict_matrix: which lock modes exclude which, and what of a queue is read to see that.
 *
 *   older \ younger   lock   read   write   permit   multi
 *   lock               x      x       x       -        x
 *   read               x      -       x       -        x
 *   write              x      x       x       -        x
 *   permit             -      -       -       n        -
 *   multi              x      x       x       -        x
 *
 * x: the younger key waits for the older one. So waiters are granted in the order of their
 * create_revision, and none starves. A multi-lock waits in the queue of each of its names; its keys
 * have one create_revision, and each key waits for older ones only, so no two multi-locks deadlock.
 *
 * n: a key of a semaphore holds a permit while fewer than n older keys of the semaphore exist. n is
 * the number that the younger key contains, whatever the older keys contain: clients that use two
 * values hold together at most as many permits as the larger one.
 *
 * A writer that was downgraded to a reader (lock:downgrade) keeps its key and has a marker that
 * says so; younger readers do not wait for it.
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

/* el_key_range contains the keys from |from| to |to|, exclusive; |to| is empty: the key |from|
 * alone. */
typedef struct el_key_range {
  el_bytes from, to;
} el_key_range;

/* el_conflict_ranges fills |ranges| (EL_CONFLICT_RANGES_MAX) with the ranges that contain all keys
 * that may conflict with |keys|, and perhaps other keys, and returns their number. They point into
 * |keys| and |text| (EL_CONFLICT_TEXT_SIZE bytes). A multi-lock has one range for each name, in
 * their order. @thread any */
size_t el_conflict_ranges(const el_keys *keys, el_key_range *ranges,
                          char *text);

/* el_conflict_holder_range returns the range of all keys of the queue of the first key of |keys|,
 * whichever mode they have, and perhaps of other keys. It points into |keys| and |text|
 * (EL_CONFLICT_HOLDER_SIZE bytes). @thread any */
el_key_range el_conflict_holder_range(const el_keys *keys, char *text);

/* el_conflict_is_holder tells whether the lock of the first key of |keys| is held by |kv|, the
 * oldest key of that range. (A multi-lock may still wait for another name.) @thread any */
bool el_conflict_is_holder(const el_keys *keys, const el_kv *kv);

/* el_conflict_reads_markers tells whether the last range of |mode| is that of the markers of
 * downgraded writers. @thread any */
bool el_conflict_reads_markers(el_mode mode);

/* el_modes_conflict tells whether a key of mode |younger| waits for a key of mode |older| of the
 * same lock name. @thread any */
bool el_modes_conflict(el_mode older, el_mode younger);

/* el_conflict_is_blocker tells whether the first key of |keys| must wait for |kv|, which the caller
 * knows to be older. It fills |blocker| if so. |markers| has what was read of the range of markers;
 * NULL: it was not read. @thread any */
bool el_conflict_is_blocker(const el_keys *keys, const el_kv *kv,
                            const el_op_result *markers, el_queue_key *blocker);

/* el_conflict_is_waiter tells whether |key|, attached to |lease|, waits for |keys|, provided that
 * |key| is younger. @thread any */
bool el_conflict_is_waiter(const el_keys *keys, el_bytes key, int64_t lease);

/* el_conflict_may_downgrade tells whether |blocker|, for which |keys| waits, may stop blocking
 * while its key exists. If so, |marker| is the key whose creation says that it has. @thread any */
bool el_conflict_may_downgrade(const el_keys *keys, const el_queue_key *blocker,
                               el_queue_key *marker);

#endif
