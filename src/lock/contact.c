/* contact: whether a client can reach etcd. */
#include "lock/contact.h"

#include <limits.h>

#include "base/clock.h"
#include "base/jitter.h"
#include "base/random.h"

void el_contact_init(el_contact *contact) {
  pthread_mutex_init(&contact->mu, NULL);
  contact->salt = el_random();
}

void el_contact_destroy(el_contact *contact) {
  pthread_mutex_destroy(&contact->mu);
}

void el_contact_reached(el_contact *contact) {
  contact->has_answered = true;
  contact->reached_ms = el_now_ms();
  contact->next_ms = 0;
  contact->n_failed = 0;
  if (contact->failed_ms == 0) return;
  pthread_mutex_lock(&contact->mu);
  contact->failed_ms = 0;
  pthread_mutex_unlock(&contact->mu);
}

void el_contact_failed(el_contact *contact, const el_error *err) {
  int64_t now_ms = el_now_ms();
  pthread_mutex_lock(&contact->mu);
  contact->failed_ms = now_ms;
  contact->error = *err;
  pthread_mutex_unlock(&contact->mu);
  if (now_ms < contact->next_ms) return;
  if (contact->n_failed < INT_MAX) contact->n_failed++;
  contact->next_ms =
      now_ms + el_pause_ms(contact->n_failed, contact->salt, now_ms);
}

bool el_contact_is_lost(const el_contact *contact) {
  return contact->n_failed != 0;
}

int64_t el_contact_read(el_contact *contact, el_error *err) {
  int64_t failed_ms;
  pthread_mutex_lock(&contact->mu);
  *err = contact->error;
  failed_ms = contact->failed_ms;
  pthread_mutex_unlock(&contact->mu);
  return failed_ms;
}
