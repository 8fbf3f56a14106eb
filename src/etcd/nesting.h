/* nesting: limits how deep the answer to a transaction is nested.
 *
 * The answer to a nested transaction is nested, too, and protobuf-c decodes a nested
 * message by recursion. So an answer of thousands of levels would overflow the stack:
 * its depth is checked before protobuf-c sees it.
 */
#ifndef ETCDLOCK_ETCD_NESTING_H
#define ETCDLOCK_ETCD_NESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is the TxnResponse in |bytes| nested at most |levels| deep? A TxnResponse without
 * others in it is one level deep. Looks only into the fields that lead to another level.
 * False also if the bytes are malformed. @thread any */
bool el_nesting_is_within(const uint8_t *bytes, size_t len, int levels);

#endif
