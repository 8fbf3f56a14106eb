/* lock_life: how long there is a lock: until Lua's side and the I/O thread are both done
 * with it, and no command about it is on its way. */
#include <stdlib.h>

#include "lock/lock_int.h"

el_lock *el_lock_ref(el_lock *lk) {
  atomic_fetch_add(&lk->refs, 1);
  return lk;
}

void el_lock_unref(el_lock *lk) {
  if (atomic_fetch_sub(&lk->refs, 1) != 1) return;
  if (lk->claim != NULL) {
    el_claim_unref(lk->claim);
  }
  el_completion_destroy(&lk->news);
  el_handle_unref(lk->handle);
  el_keys_destroy(&lk->keys);
  el_bytes_free(lk->owner.name);
  el_bytes_free(lk->owner.value);
  free(lk->err);
  free(lk->release_err);
  free(lk);
}

bool el_lock_post(el_lock *lk, el_command *command) {
  el_lock_ref(lk);
  if (el_handle_post(lk->handle, command)) return true;
  el_lock_unref(lk);
  return false;
}
