/* outage: that etcd is known to be out of reach. */
#include "lock/outage.h"

#include <string.h>

#include "base/clock.h"

enum { KNOWN_MS = 2000 };

void el_outage_init(el_outage *outage) {
  memset(outage, 0, sizeof *outage);
  pthread_mutex_init(&outage->mu, NULL);
}

void el_outage_destroy(el_outage *outage) {
  pthread_mutex_destroy(&outage->mu);
}

void el_outage_note(el_outage *outage, int64_t found_ms, const el_error *err) {
  pthread_mutex_lock(&outage->mu);
  outage->found_ms = found_ms;
  if (found_ms != 0) {
    outage->why = *err;
  }
  pthread_mutex_unlock(&outage->mu);
}

bool el_outage_read(el_outage *outage, el_error *err) {
  bool is_known;
  pthread_mutex_lock(&outage->mu);
  is_known = outage->found_ms != 0 && el_now_ms() < outage->found_ms + KNOWN_MS;
  *err = outage->why;
  pthread_mutex_unlock(&outage->mu);
  return is_known;
}
