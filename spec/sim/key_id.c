/* sim key_id: the keys that one lease can have in the queues. */
#include "key_id.h"

/* Takes the |nth| of the names that aren't |taken| yet. */
static int take_name(unsigned *taken, int nth) {
  int name = 0;
  for (;; name++) {
    if ((*taken & 1u << name) == 0 && nth-- == 0) break;
  }
  *taken |= 1u << name;
  return name;
}

int key_id_all(int key_id, int *key_ids) {
  int slot = (int)key_id_slot(key_id), n = 1;
  int order = (slot - 1) / CALLERS_MAX % ORDERS;
  unsigned taken = 0;
  key_ids[0] = key_id;
  if (key_id_name(key_id) != SEVERAL) return 1;
  n = 2 + order % (NAMES_MAX - 1);
  order /= NAMES_MAX - 1;
  for (int i = 0; i < n; i++) {
    int name = take_name(&taken, order % (NAMES_MAX - i));
    order /= NAMES_MAX - i;
    key_ids[i] = key_id_make(name, EL_MODE_MULTI, slot);
  }
  return n;
}

bool key_id_is_beside(int a, int b) {
  int of_a[NAMES_MAX], of_b[NAMES_MAX];
  int n_a = key_id_all(a, of_a), n_b = key_id_all(b, of_b);
  for (int i = 0; i < n_a * n_b; i++) {
    if (key_id_name(of_a[i / n_b]) == key_id_name(of_b[i % n_b])) return true;
  }
  return false;
}
