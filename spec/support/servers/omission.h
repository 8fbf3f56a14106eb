/* omission: removes a field from an encoded protobuf message, as if the server had omitted it. */
#ifndef OMISSION_H
#define OMISSION_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Reads the varint at |*at|, which must be well-formed, and moves |*at| behind it. */
static inline uint64_t omission_read_varint(const uint8_t **at) {
  uint64_t number = 0;
  int shift = 0;
  for (;; shift += 7) {
    uint8_t byte = *(*at)++;
    number |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
}

static inline size_t omission_write_varint(uint8_t *to, uint64_t number) {
  size_t len = 0;
  for (; number >= 0x80; number >>= 7) {
    to[len++] = (uint8_t)(number | 0x80);
  }
  to[len++] = (uint8_t)number;
  return len;
}

/* Copies the message |from| of |len| bytes to |to|, without one field. |path| has the numbers of the
 * fields from the outermost message to the removed field, and ends with 0. If one of them occurs
 * several times, the field is removed from all; if |which| is not 0, only from that occurrence of the
 * outermost one. |to| has room for |len| bytes. Returns the number of bytes written. */
static inline size_t omission_copy_without(uint8_t *to, const uint8_t *from,
                                           size_t len, const int *path,
                                           int which) {
  const uint8_t *end = from + len;
  uint8_t *out = to;
  int seen = 0;
  while (from < end) {
    const uint8_t *start = from;
    uint64_t tag = omission_read_varint(&from), size = 0;
    int wire = (int)(tag & 7);
    if (wire == 0) omission_read_varint(&from);
    if (wire == 2) size = omission_read_varint(&from);
    if (wire == 1) size = 8;
    if (wire == 5) size = 4;
    if ((int)(tag >> 3) == path[0]) seen++;
    if ((int)(tag >> 3) != path[0] || (which != 0 && which != seen)) {
      memcpy(out, start, (size_t)(from - start) + size);
      out += (size_t)(from - start) + size;
    } else if (path[1] != 0 && wire == 2) {
      uint8_t *inner = malloc(size + 1);
      size_t left = omission_copy_without(inner, from, size, path + 1, 0);
      out += omission_write_varint(out, tag);
      out += omission_write_varint(out, left);
      memcpy(out, inner, left);
      out += left;
      free(inner);
    }
    from += size;
  }
  return (size_t)(out - to);
}

#endif
