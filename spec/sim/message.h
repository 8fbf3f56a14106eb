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
  CALL_AUDIT,      /* lists the keys on the lease */
  CALL_CONTENTION, /* asks whether other keys wait for this key */
  CALL_WRITE,      /* a guarded write of a holder */
  CALL_TOUCH       /* the touch of the key before a guarded write */
} call_kind;

/* A write of a holder. */
typedef struct sim_write {
  enum {
    WRITE_DATA,     /* data that the lock protects */
    WRITE_OWN,      /* the hold's own key, as a leader does */
    WRITE_DOWNGRADE /* the downgrade marker */
  } what;
  uint32_t number;  /* later writes have larger numbers */
  int64_t until_ms; /* not sent later than this, by its peer's clock */
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
  int64_t rev;              /* create_revision of the key; 0: not known */
  int64_t ttl_ms;           /* CALL_GRANT */
  int caller;               /* CALL_WRITE, CALL_TOUCH: the writer */
  sim_write write;          /* CALL_WRITE, CALL_TOUCH: the write */
  /* CALL_WRITE, CALL_TOUCH: the write order of the hold */
  el_write_order order;
  int64_t sent_ms; /* by the sender's clock */
  bool mute;       /* its answer is not sent */
  /* number of the batch in which it leaves; 0: it leaves alone */
  uint32_t batch;
} call;

/* The answer to a call. |event| is set for all kinds of calls. |event.own| is the key that was
 * read, if that key exists. */
typedef struct reply {
  el_entry_event event;
  bool lease_gone;        /* the lease of a put does not exist */
  bool names_holder;      /* the answer names a key as the holder of the lock */
  bool is_holder_wrong;   /* that key does not hold the lock */
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
  int key_id;    /* the key that has changed */
  int64_t owner; /* the lease in that key */
  el_entry_event event;
} watch_message;

#endif
