/* delay: how a lease's id tells that nobody follows its holders at once if they crash. */
#include "rules/delay.h"

enum {
  MARK = 0x5de1,
  MARK_SHIFT = 47,
  TENTHS_SHIFT = 35,
  TENTHS_MAX = 0xfff,
  TENTH_MS = 100,
  ROUNDING_MS = 1000
};

int64_t el_delay_mark(int64_t id, int64_t delay_ms) {
  int64_t tenths = (delay_ms + TENTH_MS - 1) / TENTH_MS;
  int64_t random = id & (((int64_t)1 << TENTHS_SHIFT) - 1);
  if (delay_ms == 0) return id;
  if (tenths > TENTHS_MAX) tenths = TENTHS_MAX;
  return (int64_t)MARK << MARK_SHIFT | tenths << TENTHS_SHIFT | random;
}

int64_t el_delay_of(int64_t lease) {
  return lease >> MARK_SHIFT == MARK
             ? (lease >> TENTHS_SHIFT & TENTHS_MAX) * TENTH_MS
             : 0;
}

/* While he may claim, there is more than the delay left. */
int64_t el_delay_left(int64_t lease, int64_t left_ms) {
  int64_t most_ms = left_ms + ROUNDING_MS;
  return most_ms <= el_delay_of(lease) ? most_ms : 0;
}
