/* sim world: virtual time. All future events are in one queue. The earliest event runs next and
 * sets the clock to its time. Nothing else moves the clock. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "figures.h"
#include "message.h"
#include "random.h"
#include "key_id.h"
#include "store.h"
#include "faults.h"

enum { NONE = -1 };

typedef struct world world;
typedef struct world_event world_event;
typedef void (*event_run)(world *wd, const world_event *ev);

struct world_event {
  int64_t at_ms;
  uint64_t order; /* decides which event of one millisecond runs first */
  event_run run;
  event_run then; /* what the answer to |call| runs */
  int peer;       /* which peer runs it; NONE: the store */
  int subject;    /* the caller or the lease that it concerns */
  /* Generation of the subject when the event was posted. If the generation has changed since, the
   * subject ignores the event. */
  uint32_t generation;
  call call;
  reply reply;
  watch_message watch;
};

struct peer;
struct caller;

enum { MODES = EL_MODE_MULTI + 1 };

/* What the checks remember of one name, for each mode. */
typedef struct name_record {
  int64_t last_written;        /* token of the latest write */
  int64_t last_token[MODES];   /* largest token that was granted */
  int64_t unblocked_ms[MODES]; /* since when a key of this mode may hold */
} name_record;

enum { WRITES_MAX = 2000 };

/* What the checks remember of the writes of holders. */
typedef struct write_record {
  uint32_t n; /* number of writes; they have the numbers 1 to |n| */
  uint32_t last[DATA_MAX];    /* number of the latest write that was applied */
  int64_t last_rev[DATA_MAX]; /* token of the write that was applied last */
  /* number of the latest write with that token */
  uint32_t last_of_rev[DATA_MAX];
  /* by number: the write was reported as never applied */
  bool refused[WRITES_MAX];
} write_record;

struct world {
  uint64_t seed;
  rng dice;
  int64_t now_ms;
  int64_t ttl_ms;
  int64_t lease_ms; /* the TTL plus the longest lock delay of a peer */
  int n_peers, n_names, n_callers;
  enum {
    KINDS_LOCK,
    KINDS_READ_WRITE,
    KINDS_PERMIT,
    KINDS_MULTI
  } kinds; /* which modes callers acquire */
  store store;
  faults faults;
  struct peer *peers;
  struct caller *callers;
  name_record names[NAMES_MAX];
  write_record writes;
  int writing;           /* per mille of holders that write */
  int64_t calm_from_ms;  /* from this time on there are no faults; 0: not yet */
  int64_t quiet_from_ms; /* from this time on their effects are over */
  int flying;            /* number of requests that may still be applied */
  uint32_t last_id;      /* ID that was given out last, to a call or a watch */
  int64_t n_joined;      /* number of acquisitions that have begun */
  bool waits_out;        /* at the end, waits for keys that linger for long */

  world_event *pool;
  int *heap, *unused;
  int n_heap, n_unused, room;
  uint64_t order;
  int64_t n_events;

  figures *figures;
  bool tracing;
  bool failed;
  char violation[400];
};

/* Makes |wd| empty for a history of |seed|, keeping its memory. */
void world_reset(world *wd, uint64_t seed);

void world_destroy(world *wd);

/* Posts an event that calls |run| at |at_ms|, and returns it. The caller fills in the other fields
 * at once. Events of a peer in one millisecond run in a random order; those of NONE in the order in
 * which they were posted. */
world_event *world_post(world *wd, int64_t at_ms, int peer, event_run run);

/* Runs the next event. Returns false if there is none. */
bool world_next(world *wd);

uint32_t world_new_id(world *wd);

/* Counts that |what| has happened. */
void world_count(world *wd, fault what);

/* Decides at random whether |what| happens, and counts it if so. */
bool world_chance(world *wd, fault what);

/* Prints what happens, if tracing is on. */
void world_trace(const world *wd, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Records that the history has failed, because |invariant| is violated. Later violations are
 * ignored. */
void world_violate(world *wd, const char *invariant, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
