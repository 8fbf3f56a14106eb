/* sim caller: somebody in a peer who locks, works, and unlocks, several times
 * over; and what that caller was told. */
#ifndef SIM_CALLER_H
#define SIM_CALLER_H

#include "rules/entry.h"
#include "net.h"
#include "world.h"

/* A keeper holds for so long after the faults: until what was on its way then has
 * come, and was found by an audit. */
enum { CALLER_KEEP_MS = NET_WAY_MAX_MS + 15000 };

typedef enum caller_state {
  CALLER_RESTING,
  CALLER_WAITING, /* its request is in the line */
  CALLER_HOLDING, /* it was granted, and has not released */
  CALLER_DONE
} caller_state;

typedef enum caller_verdict {
  CALLER_REFUSED,
  CALLER_LOCKED,
  CALLER_CONFLICT,
  CALLER_PLACE_LOST
} caller_verdict;

/* One that has ended otherwise than by its holder. */
typedef struct sim_hold {
  int key_id;
  el_mode mode;
  int64_t token, lease;
  int64_t end_ms; /* 0: there was none */
} sim_hold;

typedef struct caller {
  int id, peer;
  caller_state state;
  uint32_t turn; /* an event for an earlier turn is void */
  int left;      /* requests still to come */
  int pace;      /* how long it holds and rests: 0 hectic .. 2 slow */
  bool keeper;   /* holds on after the faults */
  int key_id;    /* that it asks for */
  int n_multis;  /* how often it has asked for several names with a new slot */
  int again;     /* those whose slot can be had again; 0: none */
  el_mode mode;  /* a writer who only reads on is a reader */
  bool trying;
  int64_t asked_ms, granted_ms;
  int verdicts;         /* on this request */
  int64_t token, lease; /* of the key, once it is granted */
  bool claiming;        /* granted, not released, and not told of a loss */
  int64_t claim_end_ms; /* the claim as far as we have seen it */
  int64_t lost_lease; /* of the latest hold that it lost for any reason, ... */
  int64_t lost_ms;    /* ... and when it was told */
  sim_hold was;       /* the latest that it lost, and nobody took away */
} sim_caller;

void caller_init(world *wd, int id, int peer);

bool caller_is_trying(const world *wd, int id);

void caller_on_granted(world *wd, int id, int64_t token);

void caller_on_failed(world *wd, int id, caller_verdict verdict);

void caller_on_lost(world *wd, int id, el_loss loss);

/* Of its place at |key_id|, for several names, nothing may come any more. */
void caller_may_repeat(world *wd, int key_id);

/* Is the key at |key_id| one of such a place? */
bool caller_can_repeat(const world *wd, int key_id);

/* Its peer closes; it asks for nothing any more. |is_over|: if it holds, its claim has ended,
 * and it was not told. */
void caller_on_closed(world *wd, int id, bool is_over);

#endif
