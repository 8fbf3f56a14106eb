/* sim message: what travels between a peer and the store. */
#ifndef SIM_MESSAGE_H
#define SIM_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/entry.h"
#include "rules/recipe.h"

typedef enum call_kind {
  CALL_ENTRY, /* what an entry asks: enqueue, try, look, delete */
  CALL_PROBE, /* a linearizable read of one key */
  CALL_GRANT,
  CALL_REVOKE,
  CALL_KEEPALIVE,
  CALL_AUDIT,  /* which of our keys hang on the lease? */
  CALL_CENSUS, /* who is behind our key? */
  CALL_WRITE,  /* what a holder writes */
  CALL_TOUCH   /* and what comes before that */
} call_kind;

/* A write of a holder. */
typedef struct sim_write {
  enum {
    WRITE_DATA,     /* what the lock protects */
    WRITE_OWN,      /* his own key, as a leader does */
    WRITE_DOWNGRADE /* his key is a reader's from now on */
  } what;
  uint32_t number;  /* those that are wanted later have larger ones */
  int64_t until_ms; /* it isn't sent any more; by its holder's clock */
} sim_write;

enum { AUDIT_MAX = 64 };

/* A request. Whoever sent it remembers |id| for as long as it is awaited. */
typedef struct call {
  call_kind kind;
  uint32_t id;
  int peer, session, entry; /* who asks */
  int key_id;               /* about which place */
  int64_t lease;            /* and which lease */
  el_entry_action ask;      /* CALL_ENTRY */
  int64_t rev;              /* of our key, if known */
  int64_t ttl_ms;           /* CALL_GRANT */
  int caller;               /* CALL_WRITE, CALL_TOUCH: whose ... */
  sim_write write;          /* ... and what */
  el_write_order order;     /* in this */
  int64_t sent_ms;          /* by its sender's clock */
  bool mute;                /* its answer will not be heard */
  uint32_t batch; /* it travels with those of the same number; 0: alone */
} call;

/* Its answer. The parts that an entry knows are used for all kinds; |mine| is
 * the probed key, if it was there. */
typedef struct reply {
  el_entry_event event;
  bool lease_gone;        /* a put was told so */
  int64_t ttl_ms;         /* grant, keepalive */
  int key_ids[AUDIT_MAX]; /* audit: those whose keys are there */
  int n_key_ids;
  el_behind behind;       /* census */
  el_write_event written; /* write, touch */
} reply;

/* What comes on the watch stream. */
typedef struct watch_message {
  int entry;
  uint32_t watch;
  int key_id;    /* what has changed: that key ... */
  int64_t owner; /* ... of this lease */
  el_entry_event event;
} watch_message;

#endif
