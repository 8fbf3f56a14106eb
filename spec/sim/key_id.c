/* sim key_id: numbers for the keys that one lease can have in the queues. */
#include "key_id.h"

#include "protocol/conflict_matrix.h"

/* Takes the |nth| of the names that are not |taken|. */
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
