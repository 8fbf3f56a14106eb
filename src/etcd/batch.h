/* batch: several transactions that are sent as one. In this file, a member is a transaction in a
 * batch.
 *
 * Members that write are nested: the batch is one transaction whose operations are the members.
 * etcd evaluates the conditions of all members before it applies any member. Then it applies one
 * member after the other, all at one revision. So members must not depend on each other. If two
 * members write the same key, etcd refuses the batch.
 *
 * Members that only read and have no conditions are joined: the batch is one transaction with the
 * operations of all members. If they were nested, etcd would treat the batch as a write
 * (v3_server.go, isTxnReadonly), and the reads would wait for the disk.
 */
#ifndef ETCDLOCK_ETCD_BATCH_H
#define ETCDLOCK_ETCD_BATCH_H

#include "etcd/kv.h"

enum {
  /* etcd counts three things of a transaction: the compares, the operations of the success branch,
   * and the operations of the failure branch. It accepts 128 of each. For a nested transaction, the
   * limit is 128 minus the largest of the three counts of the outer transaction (key.go,
   * checkTxnRequest). */
  EL_BATCH_OPS_MAX = 120,
  EL_BATCH_MEMBER_OPS_MAX = 8
};

/* el_batch_cost returns how many of the EL_BATCH_OPS_MAX operations of a batch |packed| takes.
 * Returns more than EL_BATCH_OPS_MAX if |packed| must be sent alone. @thread any */
size_t el_batch_cost(const el_packed_txn *packed);

/* el_batch_pack encodes |n| > 1 |members| as one transaction. Either all members write, or all
 * members only read. @thread any */
void el_batch_pack(el_packed_txn *to, const el_packed_txn *const *members,
                   size_t n);

/* el_batch_take moves the answer to the member |packed| out of |whole|, the successful answer to
 * the batch, and returns it. It must be called once for each member, in the order of the batch. The
 * caller sets |*at| to 0 before the first call and does not change it. @thread any */
el_txn_answer *el_batch_take(el_txn_answer *whole, const el_packed_txn *packed,
                             size_t *at);

#endif
