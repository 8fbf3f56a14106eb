/* sim caller: a program in a peer that locks, works and unlocks, several times; and the results
 * that it got. */
#ifndef SIM_CALLER_H
#define SIM_CALLER_H

#include "protocol/entry.h"
#include "protocol/local_queue.h"
#include "net.h"
#include "world.h"

struct peer;
struct peer_entry;

/* A keeper holds for so long after the faults: until all requests in flight were applied, and an
 * audit has found their keys. */
enum { CALLER_KEEP_MS = NET_WAY_MAX_MS + 15000 };

typedef enum caller_state {
  CALLER_RESTING,
  CALLER_WAITING, /* its acquisition has no result yet */
  CALLER_HOLDING, /* it was granted and has not released */
  CALLER_DONE
} caller_state;

/* One acquisition of a caller, and its results. A caller may begin another one while its last
 * release is in flight. */
typedef struct sim_acquisition {
  el_acquisition core;
  enum {
    ACQUISITION_OVER, /* no result is awaited */
    ACQUISITION_WAITS,
    ACQUISITION_HOLDS,
    ACQUISITION_RELEASES /* the result of its release is awaited */
  } state;
  int caller;
  int queue;       /* index in its peer */
  bool is_new;     /* etcd has granted it, not a handoff */
  bool gives_up;   /* it is to fail, because its caller gave up */
  int64_t left_ms; /* when it released */
} sim_acquisition;

enum { ACQUISITIONS_MAX = 6 };

/* A hold that was lost. */
typedef struct sim_hold {
  int key_id;
  el_mode mode;
  int64_t token, lease;
  int64_t end_ms; /* 0: there was none */
} sim_hold;

typedef struct caller {
  int id, peer;
  caller_state state;
  uint32_t generation; /* counts its state changes; older events are void */
  int left;            /* number of acquisitions that it has not begun */
  int pace;            /* how long it holds and rests: 0 hectic .. 2 slow */
  bool keeper;         /* keeps its hold after the faults */
  int key_id;          /* that it acquires */
  int n_multis;        /* multi-locks with a new slot so far */
  int again;           /* a multi-lock whose slot can be used again; 0: none */
  sim_acquisition acquisitions[ACQUISITIONS_MAX];
  int acquisition; /* index of the latest one */
  el_mode mode;    /* a downgraded writer is a reader */
  bool trying, must_share;
  int64_t joined_ms, granted_ms;
  int64_t joined_nth;       /* of all acquisitions of the history */
  int entry;                /* of the entry by which it holds */
  bool is_due;              /* it is to be granted as soon as it joins */
  bool saw_other;           /* since it joined, another caller was before it */
  int64_t hindered_ms;      /* when another caller was last before it */
  int verdicts;             /* results of this acquisition */
  int64_t token, lease;     /* of the key, once it is granted */
  bool is_holder;           /* granted, not released, no loss reported */
  int64_t hold_deadline_ms; /* the hold deadline, as last seen */
  int64_t lost_lease;       /* of its latest lost hold ... */
  int64_t lost_ms;          /* ... and when that was reported */
  sim_hold was; /* the latest lost hold whose key no admin removed */
} sim_caller;

void caller_init(world *wd, int id, int peer);

sim_acquisition *caller_acquisition_of(const el_acquisition *core);

void caller_on_granted(world *wd, struct peer *pr,
                       const el_acquisition *acquisition,
                       struct peer_entry *at);

void caller_on_failed(world *wd, struct peer *pr,
                      const el_local_action *failed);

void caller_on_lost(world *wd, const el_acquisition *acquisition, el_loss loss);

void caller_on_released(world *wd, struct peer *pr,
                        const el_local_action *released);

/* Tells whether all its acquisitions have their results. */
bool caller_is_over(const sim_caller *caller);

/* The errors of failed waits. */
extern const el_error caller_gave_up, caller_refused, caller_closed;

/* No key of the multi-lock |key_id| can be put any more: its slot may be used again. */
void caller_may_repeat(world *wd, int key_id);

/* Tells whether |key_id| is of such a multi-lock, or of one that has not begun. */
bool caller_can_repeat(const world *wd, int key_id);

/* The peer of the caller closes: the caller begins nothing more. */
void caller_on_closed(world *wd, int id);

#endif
