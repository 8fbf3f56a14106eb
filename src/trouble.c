/* L0 trouble: what stands in the way of proving that a lease lives. */
#include "trouble.h"

#include <string.h>

void el_trouble_init(el_trouble *trouble) {
  memset(trouble, 0, sizeof *trouble);
  pthread_mutex_init(&trouble->mu, NULL);
}

void el_trouble_destroy(el_trouble *trouble) {
  pthread_mutex_destroy(&trouble->mu);
}

void el_trouble_note(el_trouble *trouble, const el_error *err) {
  pthread_mutex_lock(&trouble->mu);
  trouble->now = *err;
  pthread_mutex_unlock(&trouble->mu);
}

void el_trouble_end(el_trouble *trouble) {
  pthread_mutex_lock(&trouble->mu);
  trouble->now.code = EL_OK;
  pthread_mutex_unlock(&trouble->mu);
}

void el_trouble_lapse(el_trouble *trouble) {
  pthread_mutex_lock(&trouble->mu);
  trouble->at_lapse = trouble->now;
  pthread_mutex_unlock(&trouble->mu);
}

const el_error *el_trouble_now(const el_trouble *trouble) {
  return trouble->now.code != EL_OK ? &trouble->now : NULL;
}

void el_trouble_read(el_trouble *trouble, el_error *err) {
  pthread_mutex_lock(&trouble->mu);
  *err = trouble->now.code != EL_OK ? trouble->now : trouble->at_lapse;
  pthread_mutex_unlock(&trouble->mu);
}
