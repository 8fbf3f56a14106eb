/* maintenance: the Status call, which returns the state of one member. */
#ifndef ETCDLOCK_ETCD_MAINTENANCE_H
#define ETCDLOCK_ETCD_MAINTENANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "etcd/auth.h"

/* el_member_status is the answer to Status. It is valid during the callback only. */
typedef struct el_member_status {
  el_error err;    /* code EL_OK: the rest is filled */
  int64_t took_us; /* from the request to the answer, in microseconds */
  const char *version;
  uint64_t id, leader_id;     /* leader_id 0: the member knows no leader */
  int64_t db_size, db_in_use; /* bytes */
  bool is_learner;
  const char *const *problems; /* alarms of all members, and "no leader" */
  size_t n_problems;
} el_member_status;

/* el_maintenance_done receives the answer. */
typedef void (*el_maintenance_done)(void *arg, const el_member_status *status);

/* el_maintenance_status sends Status to |member| (from 0) of the channel of |auth|. |done| is
 * called exactly once, later. If the connection fails while a diagnosis of the member is under way,
 * |done| is called when the diagnosis has ended, with the cause if it has found one. @thread io */
void el_maintenance_status(el_auth *auth, size_t member, int64_t timeout_ms,
                           el_maintenance_done done, void *arg);

#endif
