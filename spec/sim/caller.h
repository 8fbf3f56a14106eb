/* sim caller: somebody in a peer who locks, works, and unlocks, several times
 * over; and what that caller was told. */
#ifndef SIM_CALLER_H
#define SIM_CALLER_H

#include "rules/entry.h"
#include "rules/local_queue.h"
#include "net.h"
#include "world.h"

struct peer;
struct peer_entry;

/* A keeper holds for so long after the faults: until what was on its way then has
 * come, and was found by an audit. */
enum { CALLER_KEEP_MS = NET_WAY_MAX_MS + 15000 };

typedef enum caller_state {
  CALLER_RESTING,
  CALLER_WAITING, /* its request is not answered */
  CALLER_HOLDING, /* it was granted, and has not released */
  CALLER_DONE
} caller_state;

/* One request of a caller, and what it was told. A caller asks anew while its last release
 * is on its way, as another owner. */
typedef struct sim_owner {
  el_local_owner core;
  enum {
    OWNER_OVER, /* nothing is to be told */
    OWNER_ASKS,
    OWNER_HOLDS,
    OWNER_LEAVES /* its release is to be told */
  } state;
  int caller;
  int queue;       /* of its peer's */
  bool is_new;     /* it was etcd that granted it the key */
  bool gives_up;   /* so it is to fail for that */
  int64_t left_ms; /* when it let go */
} sim_owner;

enum { OWNERS_MAX = 6 };

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
  sim_owner owners[OWNERS_MAX];
  int owner;    /* of them: that of its latest request */
  el_mode mode; /* a writer who only reads on is a reader */
  bool trying, must_share;
  int64_t asked_ms, granted_ms;
  int64_t asked_nth;    /* of all requests of the history */
  int entry;            /* by which it holds */
  bool is_due;          /* it is to be granted as soon as it asks */
  bool saw_other;       /* since it asked, another was before it */
  int64_t hindered_ms;  /* when another was before it last */
  int verdicts;         /* on this request */
  int64_t token, lease; /* of the key, once it is granted */
  bool claiming;        /* granted, not released, and not told of a loss */
  int64_t claim_end_ms; /* the claim as far as we have seen it */
  int64_t lost_lease; /* of the latest hold that it lost for any reason, ... */
  int64_t lost_ms;    /* ... and when it was told */
  sim_hold was;       /* the latest that it lost, and nobody took away */
} sim_caller;

void caller_init(world *wd, int id, int peer);

sim_owner *caller_owner_of(const el_local_owner *core);

void caller_on_granted(world *wd, struct peer *pr, const el_local_owner *owner,
                       struct peer_entry *at);

void caller_on_failed(world *wd, struct peer *pr,
                      const el_local_action *failed);

void caller_on_lost(world *wd, const el_local_owner *owner, el_loss loss);

void caller_on_released(world *wd, struct peer *pr,
                        const el_local_action *released);

/* Is each of its requests over, and told? */
bool caller_is_over(const sim_caller *who);

/* Why waits fail. */
extern const el_error caller_gave_up, caller_refused, caller_closed;

/* Of its place at |key_id|, for several names, nothing may come any more. */
void caller_may_repeat(world *wd, int key_id);

/* Is the key at |key_id| one of such a place, or of one that is not begun yet? */
bool caller_can_repeat(const world *wd, int key_id);

/* Its peer closes; it asks for nothing any more. */
void caller_on_closed(world *wd, int id);

#endif
