/* sim figures: what all histories together came to. */
#ifndef SIM_FIGURES_H
#define SIM_FIGURES_H

#include <stdint.h>

enum { FIGURE_LOSSES = 8 }; /* as many as el_loss has values */

typedef enum fault {
  FAULT_LOST,         /* a request never arrived */
  FAULT_ANSWER_LOST,  /* it was applied, and nobody told */
  FAULT_LATE,         /* applied after its time-out */
  FAULT_ANSWER_LATE,  /* an answer was on its way for long */
  FAULT_REFUSED,      /* surely not applied */
  FAULT_UNAVAILABLE,  /* perhaps applied */
  FAULT_NOSPACE,      /* perhaps applied, and asking again is no use */
  FAULT_DENIED,       /* surely not applied, and asking again is no use */
  FAULT_KEEP_BREAK,   /* the keepalive stream broke */
  FAULT_STALE_LOOK,   /* a serializable read of an old state */
  FAULT_WATCH_LATE,   /* a watch event was slow */
  FAULT_SWALLOWED,    /* a watch event never came */
  FAULT_REPLAYED,     /* the end of an earlier key was told again */
  FAULT_WATCH_BREAK,  /* the watch stream broke */
  FAULT_PARTITION,    /* nothing between one peer and the store */
  FAULT_ELECTION,     /* a new leader */
  FAULT_DEPOSED,      /* a peer hangs on the old leader, which answers */
  FAULT_LAGGING,      /* a peer hangs on a member that is behind all the time */
  FAULT_AWAY,         /* whoever waits is told that the store is out of reach */
  FAULT_RESTART,      /* the store was down for a moment */
  FAULT_STOP,         /* SIGSTOP, and SIGCONT later */
  FAULT_CRASH,        /* SIGKILL */
  FAULT_CLOSE,        /* a peer closed its session in the middle */
  FAULT_ADMIN_DELETE, /* somebody deleted a key */
  FAULT_ADMIN_WRITE,  /* somebody wrote a key off its lease */
  FAULT_ADMIN_REVOKE, /* somebody revoked a lease */
  FAULTS
} fault;

typedef struct figures {
  int64_t histories, events, virtual_ms;
  int64_t batches, handed_over, retaken, contended, downgrades, several,
      repeats;
  int64_t
      beside_other_n; /* permits granted while one with another number was held */
  int64_t data_puts; /* of user data in the form of an entry */
  int64_t writes, writes_barred, writes_late, touches, watches_kept;
  int64_t
      delayed; /* holds that had ended and whose lock delay wasn't over at a grant */
  int64_t requests, grants, releases, locked, timeouts, refused, places_lost;
  int64_t losses[FIGURE_LOSSES];
  int64_t faults[FAULTS];
  int64_t margin_min_ms; /* of claim_until before the lease's true end */
  int64_t margin_max_ms;
  int64_t overlap_ms; /* two claims of one name, nobody having sabotaged */
  int64_t sabotaged_overlap_ms;
  int64_t keepalives_per_s; /* the most that one peer sent */
} figures;

void figures_init(figures *all);

void figures_note_margin(figures *all, int64_t margin_ms);

void figures_note_most(int64_t *most, int64_t value);

void figures_print(const figures *all);

#endif
