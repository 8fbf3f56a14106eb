/* clock: CLOCK_BOOTTIME, the clock of leases, holds and timers. */
#ifndef ETCDLOCK_BASE_CLOCK_H
#define ETCDLOCK_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* el_clock_works returns true if the clock can be read. Otherwise returns false and fills |err|:
 * some sandboxes do not have the clock. @thread any */
bool el_clock_works(el_error *err);

/* el_now_ms returns the milliseconds on CLOCK_BOOTTIME. This clock is monotonic, and also counts
 * the time while the machine is suspended. So after a suspension that is longer than a lease, the
 * lease counts as expired. If the clock cannot be read any more, el_now_ms returns
 * CLOCK_MONOTONIC plus an offset that is later than all deadlines, so holds and waits end.
 * @thread any */
int64_t el_now_ms(void);

/* el_now_us returns the same time in microseconds. @thread any */
int64_t el_now_us(void);

#endif
