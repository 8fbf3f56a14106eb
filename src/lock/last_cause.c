/* last_cause: what stands in the way of proving that a lease lives. */
#include "lock/last_cause.h"

#include <string.h>

#include "base/clock.h"

void el_last_cause_init(el_last_cause *cause) {
  memset(cause, 0, sizeof *cause);
  pthread_mutex_init(&cause->mu, NULL);
}

void el_last_cause_destroy(el_last_cause *cause) {
  pthread_mutex_destroy(&cause->mu);
}

void el_last_cause_note(el_last_cause *cause, const el_error *err) {
  pthread_mutex_lock(&cause->mu);
  cause->now = *err;
  pthread_mutex_unlock(&cause->mu);
}

void el_last_cause_end(el_last_cause *cause) {
  pthread_mutex_lock(&cause->mu);
  cause->now.code = EL_OK;
  pthread_mutex_unlock(&cause->mu);
}

void el_last_cause_lapse(el_last_cause *cause) {
  pthread_mutex_lock(&cause->mu);
  cause->at_lapse = cause->now;
  cause->lapsed_ms = el_now_ms();
  pthread_mutex_unlock(&cause->mu);
}

void el_last_cause_read(el_last_cause *cause, int64_t ended_ms, el_error *err) {
  bool is_noted;
  pthread_mutex_lock(&cause->mu);
  is_noted = cause->lapsed_ms != 0 && cause->lapsed_ms >= ended_ms;
  *err = is_noted ? cause->at_lapse : cause->now;
  pthread_mutex_unlock(&cause->mu);
}
