/* clock: the only clock that etcdlock uses. */
#include "base/clock.h"

#include <time.h>

int64_t el_now_us(void) {
  struct timespec ts;
  clock_gettime(CLOCK_BOOTTIME, &ts);
  return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t el_now_ms(void) { return el_now_us() / 1000; }
