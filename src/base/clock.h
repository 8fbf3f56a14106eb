/* clock: the only clock that etcdlock uses. */
#ifndef ETCDLOCK_BASE_CLOCK_H
#define ETCDLOCK_BASE_CLOCK_H

#include <stdint.h>

/* el_now_ms returns the milliseconds on CLOCK_BOOTTIME. This clock is monotonic
 * and also counts while the machine is suspended: after a suspend that outlasts
 * a lease, the lease counts as expired. @thread any */
int64_t el_now_ms(void);

/* el_now_us returns the microseconds on the same clock. @thread any */
int64_t el_now_us(void);

#endif
