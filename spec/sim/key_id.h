/* sim key_id: numbers that identify the keys of one lease. For each name a lease can have one key
 * of a plain lock, keys of readers, writers and permits, keys of multi-locks, and markers
 * (protocol/key.h). A slot tells apart several keys of one name and mode. Each multi-lock has a
 * slot of its own.
 *
 * The slot of a multi-lock encodes its names and their order. A key_id with the name SEVERAL stands
 * for all keys of a multi-lock. */
#ifndef SIM_KEY_ID_H
#define SIM_KEY_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/key.h"

enum {
  NAMES_MAX = 4,
  SEVERAL = NAMES_MAX, /* in place of a name: all names of a multi-lock */
  /* Ordered selections of two, three or four of the four names. Each selection of two occurs
   * twice. */
  ORDERS = 72,
  CALLERS_MAX = 12,
  /* Number of permits that most callers name for a semaphore. The others name 1 to PERMITS_MAX. */
  PERMITS = 2,
  PERMITS_MAX = 3,
  DATA_MAX = NAMES_MAX * (1 + CALLERS_MAX)
};

/* The parts of a key_id, from the highest bit: slot, permits (2 bits), name (3), mode (4). */
enum {
  KEY_ID_NAME = 4,
  KEY_ID_PERMITS = KEY_ID_NAME + 3,
  KEY_ID_SLOT = KEY_ID_PERMITS + 2
};

static inline el_mode key_id_mode(int key_id) {
  return (el_mode)(key_id & ((1 << KEY_ID_NAME) - 1));
}

static inline bool key_id_is_multi(int key_id) {
  return key_id_mode(key_id) == EL_MODE_MULTI;
}

static inline int key_id_name(int key_id) { return key_id >> KEY_ID_NAME & 7; }

static inline uint32_t key_id_slot(int key_id) {
  return (uint32_t)key_id >> KEY_ID_SLOT;
}

/* Returns the number of permits of the semaphore; 0: |key_id| is no permit. */
static inline uint16_t key_id_permits(int key_id) {
  return (uint16_t)(key_id >> KEY_ID_PERMITS & 3);
}

/* Returns the key_id of these parts. |slot| is above 0 for a multi-lock and 0 for a plain lock. */
static inline int key_id_make(int name, el_mode mode, int slot) {
  return slot << KEY_ID_SLOT | name << KEY_ID_NAME | (int)mode;
}

static inline int key_id_permit(int name, int slot, int permits) {
  return key_id_make(name, EL_MODE_PERMIT, slot) | permits << KEY_ID_PERMITS;
}

static inline bool key_id_is_marker(int key_id) {
  return key_id_mode(key_id) >= EL_MARKER_DOWNGRADED;
}

/* Returns the number of the local queue to which the key |key_id| belongs. Keys that differ only in
 * their slot belong to one local queue; only multi-locks have one for each slot. */
static inline int key_id_queue(int key_id) {
  return key_id_is_multi(key_id) ? key_id : key_id & ((1 << KEY_ID_SLOT) - 1);
}

/* Returns the key of |slot| in the local queue |queue_id|. */
static inline int key_id_at_slot(int queue_id, int slot) {
  return queue_id | slot << KEY_ID_SLOT;
}

/* Returns the part of a key of |mode| between "name/" and the lease ID. */
static inline const char *key_id_infix(el_mode mode) {
  switch (mode) {
    case EL_MODE_READ:
      return "read/";
    case EL_MODE_WRITE:
      return "write/";
    case EL_MODE_PERMIT:
      return "permit/";
    case EL_MARKER_DOWNGRADED:
      return "write/read/";
    case EL_MARKER_WRITE_ORDER:
      return "write/order/";
    default:
      return "";
  }
}

/* Returns the datum that |caller| writes while it holds by the key |key_id|. Each name has one
 * datum. A holder of a permit has a datum of its own, because others hold permits at the same time.
 * Readers write nothing. */
static inline int key_id_datum(int key_id, int caller) {
  return key_id_mode(key_id) != EL_MODE_PERMIT
             ? key_id_name(key_id)
             : NAMES_MAX + key_id_name(key_id) * CALLERS_MAX + caller;
}

/* Returns the key_id of the |nth| multi-lock of |caller|, counted from 0. |order|, below ORDERS,
 * selects its names. */
static inline int key_id_several(int caller, int order, int nth) {
  return key_id_make(SEVERAL, EL_MODE_MULTI,
                     1 + caller + CALLERS_MAX * (order + ORDERS * nth));
}

/* Returns the caller that acquires the multi-lock |several|. */
static inline int key_id_caller(int several) {
  return ((int)key_id_slot(several) - 1) % CALLERS_MAX;
}

/* Returns the key_id that stands for all keys of the entry to which |key_id| belongs. */
static inline int key_id_whole(int key_id) {
  return key_id_is_multi(key_id)
             ? key_id_make(SEVERAL, EL_MODE_MULTI, (int)key_id_slot(key_id))
             : key_id;
}

/* Fills |key_ids| (NAMES_MAX) with the keys of the multi-lock |several|; returns their number. */
int key_id_all_of_several(int several, int *key_ids);

/* Fills |key_ids| (NAMES_MAX) with the keys of |key_id|, in their order; returns their number. */
static inline int key_id_all(int key_id, int *key_ids) {
  key_ids[0] = key_id;
  return key_id_name(key_id) == SEVERAL ? key_id_all_of_several(key_id, key_ids)
                                        : 1;
}

/* Returns the key of the entry of |key_id| in the queue of the key |beside|. */
static inline int key_id_of_name(int key_id, int beside) {
  return key_id_is_multi(key_id)
             ? key_id_make(key_id_name(beside), EL_MODE_MULTI,
                           (int)key_id_slot(key_id))
             : key_id;
}

/* Returns the names of |key_id| as a set with one bit for each name. */
static inline unsigned key_id_names(int key_id) {
  int key_ids[NAMES_MAX], n;
  unsigned names = 0;
  if (key_id_name(key_id) != SEVERAL) return 1u << key_id_name(key_id);
  n = key_id_all(key_id, key_ids);
  for (int i = 0; i < n; i++) {
    names |= 1u << key_id_name(key_ids[i]);
  }
  return names;
}

/* Tells whether |a| and |b| have a name in common, and so keys in one queue. */
static inline bool key_id_is_beside(int a, int b) {
  return (key_id_names(a) & key_id_names(b)) != 0;
}

/* Tells whether |a| and |b| have a name in common and modes that conflict. Two permits count as a
 * conflict. */
bool key_id_conflicts(int a, int b);

#endif
