/* outage: that etcd is known to be out of reach, told from the I/O thread to those
 * who would rather not ask then.
 *
 * Only an attempt can find out that it is over, so what is known of it ages: a while
 * after the last one nothing is.
 */
#ifndef ETCDLOCK_LOCK_OUTAGE_H
#define ETCDLOCK_LOCK_OUTAGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct el_outage {
  pthread_mutex_t mu; /* guards the rest; a leaf */
  int64_t found_ms;   /* when an attempt found it last; 0: it is over */
  el_error why;
} el_outage;

/* @thread any */
void el_outage_init(el_outage *outage);

/* @thread any */
void el_outage_destroy(el_outage *outage);

/* An attempt has ended with |err|, at |found_ms|; 0: etcd was heard. @thread io */
void el_outage_note(el_outage *outage, int64_t found_ms, const el_error *err);

/* Is etcd known to be out of reach? Then |err| says why. @thread any */
bool el_outage_read(el_outage *outage, el_error *err);

#endif
