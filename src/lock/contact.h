/* contact: whether a client can reach etcd: when etcd was reached last, why it was not reached
 * since, and when the next attempt leaves.
 *
 * Requests, grants, keepalives and lease audits report what they saw. After a failed attempt no
 * request leaves for a pause (el_pause_ms); then one request leaves, and the others wait for its
 * answer. Other calls and streams do not wait: they are few, and holds depend on most of them. */
#ifndef ETCDLOCK_LOCK_CONTACT_H
#define ETCDLOCK_LOCK_CONTACT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* el_contact is the contact of one client; embedded in el_shared. Only the I/O thread changes the
 * fields, and it reads them without the mutex. Times are el_now_ms. */
typedef struct el_contact {
  bool has_answered;  /* etcd has answered, perhaps that it has no leader */
  int64_t reached_ms; /* when etcd was reached last; 0: never */
  int n_failed;    /* failed attempts since then, at most one for each pause */
  int64_t next_ms; /* no request leaves before this */
  uint64_t salt;   /* varies the pauses */
  /* guards the next two fields; no other mutex is locked under it */
  pthread_mutex_t mu;
  int64_t
      failed_ms;  /* when the last attempt failed; 0: none since reached_ms */
  el_error error; /* why it has failed */
} el_contact;

/* el_contact_init prepares |contact|. @thread lua */
void el_contact_init(el_contact *contact);

/* el_contact_destroy frees what |contact| holds. @thread any */
void el_contact_destroy(el_contact *contact);

/* el_contact_reached records that etcd has just answered. @thread io @locks contact->mu */
void el_contact_reached(el_contact *contact);

/* el_contact_failed records that an attempt to reach etcd has just failed, with |err|. @thread io
 * @locks contact->mu */
void el_contact_failed(el_contact *contact, const el_error *err);

/* el_contact_is_lost tells whether the last attempt to reach etcd has failed; contact->error tells
 * why. @thread io */
bool el_contact_is_lost(const el_contact *contact);

/* el_contact_read returns when the last attempt to reach etcd has failed, and why in |err|. 0: none
 * has failed since etcd was last reached. @thread any @locks contact->mu */
int64_t el_contact_read(el_contact *contact, el_error *err);

#endif
