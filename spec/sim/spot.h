/* sim spot: the keys that one lease can have in the queues: in each, that of its plain
 * lock, that of its writer and the note that this only reads any more, and one for each
 * reader. */
#ifndef SIM_SPOT_H
#define SIM_SPOT_H

#include "rules/key.h"

enum {
  NAMES_MAX = 2,
  CALLERS_MAX = 12,
  FIRST_READER = 3,
  SPOTS_OF_NAME = FIRST_READER + CALLERS_MAX,
  SPOTS_MAX = NAMES_MAX * SPOTS_OF_NAME
};

/* |reader| counts for EL_MODE_READ only. */
static inline int spot_make(int name, el_mode mode, int reader) {
  int which = mode == EL_MODE_LOCK         ? 0
              : mode == EL_MODE_WRITE      ? 1
              : mode == EL_NOTE_DOWNGRADED ? 2
                                           : FIRST_READER + reader;
  return name * SPOTS_OF_NAME + which;
}

static inline int spot_name(int spot) { return spot / SPOTS_OF_NAME; }

static inline el_mode spot_mode(int spot) {
  int which = spot % SPOTS_OF_NAME;
  return which == 0   ? EL_MODE_LOCK
         : which == 1 ? EL_MODE_WRITE
         : which == 2 ? EL_NOTE_DOWNGRADED
                      : EL_MODE_READ;
}

static inline uint32_t spot_slot(int spot) {
  return spot_mode(spot) == EL_MODE_READ
             ? (uint32_t)(spot % SPOTS_OF_NAME - FIRST_READER)
             : 0;
}

#endif
