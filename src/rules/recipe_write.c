/* recipe_write: the transactions of a holder's guarded writes. */
#include <assert.h>

#include "rules/recipe_int.h"

/* Writes the key of |note| under the name of |who| to |text| (EL_KEY_SIZE bytes). */
static el_bytes note_key(const el_writer *who, const el_place *note,
                         char *text) {
  return (el_bytes){text, el_key_write(text, el_keys_name(who->keys), note)};
}

/* The key on whose mod_revision the order of the writes hangs: our own, or, where that
 * must not change, a note beside it. */
static el_bytes order_key(const el_writer *who, char *text) {
  el_place note = el_kind_order_note(who->rev);
  assert(who->keys->mode != EL_MODE_READ); /* which only reads */
  return el_kind_has_notes(who->keys->mode) ? note_key(who, &note, text)
                                            : el_keys_own(who->keys);
}

/* A key that somebody has taken off its lease guards nothing: others no longer wait for it. If
 * the guards don't hold, it is seen which of them. */
static void build_read(el_recipe *to, const el_writer *who, const el_op *ops,
                       size_t n_ops) {
  size_t n = el_recipe_compare_own(who->keys, who->rev, to->compares);
  for (const el_keys *own = who->keys; own != NULL; own = own->next) {
    to->compares[n++] = (el_compare){
        .test = EL_LEASE_IS, .key = el_keys_own(own), .rev = own->lease};
  }
  to->txn = (el_txn){to->compares, n, ops, n_ops, to->otherwise, 0};
  to->txn.n_otherwise = el_recipe_read_own(who->keys, to->otherwise);
}

void el_recipe_build_guarded(el_recipe *to, const el_writer *who,
                             const el_write_order *order, const el_op *ops,
                             size_t n_ops) {
  build_read(to, who, ops, n_ops);
  if (order == NULL) return;
  to->compares[to->txn.n_compares++] =
      (el_compare){.test = EL_MOD_REV_IS,
                   .key = order_key(who, to->text),
                   .rev = order->mod_rev};
}

/* A note may not be there yet. Of our own key everything else stays as it is. */
void el_recipe_build_touch(el_recipe *to, const el_writer *who) {
  bool is_own = !el_kind_has_notes(who->keys->mode);
  to->then[0] = (el_op){.kind = EL_OP_PUT,
                        .key = order_key(who, to->text),
                        .touch = is_own,
                        .lease = is_own ? 0 : who->keys->lease};
  build_read(to, who, to->then, 1);
}

el_op el_recipe_downgrade(const el_writer *who, char *key) {
  el_place note = el_kind_downgrade_note(who->rev);
  return (el_op){.kind = EL_OP_PUT,
                 .key = note_key(who, &note, key),
                 .lease = who->keys->lease};
}

el_op el_recipe_proclaim(const el_writer *who, el_bytes value) {
  return (el_op){.kind = EL_OP_PUT,
                 .key = el_keys_own(who->keys),
                 .value = value,
                 .lease = who->keys->lease};
}

/* Judges what the looks have found of the keys of the hold. */
static void read_own(const el_writer *who, const el_txn_answer *answer,
                     el_write_event *event) {
  bool are_there = true, is_detached = false;
  for (size_t i = 0; i < answer->n_results; i++) {
    const el_op_result *look = &answer->results[i];
    if (look->n_kvs != 1 || look->kvs[0].create_rev != who->rev) {
      are_there = false;
    } else if (el_recipe_is_detached(who->keys, look)) {
      is_detached = true;
    }
  }
  event->whole = are_there && !is_detached;
  event->detached = are_there && is_detached;
}

void el_recipe_read_guarded(const el_writer *who, const el_txn_answer *answer,
                            el_write_event *event) {
  *event =
      (el_write_event){.kind = EL_WRITE_ANSWER,
                       .outcome = el_outcome_of(&answer->err, answer->sent_ms),
                       .succeeded = answer->succeeded,
                       .rev = answer->rev};
  if (event->outcome.is_done && !event->succeeded && who->keys != NULL) {
    read_own(who, answer, event);
  }
}
