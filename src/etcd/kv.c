/* kv: sends transactions to etcd, and decodes its answers. */
#include "etcd/kv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "etcd.pb-c.h"

static ProtobufCBinaryData pack_bytes(el_bytes bytes) {
  return (ProtobufCBinaryData){bytes.len, (uint8_t *)(uintptr_t)bytes.data};
}

static el_bytes unpack_bytes(ProtobufCBinaryData bytes) {
  return (el_bytes){(const char *)bytes.data, bytes.len};
}

/* ---- request ---- */

/* One operation with the message that it selects. */
typedef struct packed_op {
  Etcd__RequestOp op;
  union {
    Etcd__RangeRequest range;
    Etcd__PutRequest put;
    Etcd__DeleteRangeRequest delete_range;
  } as;
} packed_op;

/* What is 0 or false is left out by protobuf, and means to etcd: not asked for. */
static void pack_range(Etcd__RangeRequest *to, const el_op *op) {
  etcd__range_request__init(to);
  to->key = pack_bytes(op->key);
  to->range_end = pack_bytes(op->range_end);
  to->limit = op->limit;
  to->revision = op->at_rev;
  to->max_create_revision = op->max_create_rev;
  to->serializable = op->serializable;
  to->keys_only = op->keys_only;
  if (op->sort != EL_SORT_BY_KEY) {
    to->sort_target = ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;
    to->sort_order = op->sort == EL_SORT_OLDEST
                         ? ETCD__RANGE_REQUEST__SORT_ORDER__ASCEND
                         : ETCD__RANGE_REQUEST__SORT_ORDER__DESCEND;
  }
}

static void pack_op(packed_op *to, const el_op *op) {
  etcd__request_op__init(&to->op);
  switch (op->kind) {
    case EL_OP_RANGE:
      pack_range(&to->as.range, op);
      to->op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
      to->op.request_range = &to->as.range;
      break;
    case EL_OP_PUT:
      etcd__put_request__init(&to->as.put);
      to->as.put.key = pack_bytes(op->key);
      to->as.put.value = pack_bytes(op->value);
      to->as.put.lease = op->lease;
      /* A touch moves the key's mod_revision, and nothing else. */
      to->as.put.ignore_value = to->as.put.ignore_lease = op->touch;
      to->op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
      to->op.request_put = &to->as.put;
      break;
    case EL_OP_DELETE:
      etcd__delete_range_request__init(&to->as.delete_range);
      to->as.delete_range.key = pack_bytes(op->key);
      to->as.delete_range.range_end = pack_bytes(op->range_end);
      to->op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
      to->op.request_delete_range = &to->as.delete_range;
      break;
    case EL_OP_TXN:
      to->op.request_txn = pack_bytes(op->value);
      to->op.request_case = ETCD__REQUEST_OP__REQUEST_REQUEST_TXN;
      break;
  }
}

static void pack_compare(Etcd__Compare *to, const el_compare *compare) {
  etcd__compare__init(to);
  to->result = compare->test == EL_CREATE_REV_BELOW
                   ? ETCD__COMPARE__COMPARE_RESULT__LESS
                   : ETCD__COMPARE__COMPARE_RESULT__EQUAL;
  to->key = pack_bytes(compare->key);
  to->range_end = pack_bytes(compare->range_end);
  if (compare->test == EL_MOD_REV_IS) {
    to->target = ETCD__COMPARE__COMPARE_TARGET__MOD;
    to->target_union_case = ETCD__COMPARE__TARGET_UNION_MOD_REVISION;
    to->mod_revision = compare->rev;
  } else {
    to->target = ETCD__COMPARE__COMPARE_TARGET__CREATE;
    to->target_union_case = ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
    to->create_revision = compare->rev;
  }
}

static Etcd__RequestOp **pack_ops(packed_op *to, Etcd__RequestOp **pointers,
                                  const el_op *ops, size_t n) {
  for (size_t i = 0; i < n; i++) {
    pack_op(&to[i], &ops[i]);
    pointers[i] = &to[i].op;
  }
  return pointers;
}

/* protobuf-c wants a list of pointers where we have one of structs. After the |len| bytes
 * that are returned there is room for |more|. */
static uint8_t *encode(const el_txn *txn, size_t *len, size_t more) {
  size_t n_ops = txn->n_then + txn->n_otherwise;
  packed_op *ops = el_alloc(n_ops * sizeof *ops);
  Etcd__RequestOp **op_ptrs = el_alloc(n_ops * sizeof *op_ptrs);
  Etcd__Compare *compares = el_alloc(txn->n_compares * sizeof *compares);
  Etcd__Compare **cmp_ptrs = el_alloc(txn->n_compares * sizeof *cmp_ptrs);
  Etcd__TxnRequest request = ETCD__TXN_REQUEST__INIT;
  uint8_t *bytes;
  for (size_t i = 0; i < txn->n_compares; i++) {
    pack_compare(&compares[i], &txn->compares[i]);
    cmp_ptrs[i] = &compares[i];
  }
  request.n_compare = txn->n_compares;
  request.compare = cmp_ptrs;
  request.n_success = txn->n_then;
  request.success = pack_ops(ops, op_ptrs, txn->then, txn->n_then);
  request.n_failure = txn->n_otherwise;
  request.failure = pack_ops(ops + txn->n_then, op_ptrs + txn->n_then,
                             txn->otherwise, txn->n_otherwise);
  bytes = el_alloc(etcd__txn_request__get_packed_size(&request) + more);
  *len = etcd__txn_request__pack(&request, bytes);
  free(cmp_ptrs);
  free(compares);
  free(op_ptrs);
  free(ops);
  return bytes;
}

/* As etcd sees it (v3_server.go, isTxnReadonly and isTxnSerializable). */
static void classify(el_packed_txn *to, const el_op *ops, size_t n) {
  for (size_t i = 0; i < n; i++) {
    to->is_read = to->is_read && ops[i].kind == EL_OP_RANGE;
    to->is_local = to->is_local && to->is_read && ops[i].serializable;
  }
}

/* Of the first operation, else of the first compare. */
static el_bytes first_key(const el_txn *txn) {
  if (txn->n_then > 0) return txn->then[0].key;
  return txn->n_compares > 0 ? txn->compares[0].key : (el_bytes){0};
}

void el_kv_pack(el_packed_txn *to, const el_txn *txn) {
  el_bytes key = first_key(txn);
  *to = (el_packed_txn){.n_then = txn->n_then,
                        .n_otherwise = txn->n_otherwise,
                        .is_read = true,
                        .is_plain = txn->n_compares == 0,
                        .is_local = txn->n_then > 0};
  classify(to, txn->then, txn->n_then);
  classify(to, txn->otherwise, txn->n_otherwise);
  to->bytes = encode(txn, &to->len, key.len);
  if (key.len > 0) memcpy(to->bytes + to->len, key.data, key.len);
  to->key = (el_bytes){(const char *)to->bytes + to->len, key.len};
}

void el_packed_txn_free(el_packed_txn *packed) {
  free(packed->bytes);
  packed->bytes = NULL;
}

/* ---- answer ---- */

static void read_range(el_op_result *to, const Etcd__RangeResponse *from) {
  to->kind = EL_OP_RANGE;
  to->n_kvs = from->n_kvs;
  to->kvs = el_alloc(from->n_kvs * sizeof *to->kvs);
  to->more = from->more;
  for (size_t i = 0; i < from->n_kvs; i++) {
    const Etcd__KeyValue *kv = from->kvs[i];
    to->kvs[i] = (el_kv){.key = unpack_bytes(kv->key),
                         .value = unpack_bytes(kv->value),
                         .create_rev = kv->create_revision,
                         .mod_rev = kv->mod_revision,
                         .lease = kv->lease};
  }
}

static bool read_result(el_op_result *to, const Etcd__ResponseOp *from) {
  switch (from->response_case) {
    case ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE:
      read_range(to, from->response_range);
      return true;
    case ETCD__RESPONSE_OP__RESPONSE_RESPONSE_PUT:
      to->kind = EL_OP_PUT;
      return true;
    case ETCD__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE:
      to->kind = EL_OP_DELETE;
      to->deleted = from->response_delete_range->deleted;
      return true;
    case ETCD__RESPONSE_OP__RESPONSE_RESPONSE_TXN:
      to->kind = EL_OP_TXN;
      return true;
    default:
      return false;
  }
}

bool el_txn_answer_read(el_txn_answer *answer, size_t n_then,
                        size_t n_otherwise) {
  const Etcd__TxnResponse *from = answer->message;
  answer->succeeded = from->succeeded;
  if (from->n_responses != (from->succeeded ? n_then : n_otherwise)) {
    return false;
  }
  answer->results = el_alloc(from->n_responses * sizeof *answer->results);
  answer->n_results = from->n_responses;
  for (size_t i = 0; i < from->n_responses; i++) {
    if (!read_result(&answer->results[i], from->responses[i])) return false;
  }
  return true;
}

static bool read_message(el_txn_answer *answer, size_t n_then,
                         size_t n_otherwise) {
  const Etcd__TxnResponse *from = answer->message;
  if (from == NULL || from->header == NULL) return false;
  answer->rev = from->header->revision;
  answer->term = from->header->raft_term;
  answer->cluster_id = from->header->cluster_id;
  return el_txn_answer_read(answer, n_then, n_otherwise);
}

void el_txn_answer_free(el_txn_answer *answer) {
  for (size_t i = 0; i < answer->n_results; i++) {
    free(answer->results[i].kvs);
  }
  free(answer->results);
  if (answer->message != NULL) {
    etcd__txn_response__free_unpacked(answer->message, NULL);
  }
  free(answer);
}

/* ---- call ---- */

typedef struct txn_call {
  int64_t sent_ms;
  size_t n_then, n_otherwise;
  el_txn_done done;
  void *arg;
} txn_call;

static void on_txn_answer(void *arg, const el_rpc_answer *rpc_answer) {
  txn_call *call = arg;
  el_txn_answer *answer = el_alloc(sizeof *answer);
  answer->err = rpc_answer->err;
  answer->sent_ms = call->sent_ms;
  if (rpc_answer->err.code == EL_OK) {
    answer->message =
        etcd__txn_response__unpack(NULL, rpc_answer->len, rpc_answer->bytes);
    if (!read_message(answer, call->n_then, call->n_otherwise)) {
      el_error_set(&answer->err, EL_PROTOCOL,
                   "etcd %s: the answer to a Txn can't be read",
                   rpc_answer->from);
      answer->err.definite = false; /* whatever it is, it may have written */
    }
  }
  call->done(call->arg, answer);
  free(call);
}

void el_kv_send(el_auth *auth, const el_packed_txn *packed, int64_t timeout_ms,
                el_txn_done done, void *arg) {
  bool outlasts_silence =
      packed->patient && el_channel_count(el_auth_channel(auth)) == 1;
  txn_call *call = el_alloc(sizeof *call);
  *call = (txn_call){.sent_ms = el_now_ms(),
                     .n_then = packed->n_then,
                     .n_otherwise = packed->n_otherwise,
                     .done = done,
                     .arg = arg};
  el_auth_call(auth,
               &(el_rpc_request){.method = "/etcdserverpb.KV/Txn",
                                 .bytes = packed->bytes,
                                 .len = packed->len,
                                 .timeout_ms = timeout_ms,
                                 .outlasts_silence = outlasts_silence},
               on_txn_answer, call);
}
