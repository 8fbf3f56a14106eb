/* sim message: requests, answers and watch messages between a peer and the store. */
#ifndef SIM_MESSAGE_H
#define SIM_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/entry.h"
#include "protocol/lock_txn.h"

typedef enum call_kind {
  CALL_ENTRY,    /* a request of an entry: enqueue, try, read, delete */
  CALL_READ_KEY, /* a linearizable read of one key */
  CALL_GRANT,
  CALL_REVOKE,
  CALL_KEEPALIVE,
  CALL_AUDIT,      /* which of our keys are attached to the lease? */
  CALL_CONTENTION, /* do keys wait for ours? */
  CALL_WRITE,      /* a guarded write of a holder */
  CALL_TOUCH       /* the touch before it */
} call_kind;

/* A write of a holder. */
typedef struct sim_write {
  enum {
    WRITE_DATA,     /* data that the lock protects */
    WRITE_OWN,      /* the hold's own key, as a leader does */
    WRITE_DOWNGRADE /* the downgrade marker */
  } what;
  uint32_t number;  /* later writes have larger numbers */
  int64_t until_ms; /* not sent after this, by its holder's clock */
} sim_write;

enum { AUDIT_MAX = 64 };

/* A request. The sender keeps |id| while the answer is awaited. */
typedef struct call {
  call_kind kind;
  uint32_t id;
  int peer, session, entry; /* the sender */
  int key_id;               /* the key */
  int64_t lease;            /* the lease */
  el_entry_action ask;      /* CALL_ENTRY */
  int64_t rev;              /* of our key, if known */
  int64_t ttl_ms;           /* CALL_GRANT */
  int caller;               /* CALL_WRITE, CALL_TOUCH: the writer ... */
  sim_write write;          /* ... its write ... */
  el_write_order order;     /* ... and their order */
  int64_t sent_ms;          /* by the sender's clock */
  bool mute;                /* its answer is ignored */
  uint32_t batch;           /* requests with one number leave in one batch;
                               0: alone */
} call;

/* The answer. |event| is used for all kinds; its |own| is the key that was read, if it exists. */
typedef struct reply {
  el_entry_event event;
  bool lease_gone;        /* the lease of a put does not exist */
  bool names_holder;      /* a read has told the holder of the lock ... */
  bool is_holder_wrong;   /* ... but that key does not hold it */
  int64_t ttl_ms;         /* grant, keepalive */
  int key_ids[AUDIT_MAX]; /* audit: the keys of the lease */
  int n_key_ids;
  el_contention contention; /* contention query */
  el_write_event written;   /* write, touch */
} reply;

/* A message of the watch stream. */
typedef struct watch_message {
  int entry;
  uint32_t watch;
  int key_id;    /* the key that has changed ... */
  int64_t owner; /* ... and the lease in it */
  el_entry_event event;
} watch_message;

#endif
