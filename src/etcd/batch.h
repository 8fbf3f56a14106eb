/* batch: several transactions that are sent as one.
 *
 * Transactions that write are nested: one transaction without a condition of its own, whose
 * operations are the members. etcd evaluates the conditions of all members before it applies any,
 * then applies one after the other, all at one revision. So members must not depend on each other,
 * and etcd refuses a batch in which two members write the same key.
 *
 * Transactions that only read and have no conditions are joined: one transaction with the
 * operations of all. Nested, they would count as a write (v3_server.go, isTxnReadonly) and wait for
 * the disk.
 */
#ifndef ETCDLOCK_ETCD_BATCH_H
#define ETCDLOCK_ETCD_BATCH_H

#include "etcd/kv.h"

enum {
  /* etcd counts the compares of a transaction, the operations of its success branch, and those of
   * its failure branch, and accepts 128 of each. A nested transaction may have 128 less the largest
   * of the three counts outside (key.go, checkTxnRequest). */
  EL_BATCH_OPS_MAX = 120,
  EL_BATCH_MEMBER_OPS_MAX = 8
};

/* el_batch_cost returns how many operations of a batch |packed| takes; more than EL_BATCH_OPS_MAX
 * if it must be sent alone. @thread any */
size_t el_batch_cost(const el_packed_txn *packed);

/* el_batch_pack encodes |n| > 1 |members|, which either all write or all only read, as one
 * transaction. @thread any */
void el_batch_pack(el_packed_txn *to, const el_packed_txn *const *members,
                   size_t n);

/* el_batch_take returns the answer to the member |packed|, taken out of |whole|, the successful
 * answer to the batch. It must be called once for each member, in order; |*at| must be 0 before the
 * first call. @thread any */
el_txn_answer *el_batch_take(el_txn_answer *whole, const el_packed_txn *packed,
                             size_t *at);

#endif
