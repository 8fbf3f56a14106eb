/* batch: several transactions that travel as one.
 *
 * What writes is nested: one transaction without a condition of its own, whose
 * operations are the members. etcd judges the conditions of all of them before it
 * carries any out, and then one after the other, all at one revision; so members
 * must not depend on each other. Of two that write one key it takes neither.
 *
 * What only reads, and has no conditions, is joined: the operations of all in one
 * transaction. Nested, it would be a write to etcd (v3_server.go, isTxnReadonly),
 * and wait for the disk.
 */
#ifndef ETCDLOCK_ETCD_BATCH_H
#define ETCDLOCK_ETCD_BATCH_H

#include "etcd/kv.h"

enum {
  /* etcd counts the compares of a transaction, the operations if they are true, and the
   * operations if not. It takes 128 of each; of what is nested, as many less as the
   * largest of the three outside (key.go, checkTxnRequest). */
  EL_BATCH_OPS_MAX = 120,
  EL_BATCH_MEMBER_OPS_MAX = 8
};

/* How many of the operations of a batch |packed| takes; more than
 * EL_BATCH_OPS_MAX: it can't be part of one. @thread any */
size_t el_batch_cost(const el_packed_txn *packed);

/* Packs |n| > 1 |members| into |to|; all of them write, or all only read.
 * @thread any */
void el_batch_pack(el_packed_txn *to, const el_packed_txn *const *members,
                   size_t n);

/* The part of |whole|, the good answer to a batch, that is the answer to its
 * member |packed|. Asked of each member once, in their order; |*at| counts, from 0.
 * @thread any */
el_txn_answer *el_batch_take(el_txn_answer *whole, const el_packed_txn *packed,
                             size_t *at);

#endif
