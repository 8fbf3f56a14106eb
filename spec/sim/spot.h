/* sim spot: the keys that one lease can have in the queues: in each, that of its plain
 * lock, that of its writer and the note that this only reads any more, one for each
 * reader, one for each who wants a permit, and for who wants several names at once one
 * that nobody has again; and the notes on which the order of writes hangs. Its line is
 * what of it comes again.
 *
 * Which names somebody wants, and in which order, is written in his slot. His keys
 * together are a spot, too: that under the name SEVERAL.
 */
#ifndef SIM_SPOT_H
#define SIM_SPOT_H

#include <stdbool.h>

#include "rules/key.h"

enum {
  NAMES_MAX = 4,
  SEVERAL = NAMES_MAX, /* stands for the names that one wants at once */
  ORDERS = 72,         /* of two to four of four names, some of them twice */
  CALLERS_MAX = 12,
  FIRST_READER = 5,
  FIRST_PERMIT = FIRST_READER + CALLERS_MAX,
  LINES_OF_NAME = FIRST_PERMIT + CALLERS_MAX,
  FIRST_MULTI = NAMES_MAX * LINES_OF_NAME, /* one for each caller */
  LINES_MAX = FIRST_MULTI + CALLERS_MAX,
  PERMITS = 2, /* of each name's semaphore, and for the last caller one more */
  DATA_MAX = NAMES_MAX * (1 + CALLERS_MAX)
};

static inline int spot_line(int spot) { return spot % LINES_MAX; }

static inline bool spot_is_multi(int spot) {
  return spot_line(spot) >= FIRST_MULTI;
}

static inline int spot_name(int spot) {
  return spot_is_multi(spot) ? spot / LINES_MAX % (NAMES_MAX + 1)
                             : spot_line(spot) / LINES_OF_NAME;
}

/* |slot| counts for readers and permits, who have as many as there are callers, and for
 * several names and the notes of an order, where it is above 0. */
static inline int spot_make(int name, el_mode mode, int slot) {
  int first = name * LINES_OF_NAME;
  switch (mode) {
    case EL_MODE_LOCK:
      return first;
    case EL_MODE_WRITE:
      return first + 1;
    case EL_NOTE_DOWNGRADED:
      return first + 2;
    case EL_NOTE_READ_ORDER:
      return first + 3 + LINES_MAX * slot;
    case EL_NOTE_WRITE_ORDER:
      return first + 4 + LINES_MAX * slot;
    case EL_MODE_READ:
      return first + FIRST_READER + slot;
    case EL_MODE_PERMIT:
      return first + FIRST_PERMIT + slot;
    default:
      return FIRST_MULTI + (slot - 1) % CALLERS_MAX +
             LINES_MAX * (name + (NAMES_MAX + 1) * ((slot - 1) / CALLERS_MAX));
  }
}

static inline el_mode spot_mode(int spot) {
  int which = spot_line(spot) % LINES_OF_NAME;
  if (spot_is_multi(spot)) return EL_MODE_MULTI;
  return which == 0             ? EL_MODE_LOCK
         : which == 1           ? EL_MODE_WRITE
         : which == 2           ? EL_NOTE_DOWNGRADED
         : which == 3           ? EL_NOTE_READ_ORDER
         : which == 4           ? EL_NOTE_WRITE_ORDER
         : which < FIRST_PERMIT ? EL_MODE_READ
                                : EL_MODE_PERMIT;
}

static inline bool spot_is_note(int spot) {
  return spot_mode(spot) >= EL_NOTE_DOWNGRADED;
}

/* What stands in the key of |mode| between the name and its owner. */
static inline const char *spot_stem(el_mode mode) {
  switch (mode) {
    case EL_MODE_READ:
      return "read/";
    case EL_MODE_WRITE:
      return "write/";
    case EL_MODE_PERMIT:
      return "permit/";
    case EL_NOTE_DOWNGRADED:
      return "write/read/";
    case EL_NOTE_READ_ORDER:
      return "read/order/";
    case EL_NOTE_WRITE_ORDER:
      return "write/order/";
    default:
      return "";
  }
}

static inline uint32_t spot_slot(int spot) {
  int which = spot_line(spot) % LINES_OF_NAME;
  if (spot_is_multi(spot)) {
    int again = spot / LINES_MAX / (NAMES_MAX + 1);
    return (uint32_t)(spot_line(spot) - FIRST_MULTI + 1 + again * CALLERS_MAX);
  }
  return (uint32_t)(which >= FIRST_PERMIT   ? which - FIRST_PERMIT
                    : which >= FIRST_READER ? which - FIRST_READER
                                            : spot / LINES_MAX);
}

/* How many permits there are, for who has this one; 0: it is none. */
static inline uint16_t spot_permits(int spot) {
  if (spot_mode(spot) != EL_MODE_PERMIT) return 0;
  return spot_slot(spot) == CALLERS_MAX - 1 ? PERMITS + 1 : PERMITS;
}

/* What who holds by the key at |spot| writes: of each name there is one; but who is not
 * alone writes what is his. */
static inline int spot_datum(int spot) {
  el_mode mode = spot_mode(spot);
  return mode != EL_MODE_READ && mode != EL_MODE_PERMIT
             ? spot_name(spot)
             : NAMES_MAX + spot_name(spot) * CALLERS_MAX + (int)spot_slot(spot);
}

/* The keys together of |caller|, who asks for several names for the |nth| time, from 0;
 * |order|, below ORDERS, says which they are. */
static inline int spot_several(int caller, int order, int nth) {
  return spot_make(SEVERAL, EL_MODE_MULTI,
                   1 + caller + CALLERS_MAX * (order + ORDERS * nth));
}

/* Whose they are. */
static inline int spot_caller(int several) {
  return ((int)spot_slot(several) - 1) % CALLERS_MAX;
}

/* The spot of all keys of whom the one at |spot| belongs to. */
static inline int spot_whole(int spot) {
  return spot_is_multi(spot)
             ? spot_make(SEVERAL, EL_MODE_MULTI, (int)spot_slot(spot))
             : spot;
}

/* The keys at |spot|, in |spots| of NAMES_MAX, in the order in which they are asked for.
 * Returns how many. */
int spot_all(int spot, int *spots);

/* Do |a| and |b| stand in one queue? */
bool spot_is_beside(int a, int b);

#endif
