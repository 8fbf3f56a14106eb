/* last_cause: what stands in the way of proving that a lease lives, told from
 * the I/O thread to those who ask why a lock was lost.
 */
#ifndef ETCDLOCK_LOCK_LAST_CAUSE_H
#define ETCDLOCK_LOCK_LAST_CAUSE_H

#include <pthread.h>

#include "base/error.h"

typedef struct el_last_cause {
  pthread_mutex_t mu; /* guards the rest; a leaf */
  el_error now;       /* code EL_OK: none */
  el_error at_lapse;  /* when a claim lapsed for the last time */
  int64_t lapsed_ms;  /* when that was noted; 0: never */
} el_last_cause;

/* @thread any */
void el_last_cause_init(el_last_cause *cause);

/* @thread any */
void el_last_cause_destroy(el_last_cause *cause);

/* A keepalive or a proof has failed for |err|. @thread io */
void el_last_cause_note(el_last_cause *cause, const el_error *err);

/* A proof has come. @thread io */
void el_last_cause_end(el_last_cause *cause);

/* It has cost us a claim. @thread io */
void el_last_cause_lapse(el_last_cause *cause);

/* What it was when the last claim lapsed. If one has ended at |ended_ms| (0: none), and
 * that isn't noted yet, or none has ever lapsed, what it is. @thread any */
void el_last_cause_read(el_last_cause *cause, int64_t ended_ms, el_error *err);

#endif
