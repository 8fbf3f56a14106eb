/* sim caller: a program that uses the lock client of a peer. A caller acquires, holds and releases
 * locks several times, and records the results that it gets. */
#ifndef SIM_CALLER_H
#define SIM_CALLER_H

#include "protocol/entry.h"
#include "protocol/local_queue.h"
#include "net.h"
#include "world.h"

struct peer;
struct peer_entry;

/* Milliseconds for which a keeper holds its lock after the faults end. In that time all requests in
 * flight are applied, and an audit finds the keys that they put. */
enum { CALLER_KEEP_MS = NET_WAY_MAX_MS + 15000 };

typedef enum caller_state {
  CALLER_RESTING,
  CALLER_WAITING, /* its acquisition has no result yet */
  CALLER_HOLDING, /* it was granted and has not released */
  CALLER_DONE
} caller_state;

/* One acquisition of a caller. While the release of an acquisition is in flight, its caller may
 * begin another acquisition. */
typedef struct sim_acquisition {
  el_acquisition core;
  enum {
    ACQUISITION_OVER, /* no result is outstanding */
    ACQUISITION_WAITS,
    ACQUISITION_HOLDS,
    ACQUISITION_RELEASES /* released, without the result yet */
  } state;
  int caller;
  int queue;       /* index of its local queue in the peer */
  bool is_new;     /* granted by etcd, not by a handoff */
  bool gives_up;   /* its caller gave up, so it must fail */
  int64_t left_ms; /* when its caller released the hold */
} sim_acquisition;

enum { ACQUISITIONS_MAX = 6 };

/* A hold, lost or current, as checks_delay.c compares it. */
typedef struct sim_hold {
  int key_id;
  el_mode mode;
  int64_t token, lease;
  /* when it ended, or will end at its hold deadline; 0: there is no hold */
  int64_t end_ms;
} sim_hold;

typedef struct caller {
  int id, peer;
  caller_state state;
  /* Number of state changes. An event that was posted under another number is ignored. */
  uint32_t generation;
  int left;     /* number of acquisitions still to begin */
  int pace;     /* how long it holds and rests: 0 briefly .. 2 long */
  bool keeper;  /* holds for CALLER_KEEP_MS after the faults end */
  int key_id;   /* the key that it acquires (key_id.h) */
  int n_multis; /* number of its multi-locks that took a new slot */
  int again; /* key_id of a multi-lock whose slot may be used again; 0: none */
  sim_acquisition acquisitions[ACQUISITIONS_MAX];
  int acquisition; /* index of the latest one */
  el_mode mode;    /* EL_MODE_READ after a downgrade */
  bool trying, must_share;
  int64_t joined_ms, granted_ms;
  int64_t joined_nth; /* sequence number of its acquisition in the history */
  int entry;          /* index of the entry by whose key it holds */
  bool is_due;        /* must be granted the lock during peer_join */
  /* of a try: the lock was taken at some time since the caller joined */
  bool saw_other;
  /* the last time at which it could not be granted the lock */
  int64_t hindered_ms;
  int verdicts;             /* number of results that its acquisition got */
  int64_t token, lease;     /* of its key, after the grant */
  bool is_holder;           /* granted, not released, no loss reported */
  int64_t hold_deadline_ms; /* last known hold deadline, by the world's clock */
  int64_t lost_lease;       /* lease of its latest lost hold */
  int64_t lost_ms;          /* when that loss was reported */
  /* Its latest hold that ended with its session, not by a change of its key. */
  sim_hold was;
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

/* Tells whether every acquisition of |caller| has its result. */
bool caller_is_over(const sim_caller *caller);

/* The errors of failed waits. */
extern const el_error caller_gave_up, caller_refused, caller_closed;

/* Lets the caller of the multi-lock |key_id| use the slot of |key_id| again, because no request in
 * flight can put a key of this multi-lock any more. */
void caller_may_repeat(world *wd, int key_id);

/* Tells whether |key_id| belongs to a multi-lock whose slot may be used again, or to one whose
 * caller waits and has no entry yet. */
bool caller_can_repeat(const world *wd, int key_id);

/* Ends the caller |id|, because its peer was closed. The caller begins no further acquisition. */
void caller_on_closed(world *wd, int id);

#endif
