/* sim key_id: numbers that identify the keys of one lease. */
#include "key_id.h"

#include "protocol/conflict_matrix.h"

/* Returns the |nth| name, from 0, that is not in the set |*taken|, and adds it to the set. */
static int take_name(unsigned *taken, int nth) {
  int name = 0;
  for (;; name++) {
    if ((*taken & 1u << name) == 0 && nth-- == 0) break;
  }
  *taken |= 1u << name;
  return name;
}

int key_id_all_of_several(int several, int *key_ids) {
  int slot = (int)key_id_slot(several);
  int order = (slot - 1) / CALLERS_MAX % ORDERS;
  int n = 2 + order % (NAMES_MAX - 1);
  unsigned taken = 0;
  order /= NAMES_MAX - 1;
  for (int i = 0; i < n; i++) {
    int name = take_name(&taken, order % (NAMES_MAX - i));
    order /= NAMES_MAX - i;
    key_ids[i] = key_id_make(name, EL_MODE_MULTI, slot);
  }
  return n;
}

bool key_id_conflicts(int a, int b) {
  return el_modes_conflict(key_id_mode(a), key_id_mode(b)) &&
         key_id_is_beside(a, b);
}
