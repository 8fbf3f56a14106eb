/* maintenance: what a member says of itself. */
#ifndef ETCDLOCK_ETCD_MAINTENANCE_H
#define ETCDLOCK_ETCD_MAINTENANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "etcd/auth.h"

/* Valid during the callback only. */
typedef struct el_member_status {
  el_error err;    /* code EL_OK when the rest is filled */
  int64_t took_us; /* from the request to its answer */
  const char *version;
  uint64_t id, leader_id; /* leader_id 0: it knows of none */
  int64_t db_size, db_in_use;
  bool is_learner;
  const char *const
      *problems; /* alarms of any member, that there is no leader */
  size_t n_problems;
} el_member_status;

typedef void (*el_maintenance_done)(void *arg, const el_member_status *status);

/* Asks the |member|-th member, from 0, of the channel of |auth|. |done| is called
 * exactly once, and usually later: after a failure when it is known why, if
 * that can be found out. @thread io */
void el_maintenance_status(el_auth *auth, size_t member, int64_t timeout_ms,
                           el_maintenance_done done, void *arg);

#endif
