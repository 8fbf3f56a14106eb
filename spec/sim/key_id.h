/* sim key_id: the keys that one lease can have in the queues: in each, that of its plain
 * lock, that of its writer and the notes that this only reads any more and on which the
 * order of its writes hangs, one for each reader, one for each who wants a permit, and for
 * who wants several names at once one that nobody has again. Its line is what of it comes
 * again.
 *
 * Which names somebody wants, and in which order, is written in his slot. His keys
 * together are a key_id, too: that under the name SEVERAL.
 */
#ifndef SIM_KEY_ID_H
#define SIM_KEY_ID_H

#include <stdbool.h>

#include "rules/key.h"

enum {
  NAMES_MAX = 4,
  SEVERAL = NAMES_MAX, /* stands for the names that one wants at once */
  ORDERS = 72,         /* of two to four of four names, some of them twice */
  CALLERS_MAX = 12,
  FIRST_READER = 4,
  FIRST_PERMIT = FIRST_READER + CALLERS_MAX,
  LINES_OF_NAME = FIRST_PERMIT + CALLERS_MAX,
  FIRST_MULTI = NAMES_MAX * LINES_OF_NAME, /* one for each caller */
  LINES_MAX = FIRST_MULTI + CALLERS_MAX,
  PERMITS = 2, /* of each name's semaphore, and for the last caller one more */
  DATA_MAX = NAMES_MAX * (1 + CALLERS_MAX)
};

static inline int key_id_line(int key_id) { return key_id % LINES_MAX; }

static inline bool key_id_is_multi(int key_id) {
  return key_id_line(key_id) >= FIRST_MULTI;
}

static inline int key_id_name(int key_id) {
  return key_id_is_multi(key_id) ? key_id / LINES_MAX % (NAMES_MAX + 1)
                                 : key_id_line(key_id) / LINES_OF_NAME;
}

/* |slot| counts for readers and permits, who have as many as there are callers, and for
 * several names, where it is above 0. */
static inline int key_id_make(int name, el_mode mode, int slot) {
  int first = name * LINES_OF_NAME;
  switch (mode) {
    case EL_MODE_LOCK:
      return first;
    case EL_MODE_WRITE:
      return first + 1;
    case EL_NOTE_DOWNGRADED:
      return first + 2;
    case EL_NOTE_WRITE_ORDER:
      return first + 3;
    case EL_MODE_READ:
      return first + FIRST_READER + slot;
    case EL_MODE_PERMIT:
      return first + FIRST_PERMIT + slot;
    default:
      return FIRST_MULTI + (slot - 1) % CALLERS_MAX +
             LINES_MAX * (name + (NAMES_MAX + 1) * ((slot - 1) / CALLERS_MAX));
  }
}

static inline el_mode key_id_mode(int key_id) {
  int which = key_id_line(key_id) % LINES_OF_NAME;
  if (key_id_is_multi(key_id)) return EL_MODE_MULTI;
  return which == 0             ? EL_MODE_LOCK
         : which == 1           ? EL_MODE_WRITE
         : which == 2           ? EL_NOTE_DOWNGRADED
         : which == 3           ? EL_NOTE_WRITE_ORDER
         : which < FIRST_PERMIT ? EL_MODE_READ
                                : EL_MODE_PERMIT;
}

static inline bool key_id_is_note(int key_id) {
  return key_id_mode(key_id) >= EL_NOTE_DOWNGRADED;
}

/* What stands in the key of |mode| between the name and its owner. */
static inline const char *key_id_stem(el_mode mode) {
  switch (mode) {
    case EL_MODE_READ:
      return "read/";
    case EL_MODE_WRITE:
      return "write/";
    case EL_MODE_PERMIT:
      return "permit/";
    case EL_NOTE_DOWNGRADED:
      return "write/read/";
    case EL_NOTE_WRITE_ORDER:
      return "write/order/";
    default:
      return "";
  }
}

static inline uint32_t key_id_slot(int key_id) {
  int which = key_id_line(key_id) % LINES_OF_NAME;
  if (key_id_is_multi(key_id)) {
    int again = key_id / LINES_MAX / (NAMES_MAX + 1);
    return (uint32_t)(key_id_line(key_id) - FIRST_MULTI + 1 +
                      again * CALLERS_MAX);
  }
  return (uint32_t)(which >= FIRST_PERMIT   ? which - FIRST_PERMIT
                    : which >= FIRST_READER ? which - FIRST_READER
                                            : 0);
}

/* How many permits there are, for who has this one; 0: it is none. */
static inline uint16_t key_id_permits(int key_id) {
  if (key_id_mode(key_id) != EL_MODE_PERMIT) return 0;
  return key_id_slot(key_id) == CALLERS_MAX - 1 ? PERMITS + 1 : PERMITS;
}

/* What who holds by the key at |key_id| writes: of each name there is one; but who has a
 * permit, and is not alone, writes what is his. Readers write nothing. */
static inline int key_id_datum(int key_id) {
  return key_id_mode(key_id) != EL_MODE_PERMIT
             ? key_id_name(key_id)
             : NAMES_MAX + key_id_name(key_id) * CALLERS_MAX +
                   (int)key_id_slot(key_id);
}

/* The keys together of |caller|, who asks for several names for the |nth| time, from 0;
 * |order|, below ORDERS, says which they are. */
static inline int key_id_several(int caller, int order, int nth) {
  return key_id_make(SEVERAL, EL_MODE_MULTI,
                     1 + caller + CALLERS_MAX * (order + ORDERS * nth));
}

/* Whose they are. */
static inline int key_id_caller(int several) {
  return ((int)key_id_slot(several) - 1) % CALLERS_MAX;
}

/* The key_id of all keys of whom the one at |key_id| belongs to. */
static inline int key_id_whole(int key_id) {
  return key_id_is_multi(key_id)
             ? key_id_make(SEVERAL, EL_MODE_MULTI, (int)key_id_slot(key_id))
             : key_id;
}

/* The keys at |key_id|, in |key_ids| of NAMES_MAX, in the order in which they are asked for.
 * Returns how many. */
int key_id_all(int key_id, int *key_ids);

/* Do |a| and |b| stand in one queue? */
bool key_id_is_beside(int a, int b);

#endif
