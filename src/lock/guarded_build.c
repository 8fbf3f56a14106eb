/* guarded_build: how a guarded transaction is made and waited for, on Lua's side. */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lock/guarded_int.h"

el_guarded *el_guarded_new(el_handle *handle, el_guarded_world *world) {
  el_guarded *guarded = calloc(1, sizeof *guarded);
  if (guarded == NULL) return NULL;
  atomic_init(&guarded->refs, 1);
  guarded->handle = el_handle_ref(handle);
  guarded->world = world;
  guarded->request.counted_as = offsetof(el_stats, calls);
  el_completion_init(&guarded->news);
  return guarded;
}

void el_guarded_unref(el_guarded *guarded) {
  if (atomic_fetch_sub(&guarded->refs, 1) != 1) return;
  for (size_t i = 0; i < guarded->n_ops; i++) {
    el_bytes_free(guarded->ops[i].key);
    el_bytes_free(guarded->ops[i].range_end);
    el_bytes_free(guarded->ops[i].value);
  }
  free(guarded->ops);
  el_bytes_free(guarded->guards[0].key); /* of both */
  if (guarded->answer != NULL) {
    el_txn_answer_free(guarded->answer);
  }
  if (guarded->lk != NULL) {
    el_lock_unref(guarded->lk);
  }
  el_completion_destroy(&guarded->news);
  el_handle_unref(guarded->handle);
  free(guarded);
}

void el_guarded_drop(el_guarded *guarded) {
  if (!el_handle_is_forked(guarded->handle)) {
    atomic_store(&guarded->dropped, true);
    el_guarded_unref(guarded);
  }
}

static bool copy_bytes(el_bytes *to, el_bytes from) {
  *to = (el_bytes){el_bytes_copy(from), from.len};
  return to->data != NULL;
}

bool el_guarded_add(el_guarded *guarded, const el_op *op) {
  el_op *ops = realloc(guarded->ops, (guarded->n_ops + 1) * sizeof *ops);
  el_op *added;
  if (ops == NULL) return false;
  guarded->ops = ops;
  added = &ops[guarded->n_ops++];
  *added = *op;
  added->key = added->range_end = added->value = (el_bytes){0};
  guarded->writes = guarded->writes || op->kind != EL_OP_RANGE;
  guarded->request.by_itself =
      guarded->writes && (guarded->n_ops > 1 || op->range_end.len > 0);
  return copy_bytes(&added->key, op->key) &&
         copy_bytes(&added->range_end, op->range_end) &&
         copy_bytes(&added->value, op->value);
}

bool el_guarded_guard(el_guarded *guarded, el_bytes key, int64_t rev,
                      int64_t lease) {
  el_bytes copy;
  assert(guarded->guards[0].key.len == 0 && guarded->lk == NULL);
  if (!copy_bytes(&copy, key)) return false;
  guarded->guards[0] =
      (el_compare){.test = EL_CREATE_REV_IS, .key = copy, .rev = rev};
  guarded->guards[1] =
      (el_compare){.test = EL_LEASE_IS, .key = copy, .rev = lease};
  return true;
}

void el_guarded_guard_lock(el_guarded *guarded, el_lock *lk) {
  assert(guarded->guards[0].key.len == 0 && guarded->lk == NULL);
  guarded->lk = el_lock_ref(lk);
}

bool el_guarded_downgrade(el_guarded *guarded, el_lock *lk) {
  char key[EL_KEY_SIZE];
  el_writer who = el_lock_writer(lk);
  el_op put = el_recipe_downgrade(&who, key);
  guarded->downgrades = true;
  el_guarded_guard_lock(guarded, lk);
  return el_guarded_add(guarded, &put);
}

bool el_guarded_proclaim(el_guarded *guarded, el_lock *lk, el_bytes value) {
  el_writer who = el_lock_writer(lk);
  el_op put = el_recipe_proclaim(&who, value);
  guarded->proclaims = true;
  el_guarded_guard_lock(guarded, lk);
  return el_guarded_add(guarded, &put);
}

/* ---- waited for ---- */

const el_txn_answer *el_guarded_wait(el_guarded *guarded, int64_t timeout_ms) {
  return el_handle_wait(guarded->handle, &guarded->news, EL_GUARDED_ANSWERED,
                        timeout_ms)
             ? guarded->answer
             : NULL;
}

bool el_guarded_arm(el_guarded *guarded, el_wake *wake, uint64_t id) {
  return el_completion_arm(&guarded->news, EL_GUARDED_ANSWERED, wake, id);
}
