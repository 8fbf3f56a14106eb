/* sim spot: the keys that one lease can have in the queues: in each, that of its plain
 * lock, that of its writer and the note that this only reads any more, one for each
 * reader, one for each who wants a permit, and for who wants several names at once one
 * that nobody has again. Its line is what of it comes again.
 */
#ifndef SIM_SPOT_H
#define SIM_SPOT_H

#include <stdbool.h>

#include "rules/key.h"

enum {
  NAMES_MAX = 2,
  CALLERS_MAX = 12,
  FIRST_READER = 3,
  FIRST_PERMIT = FIRST_READER + CALLERS_MAX,
  FIRST_MULTI = FIRST_PERMIT + CALLERS_MAX,
  LINES_OF_NAME = FIRST_MULTI + CALLERS_MAX,
  LINES_MAX = NAMES_MAX * LINES_OF_NAME,
  PERMITS = 2 /* of each name's semaphore, and for the last caller one more */
};

static inline int spot_line(int spot) { return spot % LINES_MAX; }

static inline int spot_name(int spot) {
  return spot_line(spot) / LINES_OF_NAME;
}

/* |slot| counts for readers and permits, who have as many as there are callers, and for
 * several names, where it is above 0. */
static inline int spot_make(int name, el_mode mode, int slot) {
  int first = name * LINES_OF_NAME;
  switch (mode) {
    case EL_MODE_LOCK:
      return first;
    case EL_MODE_WRITE:
      return first + 1;
    case EL_NOTE_DOWNGRADED:
      return first + 2;
    case EL_MODE_READ:
      return first + FIRST_READER + slot;
    case EL_MODE_PERMIT:
      return first + FIRST_PERMIT + slot;
    default:
      return first + FIRST_MULTI + (slot - 1) % CALLERS_MAX +
             (slot - 1) / CALLERS_MAX * LINES_MAX;
  }
}

static inline el_mode spot_mode(int spot) {
  int which = spot_line(spot) % LINES_OF_NAME;
  return which == 0             ? EL_MODE_LOCK
         : which == 1           ? EL_MODE_WRITE
         : which == 2           ? EL_NOTE_DOWNGRADED
         : which < FIRST_PERMIT ? EL_MODE_READ
         : which < FIRST_MULTI  ? EL_MODE_PERMIT
                                : EL_MODE_MULTI;
}

static inline uint32_t spot_slot(int spot) {
  int which = spot_line(spot) % LINES_OF_NAME;
  int again = spot / LINES_MAX * CALLERS_MAX;
  return (uint32_t)(which >= FIRST_MULTI    ? which - FIRST_MULTI + 1 + again
                    : which >= FIRST_PERMIT ? which - FIRST_PERMIT
                    : which >= FIRST_READER ? which - FIRST_READER
                                            : 0);
}

/* How many permits there are, for who has this one; 0: it is none. */
static inline uint16_t spot_permits(int spot) {
  if (spot_mode(spot) != EL_MODE_PERMIT) return 0;
  return spot_slot(spot) == CALLERS_MAX - 1 ? PERMITS + 1 : PERMITS;
}

/* The keys of who is at |spot|, in |spots|: where it is the first of several names, one
 * in each. Returns how many. */
static inline int spot_all(int spot, int *spots) {
  int n =
      spot_mode(spot) == EL_MODE_MULTI && spot_name(spot) == 0 ? NAMES_MAX : 1;
  spots[0] = spot;
  for (int i = 1; i < n; i++) {
    spots[i] = spot_make(i, EL_MODE_MULTI, (int)spot_slot(spot));
  }
  return n;
}

/* Do |a| and |b| stand in one queue? */
static inline bool spot_is_beside(int a, int b) {
  int of_a[NAMES_MAX], of_b[NAMES_MAX];
  int n_a = spot_all(a, of_a), n_b = spot_all(b, of_b);
  for (int i = 0; i < n_a * n_b; i++) {
    if (spot_name(of_a[i / n_b]) == spot_name(of_b[i % n_b])) return true;
  }
  return false;
}

#endif
