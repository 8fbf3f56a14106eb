/* owner: a request for a lock by one owner of a client, and what it is told. */
#ifndef ETCDLOCK_LOCK_OWNER_H
#define ETCDLOCK_LOCK_OWNER_H

#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/timer.h"
#include "lock/claim.h"
#include "rules/key.h"
#include "rules/local_queue.h"

typedef struct el_owner el_owner;

/* What an owner has when it holds. */
typedef struct el_grant {
  int64_t token;   /* create_revision of the key */
  int64_t mod_rev; /* of the key that the order of its writes hangs on */
  const el_keys *keys;
  el_claim *claim;
} el_grant;

/* What an owner is told, and asked. */
typedef struct el_owner_events {
  void (*granted)(el_owner *owner, const el_grant *grant);
  void (*failed)(el_owner *owner, const el_error *err);
  void (*lost)(el_owner *owner, el_loss loss);
  /* The key is deleted (EL_OK), was gone before, or etcd refuses to delete it. */
  void (*released)(el_owner *owner, const el_error *err);
  void (*forgotten)(el_owner *owner);         /* the last call */
  int64_t (*hard_end)(const el_owner *owner); /* of a hold; INT64_MAX: none */
  /* What others who get its key begin with (rules/write_order.h); -1: they must not. */
  int64_t (*mod_rev)(const el_owner *owner);
} el_owner_events;

/* A request for a lock: embedded in el_lock. */
struct el_owner {
  el_local_owner local; /* with the options that matter there */
  const el_owner_events *events;
  el_bytes name; /* its own, as long as it lives; EL_MODE_MULTI: the names, with
                     a NUL between one and the next */
  el_bytes value;      /* what its key says; until it holds */
  int64_t timeout_ms;  /* for messages */
  int64_t deadline_ms; /* INT64_MAX: none */
  uint8_t mode;        /* el_mode */
  uint16_t permits;    /* EL_MODE_PERMIT: of how many it wants one */

  /* The queue's own. */
  struct el_queue_driver *queue; /* NULL before it joins */
  el_timer timer; /* deadline while it waits, hard end while it holds */
};

#endif
