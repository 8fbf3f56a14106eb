/* clock: the only clock that etcdlock uses. */
#ifndef ETCDLOCK_BASE_CLOCK_H
#define ETCDLOCK_BASE_CLOCK_H

#include <stdint.h>

/* el_now_ms returns the milliseconds on CLOCK_BOOTTIME. This clock is monotonic, and also counts
 * the time while the machine is suspended. So after a suspension that is longer than a lease, the
 * lease counts as expired. @thread any */
int64_t el_now_ms(void);

/* el_now_us returns the microseconds on CLOCK_BOOTTIME. @thread any */
int64_t el_now_us(void);

#endif
