/* clock: CLOCK_BOOTTIME, the clock of leases, holds and timers. */
#include "base/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "base/text.h"

/* Later than any time of CLOCK_BOOTTIME that a program waits for. */
#define FAR_FUTURE_US (INT64_MAX / 4)

/* The clock has failed once, perhaps in one thread only: from then on el_now_us does not use it. */
static atomic_bool has_failed;

static int64_t read_us(clockid_t clock) {
  struct timespec ts;
  if (clock_gettime(clock, &ts) != 0) return -1;
  return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

bool el_clock_works(el_error *err) {
  if (read_us(CLOCK_BOOTTIME) >= 0) return true;
  el_error_set(err, EL_INVALID,
               "this system does not have the clock that etcdlock needs, "
               "CLOCK_BOOTTIME: %s; some sandboxes lack it",
               el_errno_text(errno));
  return false;
}

int64_t el_now_us(void) {
  int64_t now_us = atomic_load_explicit(&has_failed, memory_order_relaxed)
                       ? -1
                       : read_us(CLOCK_BOOTTIME);
  if (now_us >= 0) return now_us;
  atomic_store(&has_failed, true);
  return FAR_FUTURE_US + read_us(CLOCK_MONOTONIC);
}

int64_t el_now_ms(void) { return el_now_us() / 1000; }
