/* sim key_id: numbers for the keys that one lease can have in the queues: of each name one key of a
 * plain lock, keys of readers, writers and permits, which a slot tells apart, keys of multi-locks,
 * each with a slot of its own, and markers (protocol/key.h).
 *
 * The slot of a multi-lock contains its names and their order. All its keys together have a key_id,
 * too, with the name SEVERAL.
 */
#ifndef SIM_KEY_ID_H
#define SIM_KEY_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/key.h"

enum {
  NAMES_MAX = 4,
  SEVERAL = NAMES_MAX, /* stands for the names of a multi-lock */
  ORDERS = 72,         /* of two to four of four names, some of them twice */
  CALLERS_MAX = 12,
  PERMITS = 2, /* of each semaphore, for most callers; others name 1
                  to PERMITS_MAX */
  PERMITS_MAX = 3,
  DATA_MAX = NAMES_MAX * (1 + CALLERS_MAX)
};

/* A key_id: | slot | permits: 2 bits | name: 3 | mode: 4 | */
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

/* Number of permits of the semaphore; 0: not a permit. */
static inline uint16_t key_id_permits(int key_id) {
  return (uint16_t)(key_id >> KEY_ID_PERMITS & 3);
}

/* A multi-lock has a slot above 0, a plain lock 0. */
static inline int key_id_make(int name, el_mode mode, int slot) {
  return slot << KEY_ID_SLOT | name << KEY_ID_NAME | (int)mode;
}

static inline int key_id_permit(int name, int slot, int permits) {
  return key_id_make(name, EL_MODE_PERMIT, slot) | permits << KEY_ID_PERMITS;
}

static inline bool key_id_is_marker(int key_id) {
  return key_id_mode(key_id) >= EL_MARKER_DOWNGRADED;
}

/* The local queue that the key |key_id| belongs to: the same for all its slots. */
static inline int key_id_queue(int key_id) {
  return key_id_is_multi(key_id) ? key_id : key_id & ((1 << KEY_ID_SLOT) - 1);
}

/* The key of |slot| in that queue. */
static inline int key_id_at_slot(int queue_id, int slot) {
  return queue_id | slot << KEY_ID_SLOT;
}

/* The part of a key of |mode| between "name/" and the lease ID. */
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

/* The datum that |caller|, which holds by the key |key_id|, writes: one for each name; a holder of
 * a permit has a datum of its own, because it is not alone. Readers write nothing. */
static inline int key_id_datum(int key_id, int caller) {
  return key_id_mode(key_id) != EL_MODE_PERMIT
             ? key_id_name(key_id)
             : NAMES_MAX + key_id_name(key_id) * CALLERS_MAX + caller;
}

/* The |nth| multi-lock of |caller|, from 0; |order|, below ORDERS, selects its names. */
static inline int key_id_several(int caller, int order, int nth) {
  return key_id_make(SEVERAL, EL_MODE_MULTI,
                     1 + caller + CALLERS_MAX * (order + ORDERS * nth));
}

/* Returns the caller that asks for the multi-lock |several|. */
static inline int key_id_caller(int several) {
  return ((int)key_id_slot(several) - 1) % CALLERS_MAX;
}

/* The key_id of all keys of the entry that |key_id| belongs to. */
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

/* The key of |key_id| in the queue of the key |beside|. */
static inline int key_id_of_name(int key_id, int beside) {
  return key_id_is_multi(key_id)
             ? key_id_make(key_id_name(beside), EL_MODE_MULTI,
                           (int)key_id_slot(key_id))
             : key_id;
}

/* The names of |key_id|: a bit for each. */
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

/* Tells whether |a| and |b| have a key in one queue. */
static inline bool key_id_is_beside(int a, int b) {
  return (key_id_names(a) & key_id_names(b)) != 0;
}

/* Tells whether, besides, their modes conflict; two permits count as a conflict. */
bool key_id_conflicts(int a, int b);

#endif
