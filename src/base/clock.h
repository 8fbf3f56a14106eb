/* clock: the one clock of etcdlock. */
#ifndef ETCDLOCK_BASE_CLOCK_H
#define ETCDLOCK_BASE_CLOCK_H

#include <stdint.h>

/* Milliseconds on CLOCK_BOOTTIME: monotonic, and it goes on while the machine
 * is suspended, so that a laptop that slept through its lease knows it.
 * @thread any */
int64_t el_now_ms(void);

/* The same in microseconds. @thread any */
int64_t el_now_us(void);

#endif
