/* sim figures: counts over all histories. */
#ifndef SIM_FIGURES_H
#define SIM_FIGURES_H

#include <stdint.h>

enum { FIGURE_LOSSES = 8 }; /* as many as el_loss has values */

typedef enum fault {
  FAULT_LOST,         /* a request never arrived */
  FAULT_ANSWER_LOST,  /* a request was applied; its answer was lost */
  FAULT_LATE,         /* a request was applied after its timeout */
  FAULT_ANSWER_LATE,  /* an answer was slow */
  FAULT_REFUSED,      /* a definite failure, retriable */
  FAULT_UNAVAILABLE,  /* an unknown outcome, retriable */
  FAULT_NOSPACE,      /* an unknown outcome, not retriable */
  FAULT_DENIED,       /* a definite failure, not retriable */
  FAULT_NO_LEASES,    /* an answer without leases, as of another version */
  FAULT_NO_MORE,      /* an answer without the field |more| */
  FAULT_KEEP_BREAK,   /* the keepalive stream broke */
  FAULT_FAST_KEEP,    /* a renewal was confirmed after the lease had ended */
  FAULT_STALE_READ,   /* a serializable read of an old state */
  FAULT_WATCH_LATE,   /* a watch event was slow */
  FAULT_SWALLOWED,    /* a watch event was lost */
  FAULT_REPLAYED,     /* the deletion of an earlier key was replayed */
  FAULT_WATCH_BREAK,  /* the watch stream broke */
  FAULT_PARTITION,    /* no message between one peer and the store */
  FAULT_ELECTION,     /* a new leader */
  FAULT_DEPOSED,      /* a peer is connected to the old leader, which answers */
  FAULT_LAGGING,      /* a peer is connected to a member that lags */
  FAULT_AWAY,         /* waits fail: the store is unreachable */
  FAULT_RESTART,      /* the store restarted */
  FAULT_STOP,         /* SIGSTOP, and SIGCONT later */
  FAULT_CRASH,        /* SIGKILL */
  FAULT_CLOSE,        /* a peer closed its session */
  FAULT_ADMIN_DELETE, /* an admin deleted a key */
  FAULT_ADMIN_WRITE,  /* an admin detached a key from its lease */
  FAULT_ADMIN_REVOKE, /* an admin revoked a lease */
  FAULTS
} fault;

typedef struct figures {
  int64_t histories, events, virtual_ms;
  int64_t batches, handed_off, retaken, contended, downgrades, several, repeats;
  /* Permits that were granted while a permit of the same semaphore with another n was held. */
  int64_t beside_other_n;
  int64_t data_puts; /* puts of user data whose key looks like an entry */
  int64_t writes, writes_barred, writes_late, touches, watches_kept;
  /* Holds whose lock delay was not over when another caller was granted. */
  int64_t delayed;
  int64_t requests, grants, releases, locked, timeouts, refused, keys_lost;
  int64_t holders_named; /* answers to waiters that named the holder */
  int64_t losses[FIGURE_LOSSES];
  int64_t faults[FAULTS];
  /* Shortest time from a hold deadline to the end of the lease, less the lock delay. */
  int64_t margin_min_ms;
  int64_t margin_max_ms;
  /* Longest overlap of two holds that exclude each other, if no admin interfered. */
  int64_t overlap_ms;
  int64_t sabotaged_overlap_ms;
  int64_t keepalives_per_s; /* most keepalives of one session in a second */
} figures;

void figures_init(figures *all);

void figures_record_margin(figures *all, int64_t margin_ms);

void figures_record_max(int64_t *most, int64_t value);

void figures_print(const figures *all);

#endif
