/* sim key_id: the keys that one lease can have in the queues: in each, that of its plain
 * lock, those of its readers, its writers and its permits, which a slot tells apart, and for
 * each request for several names at once one that no other request has; and the notes: that
 * a writer only reads any more, and on which the order of writes hangs.
 *
 * Which names a request for several wants, and in which order, is written in its slot. Its
 * keys together are a key_id, too: that under the name SEVERAL.
 */
#ifndef SIM_KEY_ID_H
#define SIM_KEY_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/key.h"

enum {
  NAMES_MAX = 4,
  SEVERAL = NAMES_MAX, /* stands for the names that one wants at once */
  ORDERS = 72,         /* of two to four of four names, some of them twice */
  CALLERS_MAX = 12,
  PERMITS =
      2, /* of each name's semaphore, for most callers; others name 1 to PERMITS_MAX */
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

/* How many permits there are, of which this is one; 0: it is none. */
static inline uint16_t key_id_permits(int key_id) {
  return (uint16_t)(key_id >> KEY_ID_PERMITS & 3);
}

/* Several names have a slot above 0; a plain lock has none. */
static inline int key_id_make(int name, el_mode mode, int slot) {
  return slot << KEY_ID_SLOT | name << KEY_ID_NAME | (int)mode;
}

static inline int key_id_permit(int name, int slot, int permits) {
  return key_id_make(name, EL_MODE_PERMIT, slot) | permits << KEY_ID_PERMITS;
}

static inline bool key_id_is_note(int key_id) {
  return key_id_mode(key_id) >= EL_NOTE_DOWNGRADED;
}

/* The local queue that the key at |key_id| belongs to: its owners ask for this. */
static inline int key_id_queue(int key_id) {
  return key_id_is_multi(key_id) ? key_id : key_id & ((1 << KEY_ID_SLOT) - 1);
}

/* The key at the same name, of that slot. */
static inline int key_id_at_slot(int queue_id, int slot) {
  return queue_id | slot << KEY_ID_SLOT;
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

/* What |caller| writes that holds by the key at |key_id|: of each name there is one; but a
 * holder of a permit, which is not alone, writes what is its own. Readers write nothing. */
static inline int key_id_datum(int key_id, int caller) {
  return key_id_mode(key_id) != EL_MODE_PERMIT
             ? key_id_name(key_id)
             : NAMES_MAX + key_id_name(key_id) * CALLERS_MAX + caller;
}

/* The keys together of |caller|, who asks for several names for the |nth| time, from 0;
 * |order|, below ORDERS, says which they are. */
static inline int key_id_several(int caller, int order, int nth) {
  return key_id_make(SEVERAL, EL_MODE_MULTI,
                     1 + caller + CALLERS_MAX * (order + ORDERS * nth));
}

/* Returns the caller that asks for the multi-lock |several|. */
static inline int key_id_caller(int several) {
  return ((int)key_id_slot(several) - 1) % CALLERS_MAX;
}

/* The key_id of all keys of whom the one at |key_id| belongs to. */
static inline int key_id_whole(int key_id) {
  return key_id_is_multi(key_id)
             ? key_id_make(SEVERAL, EL_MODE_MULTI, (int)key_id_slot(key_id))
             : key_id;
}

/* The keys of several names, in |key_ids| of NAMES_MAX. Returns how many. */
int key_id_all_of_several(int several, int *key_ids);

/* The keys at |key_id|, in |key_ids| of NAMES_MAX, in the order in which they are asked for.
 * Returns how many. */
static inline int key_id_all(int key_id, int *key_ids) {
  key_ids[0] = key_id;
  return key_id_name(key_id) == SEVERAL ? key_id_all_of_several(key_id, key_ids)
                                        : 1;
}

/* That of the keys at |key_id| which stands in the queue of the key |beside|. */
static inline int key_id_of_name(int key_id, int beside) {
  return key_id_is_multi(key_id)
             ? key_id_make(key_id_name(beside), EL_MODE_MULTI,
                           (int)key_id_slot(key_id))
             : key_id;
}

/* The names of a key_id: a bit for each. */
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

/* Do |a| and |b| stand in one queue? */
static inline bool key_id_is_beside(int a, int b) {
  return (key_id_names(a) & key_id_names(b)) != 0;
}

/* And do their modes exclude each other there, but for how many permits there are? */
bool key_id_conflicts(int a, int b);

#endif
