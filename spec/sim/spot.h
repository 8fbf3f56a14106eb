/* sim spot: the keys that one lease can have in the queues: in each, that of its plain
 * lock, that of its writer and the note that this only reads any more, one for each
 * reader, and one for each who wants a permit. */
#ifndef SIM_SPOT_H
#define SIM_SPOT_H

#include "rules/key.h"

enum {
  NAMES_MAX = 2,
  CALLERS_MAX = 12,
  FIRST_READER = 3,
  FIRST_PERMIT = FIRST_READER + CALLERS_MAX,
  SPOTS_OF_NAME = FIRST_PERMIT + CALLERS_MAX,
  SPOTS_MAX = NAMES_MAX * SPOTS_OF_NAME,
  PERMITS = 2 /* of each name's semaphore, and for the last caller one more */
};

/* |caller| counts for readers and permits only. */
static inline int spot_make(int name, el_mode mode, int caller) {
  int which = mode == EL_MODE_LOCK         ? 0
              : mode == EL_MODE_WRITE      ? 1
              : mode == EL_NOTE_DOWNGRADED ? 2
              : mode == EL_MODE_READ       ? FIRST_READER + caller
                                           : FIRST_PERMIT + caller;
  return name * SPOTS_OF_NAME + which;
}

static inline int spot_name(int spot) { return spot / SPOTS_OF_NAME; }

static inline el_mode spot_mode(int spot) {
  int which = spot % SPOTS_OF_NAME;
  return which == 0             ? EL_MODE_LOCK
         : which == 1           ? EL_MODE_WRITE
         : which == 2           ? EL_NOTE_DOWNGRADED
         : which < FIRST_PERMIT ? EL_MODE_READ
                                : EL_MODE_PERMIT;
}

static inline uint32_t spot_slot(int spot) {
  int which = spot % SPOTS_OF_NAME;
  return which >= FIRST_PERMIT   ? (uint32_t)(which - FIRST_PERMIT)
         : which >= FIRST_READER ? (uint32_t)(which - FIRST_READER)
                                 : 0;
}

/* How many permits there are, for who has this one; 0: it is none. */
static inline uint16_t spot_permits(int spot) {
  if (spot_mode(spot) != EL_MODE_PERMIT) return 0;
  return spot_slot(spot) == CALLERS_MAX - 1 ? PERMITS + 1 : PERMITS;
}

#endif
