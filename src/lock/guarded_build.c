/* guarded_build: how a guarded transaction is made and waited for, on Lua's side. */
#include <stdlib.h>

#include "base/clock.h"
#include "lock/guarded_int.h"
#include "rules/kind.h"

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
  for (size_t i = 0; i < guarded->n_guards; i++) {
    el_bytes_free(guarded->guards[i].key);
  }
  free(guarded->guards);
  el_bytes_free(guarded->order_key);
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

bool el_guarded_guard(el_guarded *guarded, el_bytes key, int64_t rev) {
  el_compare *guards =
      realloc(guarded->guards, (guarded->n_guards + 2) * sizeof *guards);
  el_compare *added;
  if (guards == NULL) return false;
  guarded->guards = guards;
  added = &guards[guarded->n_guards++];
  *added = (el_compare){.test = EL_CREATE_REV_IS, .rev = rev};
  return copy_bytes(&added->key, key);
}

/* |text| has EL_KEY_SIZE bytes. */
static el_bytes key_of(const el_lock *lk, const el_place *note, char *text) {
  el_bytes name = el_keys_name(el_lock_keys(lk));
  return (el_bytes){text, el_key_write(text, name, note)};
}

/* The key on whose mod_revision the order of the writes hangs: our own, or, where
 * that must not change, a note beside it. */
static el_bytes order_key(const el_lock *lk, char *text) {
  el_place note;
  bool has_note = el_kind_order_note(el_lock_mode(lk), el_lock_token(lk),
                                     el_lock_share(lk), &note);
  return has_note ? key_of(lk, &note, text) : el_keys_own(el_lock_keys(lk));
}

bool el_guarded_guard_lock(el_guarded *guarded, el_lock *lk) {
  char text[EL_KEY_SIZE];
  const el_keys *keys = el_lock_keys(lk);
  guarded->lk = el_lock_ref(lk);
  while (keys != NULL &&
         el_guarded_guard(guarded, el_keys_own(keys), el_lock_token(lk))) {
    keys = keys->next;
  }
  return keys == NULL && copy_bytes(&guarded->order_key, order_key(lk, text));
}

bool el_guarded_downgrade(el_guarded *guarded, el_lock *lk) {
  char key[EL_KEY_SIZE];
  el_place note = el_kind_downgrade_note(el_lock_token(lk));
  el_op put = {.kind = EL_OP_PUT,
               .key = key_of(lk, &note, key),
               .lease = el_lock_lease(lk)};
  guarded->downgrades = true;
  return el_guarded_guard_lock(guarded, lk) && el_guarded_add(guarded, &put);
}

bool el_guarded_proclaim(el_guarded *guarded, el_lock *lk, el_bytes value) {
  el_op put = {.kind = EL_OP_PUT,
               .key = el_keys_own(el_lock_keys(lk)),
               .value = value,
               .lease = el_lock_lease(lk)};
  guarded->proclaims = true;
  return el_guarded_guard_lock(guarded, lk) && el_guarded_add(guarded, &put);
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
