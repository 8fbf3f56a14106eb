/* nesting: limits how deep the answer to a transaction is nested. */
#include "etcd/nesting.h"

/* Field numbers of etcd.proto. */
enum { TXN_RESPONSE_RESPONSES = 3, RESPONSE_OP_RESPONSE_TXN = 4 };

/* The wire type, in the low 3 bits of a tag, tells how the value is encoded. */
enum { WIRE_VARINT = 0, WIRE_64_BITS = 1, WIRE_BYTES = 2, WIRE_32_BITS = 5 };

/* protobuf-c accepts at most so many bytes for a tag or a length, and for a number. */
enum { TAG_BYTES_MAX = 5, VARINT_BYTES_MAX = 10 };

typedef struct span {
  const uint8_t *at;
  size_t len;
} span;

typedef struct field {
  uint32_t number;
  int wire;
  span content; /* WIRE_BYTES */
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

/* Takes the next field off |from|. Accepts nothing that protobuf-c would read in
 * another way, else the two would disagree about where a level begins. */
static bool take_field(span *from, field *to) {
  uint64_t tag, value; /* of a number, which is skipped, or a length */
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

/* The recursion ends after |levels|, whatever the message holds. */
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

bool el_nesting_is_within(const uint8_t *bytes, size_t len, int levels) {
  return is_within((span){bytes, len}, levels);
}
