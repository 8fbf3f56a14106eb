/* batch: several transactions that are sent as one. */
#include "etcd/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "etcd.pb-c.h"

/* Returns the count that etcd compares with its limit: see EL_BATCH_OPS_MAX. */
static size_t count_ops(const el_packed_txn *packed) {
  size_t n = packed->n_compares;
  if (n < packed->shape.n_then) n = packed->shape.n_then;
  if (n < packed->shape.n_otherwise) n = packed->shape.n_otherwise;
  return n;
}

size_t el_batch_cost(const el_packed_txn *packed) {
  if (packed->is_read) {
    return packed->shape.is_plain ? packed->shape.n_then : EL_BATCH_OPS_MAX + 1;
  }
  return count_ops(packed) <= EL_BATCH_MEMBER_OPS_MAX ? 1
                                                      : EL_BATCH_OPS_MAX + 1;
}

/* Writes the encodings of the members one after the other. In protobuf, this is the encoding of one
 * transaction with the operations of all members. */
static void join(el_packed_txn *to, const el_packed_txn *const *members,
                 size_t n) {
  uint8_t *bytes, *kinds;
  *to = (el_packed_txn){.is_read = true, .shape.is_plain = true};
  for (size_t i = 0; i < n; i++) {
    to->len += members[i]->len;
    to->shape.n_then += members[i]->shape.n_then;
  }
  to->bytes = bytes = el_alloc(to->len + to->shape.n_then);
  to->shape.kinds = kinds = bytes + to->len;
  for (size_t i = 0; i < n; i++) {
    const el_txn_shape *shape = &members[i]->shape;
    memcpy(bytes, members[i]->bytes, members[i]->len);
    memcpy(kinds, shape->kinds, shape->n_then);
    bytes += members[i]->len;
    kinds += shape->n_then;
  }
}

/* Nests the members in one transaction. For each member, the transaction gets a condition on the
 * member's key that always holds. This makes etcd check the user's rights on that key: etcd before
 * 3.4.42, 3.5.28 and 3.6.9 checks the rights on the keys of conditions, but not on the keys of
 * nested transactions. */
static void nest(el_packed_txn *to, const el_packed_txn *const *members,
                 size_t n) {
  el_compare *compares = el_alloc(n * sizeof *compares);
  el_op *ops = el_alloc(n * sizeof *ops);
  el_txn txn = {compares, n, ops, n, NULL, 0};
  for (size_t i = 0; i < n; i++) {
    compares[i] = (el_compare){
        .test = EL_CREATE_REV_BELOW, .key = members[i]->key, .rev = INT64_MAX};
    ops[i] =
        (el_op){.kind = EL_OP_TXN,
                .value = {(const char *)members[i]->bytes, members[i]->len}};
  }
  el_kv_pack(to, &txn);
  to->shape.is_plain = true; /* all conditions of the batch hold */
  free(ops);
  free(compares);
}

void el_batch_pack(el_packed_txn *to, const el_packed_txn *const *members,
                   size_t n) {
  if (members[0]->is_read) {
    join(to, members, n);
  } else {
    nest(to, members, n);
  }
}

/* Moves the next |n| responses of |from| into a TxnResponse of their own. */
static Etcd__TxnResponse *take_joined(Etcd__TxnResponse *from, size_t *at,
                                      size_t n) {
  Etcd__TxnResponse *part = el_alloc(sizeof *part);
  etcd__txn_response__init(part);
  part->succeeded = true;
  part->n_responses = n;
  part->responses = el_alloc(n * sizeof *part->responses);
  for (size_t i = 0; i < n; i++) {
    part->responses[i] = from->responses[*at];
    from->responses[(*at)++] = NULL;
  }
  return part;
}

/* Moves the next response out of |from|. The response is a TxnResponse, because el_txn_answer_read
 * has compared |from| with the shape of the batch. */
static Etcd__TxnResponse *take_nested(Etcd__TxnResponse *from, size_t *at) {
  Etcd__ResponseOp *op = from->responses[(*at)++];
  Etcd__TxnResponse *part = op->response_txn;
  op->response_case = ETCD__RESPONSE_OP__RESPONSE__NOT_SET;
  op->response_txn = NULL;
  return part;
}

el_txn_answer *el_batch_take(el_txn_answer *whole, const el_packed_txn *packed,
                             size_t *at) {
  Etcd__TxnResponse *part =
      packed->is_read ? take_joined(whole->message, at, packed->shape.n_then)
                      : take_nested(whole->message, at);
  el_txn_answer *answer = el_alloc(sizeof *answer);
  *answer = (el_txn_answer){.sent_ms = whole->sent_ms,
                            .rev = whole->rev,
                            .term = whole->term,
                            .cluster_id = whole->cluster_id,
                            .member_id = whole->member_id,
                            .is_batched = true,
                            .message = part};
  if (!el_txn_answer_read(answer, &packed->shape)) {
    el_error_set(&answer->err, EL_PROTOCOL,
                 "the answer to a part of a Txn cannot be read");
    answer->err.is_definite = false;
  }
  return answer;
}
