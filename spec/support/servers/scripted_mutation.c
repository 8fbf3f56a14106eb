/* Random changes of the messages of etcd. */
#include "scripted_mutation.h"

#include <grpc/byte_buffer_reader.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 16, CHANGES_MAX = 3 };

static uint64_t state = 1;
static int share, mutated;

/* Earlier messages, before their changes. */
static struct {
  const char *kind;
  grpc_slice bytes;
} kept[KEPT];
static size_t n_kept;

void scripted_mutate(unsigned long seed, int percent) {
  state = seed * 2 + 1;
  share = percent;
}

int scripted_count_mutated(void) { return mutated; }

/* Returns a random number below |bound|, by xorshift. Returns 0 if |bound| is 0. */
static size_t below(size_t bound) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return bound > 0 ? (size_t)(state >> 16) % bound : 0;
}

static grpc_slice copy(const uint8_t *bytes, size_t len) {
  return grpc_slice_from_copied_buffer((const char *)bytes, len);
}

/* Takes ownership of |slice|. Returns a slice in which the |len| bytes at |at| occur |times| times:
 * 0 removes them, 2 doubles them. */
static grpc_slice cut_or_double(grpc_slice slice, size_t at, size_t len,
                                int times) {
  const uint8_t *from = GRPC_SLICE_START_PTR(slice);
  size_t size = GRPC_SLICE_LENGTH(slice);
  grpc_slice to = grpc_slice_malloc(size - len + (size_t)times * len);
  uint8_t *out = GRPC_SLICE_START_PTR(to);
  memcpy(out, from, at);
  for (out += at; times > 0; times--, out += len) {
    memcpy(out, from + at, len);
  }
  memcpy(out, from + at + len, size - at - len);
  grpc_slice_unref(slice);
  return to;
}

/* Takes ownership of |slice|. Returns it with one random change. Some changes write small numbers
 * or the limits of a byte, because readers often fail at these values. */
static grpc_slice change(grpc_slice slice) {
  static const uint8_t ends[] = {0, 1, 2, 0x7f, 0x80, 0xff};
  size_t size = GRPC_SLICE_LENGTH(slice);
  size_t at = below(size), len = 1 + below(size - at < 16 ? size - at : 16);
  if (size == 0) return slice;
  switch (below(6)) {
    case 0:
      GRPC_SLICE_START_PTR(slice)[at] = (uint8_t)below(256);
      return slice;
    case 1:
      GRPC_SLICE_START_PTR(slice)[at] = ends[below(sizeof ends)];
      return slice;
    case 2:
      GRPC_SLICE_START_PTR(slice)[at] ^= (uint8_t)(1u << below(8));
      return slice;
    case 3:
      return cut_or_double(slice, at, size - at, 0);
    default:
      if (len > size - at) len = size - at;
      return cut_or_double(slice, at, len, below(2) ? 0 : 2);
  }
}

/* Takes ownership of |slice|. Returns an earlier message of |kind|, or |slice| if there is none. */
static grpc_slice exchange(grpc_slice slice, const char *kind) {
  size_t first = below(KEPT);
  for (size_t i = 0; i < KEPT; i++) {
    size_t at = (first + i) % KEPT;
    if (at >= n_kept || strcmp(kept[at].kind, kind) != 0) continue;
    grpc_slice_unref(slice);
    return copy(GRPC_SLICE_START_PTR(kept[at].bytes),
                GRPC_SLICE_LENGTH(kept[at].bytes));
  }
  return slice;
}

static void keep(grpc_slice slice, const char *kind) {
  size_t at = n_kept < KEPT ? n_kept++ : below(KEPT);
  if (kept[at].kind != NULL) grpc_slice_unref(kept[at].bytes);
  kept[at].kind = kind;
  kept[at].bytes = copy(GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
}

/* Returns all bytes of |message|, and destroys |message|. */
static grpc_slice bytes_of(grpc_byte_buffer *message) {
  grpc_byte_buffer_reader reader;
  grpc_slice all, bytes;
  grpc_byte_buffer_reader_init(&reader, message);
  all = grpc_byte_buffer_reader_readall(&reader);
  bytes = copy(GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all));
  grpc_slice_unref(all);
  grpc_byte_buffer_reader_destroy(&reader);
  grpc_byte_buffer_destroy(message);
  return bytes;
}

grpc_byte_buffer *scripted_mutation(grpc_byte_buffer *message,
                                    const char *kind) {
  grpc_slice bytes;
  if (share == 0) return message;
  bytes = bytes_of(message);
  keep(bytes, kind);
  if (below(100) < (size_t)share) {
    mutated++;
    if (below(4) == 0) bytes = exchange(bytes, kind);
    for (size_t n = below(1 + CHANGES_MAX); n > 0; n--) {
      bytes = change(bytes);
    }
  }
  message = grpc_raw_byte_buffer_create(&bytes, 1);
  grpc_slice_unref(bytes);
  return message;
}
