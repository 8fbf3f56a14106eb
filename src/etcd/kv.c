/* kv: sends transactions to etcd and decodes the answers. */
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

/* ---- encoding a request ---- */

/* An operation and the message that it points to. */
typedef struct packed_op {
  Etcd__RequestOp op;
  union {
    Etcd__RangeRequest range;
    Etcd__PutRequest put;
    Etcd__DeleteRangeRequest delete_range;
  } as;
} packed_op;

/* Fills all fields, also with 0 or false. protobuf then omits the field, and etcd uses 0 or false
 * for a field that is missing. */
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
      /* A touch keeps the value and the lease, and gives the key a new mod_revision. */
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
  } else if (compare->test == EL_LEASE_IS) {
    to->target = ETCD__COMPARE__COMPARE_TARGET__LEASE;
    to->target_union_case = ETCD__COMPARE__TARGET_UNION_LEASE;
    to->lease = compare->rev;
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

/* Returns the encoded |txn|, which has |*len| bytes, with room for |more| bytes after it. (The
 * arrays of pointers are needed, because protobuf-c takes no arrays of structs.) */
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

/* A flag in the kind of a range that reads one key. Its result must have at most one key. */
enum { ONE_KEY = 0x80 };

static void write_kinds(uint8_t *to, const el_op *ops, size_t n) {
  for (size_t i = 0; i < n; i++) {
    bool is_one = ops[i].kind == EL_OP_RANGE && ops[i].range_end.len == 0;
    to[i] = (uint8_t)(ops[i].kind | (is_one ? ONE_KEY : 0));
  }
}

/* Clears to->is_read and to->is_serializable if |ops| require it. The rules are etcd's
 * (v3_server.go, isTxnReadonly and isTxnSerializable). */
static void classify(el_packed_txn *to, const el_op *ops, size_t n) {
  for (size_t i = 0; i < n; i++) {
    to->is_read = to->is_read && ops[i].kind == EL_OP_RANGE;
    to->is_serializable =
        to->is_serializable && to->is_read && ops[i].serializable;
  }
}

static el_bytes first_key(const el_txn *txn) {
  if (txn->n_then > 0) return txn->then[0].key;
  return txn->n_compares > 0 ? txn->compares[0].key : (el_bytes){0};
}

void el_kv_pack(el_packed_txn *to, const el_txn *txn) {
  el_bytes key = first_key(txn);
  uint8_t *kinds;
  *to = (el_packed_txn){.n_compares = txn->n_compares,
                        .is_read = true,
                        .is_serializable = txn->n_then > 0};
  classify(to, txn->then, txn->n_then);
  classify(to, txn->otherwise, txn->n_otherwise);
  to->bytes = encode(txn, &to->len, key.len + txn->n_then + txn->n_otherwise);
  if (key.len > 0) memcpy(to->bytes + to->len, key.data, key.len);
  to->key = (el_bytes){(const char *)to->bytes + to->len, key.len};
  kinds = to->bytes + to->len + key.len;
  write_kinds(kinds, txn->then, txn->n_then);
  write_kinds(kinds + txn->n_then, txn->otherwise, txn->n_otherwise);
  to->shape = (el_txn_shape){kinds, txn->n_then, txn->n_otherwise,
                             txn->n_compares == 0};
}

void el_packed_txn_free(el_packed_txn *packed) {
  free(packed->bytes);
  packed->bytes = NULL;
}

/* ---- reading an answer ---- */

static void read_range(el_op_result *to, const Etcd__RangeResponse *from) {
  to->n_kvs = from->n_kvs;
  to->kvs = el_alloc(from->n_kvs * sizeof *to->kvs);
  to->more = from->more;
  to->count = from->count;
  for (size_t i = 0; i < from->n_kvs; i++) {
    const Etcd__KeyValue *kv = from->kvs[i];
    to->kvs[i] = (el_kv){.key = unpack_bytes(kv->key),
                         .value = unpack_bytes(kv->value),
                         .create_rev = kv->create_revision,
                         .mod_rev = kv->mod_revision,
                         .lease = kv->lease};
  }
}

/* Returns the kind of the operation to which |op| is the answer, or -1 if |op| is no answer. */
static int kind_of(const Etcd__ResponseOp *op) {
  switch (op->response_case) {
    case ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE:
      return EL_OP_RANGE;
    case ETCD__RESPONSE_OP__RESPONSE_RESPONSE_PUT:
      return EL_OP_PUT;
    case ETCD__RESPONSE_OP__RESPONSE_RESPONSE_DELETE_RANGE:
      return EL_OP_DELETE;
    case ETCD__RESPONSE_OP__RESPONSE_RESPONSE_TXN:
      return EL_OP_TXN;
    default:
      return -1;
  }
}

/* Returns whether |op| is an answer to an operation of |kind|. */
static bool op_fits(const Etcd__ResponseOp *op, uint8_t kind) {
  const Etcd__RangeResponse *range;
  if (kind_of(op) != (kind & ~ONE_KEY)) return false;
  if ((kind & ~ONE_KEY) != EL_OP_RANGE) return true;
  range = op->response_range;
  if (range->n_kvs > 1 && kind & ONE_KEY) return false;
  for (size_t i = 0; i < range->n_kvs; i++) {
    const Etcd__KeyValue *kv = range->kvs[i];
    if (kv->create_revision == 0 || !el_is_revision(kv->create_revision) ||
        !el_is_revision(kv->mod_revision) || kv->key.len == 0) {
      return false;
    }
  }
  return true;
}

/* Returns whether |message| is an answer that etcd can give to a transaction of |shape|. */
static bool fits(const Etcd__TxnResponse *message, const el_txn_shape *shape) {
  bool then = message->succeeded;
  const uint8_t *kinds = shape->kinds + (then ? 0 : shape->n_then);
  if (!then && shape->is_plain) return false;
  if (message->n_responses != (then ? shape->n_then : shape->n_otherwise)) {
    return false;
  }
  for (size_t i = 0; i < message->n_responses; i++) {
    if (!op_fits(message->responses[i], kinds[i])) return false;
  }
  return true;
}

static void read_result(el_op_result *to, const Etcd__ResponseOp *from) {
  to->kind = kind_of(from);
  if (to->kind == EL_OP_RANGE) {
    read_range(to, from->response_range);
  } else if (to->kind == EL_OP_DELETE) {
    to->deleted = from->response_delete_range->deleted;
  }
}

bool el_txn_answer_read(el_txn_answer *answer, const el_txn_shape *shape) {
  const Etcd__TxnResponse *from = answer->message;
  if (!fits(from, shape)) return false;
  answer->succeeded = from->succeeded;
  answer->results = el_alloc(from->n_responses * sizeof *answer->results);
  answer->n_results = from->n_responses;
  for (size_t i = 0; i < from->n_responses; i++) {
    read_result(&answer->results[i], from->responses[i]);
  }
  return true;
}

/* ---- limiting the depth of an answer ---- */

/* protobuf-c decodes nested messages by recursion, so an answer with thousands of nested
 * TxnResponses would overflow the stack. So the depth of an answer is checked before protobuf-c
 * decodes the answer. */

/* Field numbers of etcd.proto. */
enum { TXN_RESPONSE_RESPONSES = 3, RESPONSE_OP_RESPONSE_TXN = 4 };

/* The wire type, in the lower 3 bits of a tag, is the encoding of the value. */
enum { WIRE_VARINT = 0, WIRE_64_BITS = 1, WIRE_BYTES = 2, WIRE_32_BITS = 5 };

/* The largest number of bytes that protobuf-c accepts for a tag or a length, and for a number. */
enum { TAG_BYTES_MAX = 5, VARINT_BYTES_MAX = 10 };

typedef struct span {
  const uint8_t *at;
  size_t len;
} span;

typedef struct field {
  uint32_t number;
  int wire;
  span content; /* the value, if |wire| is WIRE_BYTES */
} field;

static bool take_varint(span *from, size_t most, uint64_t *value) {
  *value = 0;
  for (size_t i = 0; i < most && i < from->len; i++) {
    *value |= (uint64_t)(from->at[i] & 0x7f) << (7 * i);
    if (from->at[i] < 0x80) {
      from->at += i + 1;
      from->len -= i + 1;
      return true;
    }
  }
  return false;
}

static bool take_bytes(span *from, uint64_t len, span *content) {
  if (len > from->len) return false;
  *content = (span){from->at, (size_t)len};
  from->at += len;
  from->len -= (size_t)len;
  return true;
}

/* Takes the next field off |from|. Returns false if the field is malformed. It must not accept a
 * field that protobuf-c would read differently. Otherwise the check and protobuf-c would disagree
 * about where a level begins. */
static bool take_field(span *from, field *to) {
  /* the value of a number, which is not used, or the length of the value */
  uint64_t tag, value;
  if (!take_varint(from, TAG_BYTES_MAX, &tag)) return false;
  to->number = (uint32_t)(tag >> 3);
  to->wire = (int)(tag & 7);
  switch (to->wire) {
    case WIRE_VARINT:
      return take_varint(from, VARINT_BYTES_MAX, &value);
    case WIRE_64_BITS:
      return take_bytes(from, 8, &to->content);
    case WIRE_BYTES:
      return take_varint(from, TAG_BYTES_MAX, &value) &&
             take_bytes(from, value, &to->content);
    case WIRE_32_BITS:
      return take_bytes(from, 4, &to->content);
    default:
      return false;
  }
}

/* Returns whether |message| is a well-formed TxnResponse with at most |levels| levels of
 * TxnResponses, |message| included. It looks only into the fields that may contain another level.
 * The recursion ends after |levels| levels, whatever |message| contains. */
static bool is_within(span message, int levels);

static bool is_op_within(span op, int levels) {
  field it;
  while (op.len > 0) {
    if (!take_field(&op, &it)) return false;
    if (it.number == RESPONSE_OP_RESPONSE_TXN && it.wire == WIRE_BYTES &&
        !is_within(it.content, levels - 1)) {
      return false;
    }
  }
  return true;
}

static bool is_within(span message, int levels) {
  field it;
  if (levels == 0) return false;
  while (message.len > 0) {
    if (!take_field(&message, &it)) return false;
    if (it.number == TXN_RESPONSE_RESPONSES && it.wire == WIRE_BYTES &&
        !is_op_within(it.content, levels)) {
      return false;
    }
  }
  return true;
}

/* ---- decoding an answer ---- */

/* The answer to a batch is one level, and the answers to its members are the second. Members
 * contain no transactions. */
enum { LEVELS_MAX = 2 };

static bool read_message(el_txn_answer *answer,
                         const el_call_answer *rpc_answer,
                         const el_txn_shape *shape) {
  const Etcd__TxnResponse *from;
  if (!is_within((span){rpc_answer->bytes, rpc_answer->len}, LEVELS_MAX)) {
    return false;
  }
  from = answer->message =
      etcd__txn_response__unpack(NULL, rpc_answer->len, rpc_answer->bytes);
  if (from == NULL || from->header == NULL || from->header->revision == 0 ||
      !el_is_revision(from->header->revision) ||
      from->header->cluster_id == 0 || from->header->member_id == 0 ||
      from->header->raft_term == 0 || !el_txn_answer_read(answer, shape)) {
    return false;
  }
  answer->rev = from->header->revision;
  answer->term = from->header->raft_term;
  answer->cluster_id = from->header->cluster_id;
  answer->member_id = from->header->member_id;
  return true;
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

/* ---- the call ---- */

typedef struct txn_call {
  el_auth *auth;
  int64_t sent_ms;
  el_txn_shape shape; /* its kinds are in |kinds| below */
  bool is_read;
  el_txn_done done;
  void *arg;
  uint8_t kinds[];
} txn_call;

static void on_txn_answer(void *arg, const el_call_answer *rpc_answer) {
  txn_call *call = arg;
  el_txn_answer *answer = el_alloc(sizeof *answer);
  answer->err = rpc_answer->err;
  el_auth_name_user(call->auth, &answer->err);
  answer->sent_ms = call->sent_ms;
  if (rpc_answer->err.code == EL_OK &&
      !read_message(answer, rpc_answer, &call->shape)) {
    el_error_set(&answer->err, EL_PROTOCOL,
                 "etcd %s: the answer to a Txn cannot be read",
                 rpc_answer->from);
    answer->err.is_definite = false; /* the transaction may have been applied */
  }
  /* This failure of a read is definite, because a read changes nothing. So if the answer to a batch
   * of reads is too large, the reads can be sent again one by one. */
  if (call->is_read && answer->err.code == EL_INVALID) {
    answer->err.is_definite = true;
  }
  call->done(call->arg, answer);
  free(call);
}

void el_kv_send(el_auth *auth, const el_packed_txn *packed, int64_t timeout_ms,
                el_txn_done done, void *arg) {
  bool may_be_slow =
      packed->may_be_slow && el_channel_count(el_auth_channel(auth)) == 1;
  size_t n_kinds = packed->shape.n_then + packed->shape.n_otherwise;
  txn_call *call = el_alloc(sizeof *call + n_kinds);
  call->auth = auth;
  call->sent_ms = el_now_ms();
  call->shape = packed->shape;
  call->shape.kinds = call->kinds;
  call->is_read = packed->is_read;
  if (n_kinds > 0) memcpy(call->kinds, packed->shape.kinds, n_kinds);
  call->done = done;
  call->arg = arg;
  el_auth_call(auth,
               &(el_call_request){.method = "/etcdserverpb.KV/Txn",
                                  .bytes = packed->bytes,
                                  .len = packed->len,
                                  .timeout_ms = timeout_ms,
                                  .pinned_member = packed->pinned_member,
                                  .may_be_slow = may_be_slow},
               on_txn_answer, call);
}
