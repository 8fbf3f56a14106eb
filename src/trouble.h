/* L0 trouble: what stands in the way of proving that a lease lives, told from
 * the I/O thread to those who ask why a lock was lost.
 */
#ifndef ETCDLOCK_TROUBLE_H
#define ETCDLOCK_TROUBLE_H

#include <pthread.h>

#include "error.h"

typedef struct el_trouble {
  pthread_mutex_t mu; /* guards the rest; a leaf */
  el_error now;       /* code EL_OK: none */
  el_error at_lapse;  /* when a claim lapsed for the last time */
} el_trouble;

/* @thread any */
void el_trouble_init(el_trouble *trouble);

/* @thread any */
void el_trouble_destroy(el_trouble *trouble);

/* A keepalive or a proof has failed for |err|. @thread io */
void el_trouble_note(el_trouble *trouble, const el_error *err);

/* A proof has come. @thread io */
void el_trouble_end(el_trouble *trouble);

/* It has cost us a claim. @thread io */
void el_trouble_lapse(el_trouble *trouble);

/* What it is, NULL if there is none. @thread io */
const el_error *el_trouble_now(const el_trouble *trouble);

/* What it is, or what it was when the last claim lapsed. @thread any */
void el_trouble_read(el_trouble *trouble, el_error *err);

#endif
